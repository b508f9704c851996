//! Every join rule, over members that come in any order, fail, or do not come.

use coppice_messages::{
    Event, Value, event,
    event::{join::SlotOutcome, run::Reason},
};

use crate::world::{Weather, World, comparison, input, plan_of};

/// A tree whose root asks `width` members one question and ends with what the join says.
fn voting(width: u32, join: &str, seed: u64, failing: fn(&Value) -> bool) -> World {
    let mut world = World::new(
        plan_of(&yaml(width, join)),
        input(0),
        seed,
        Weather::default(),
    );
    world.failing = failing;
    world.run();
    assert_eq!(world.count("join.decided"), 1);
    assert_eq!(world.count("child.delegated"), world.count("child.settled"));
    world
}

fn outcomes(world: &World) -> (Vec<SlotOutcome>, bool) {
    let decided = world.events().find_map(|(_, event)| match event {
        Event::Join(event::join::Event::Decided(decided)) => {
            Some((decided.outcomes.clone(), decided.met))
        }
        _ => None,
    });
    decided.expect("a join was decided")
}

fn reason(world: &World) -> Reason {
    world.ended().expect("it ended").reason
}

fn nobody(_: &Value) -> bool {
    false
}

pub fn first(item: &Value) -> bool {
    *item == Value::Int(0)
}

fn first_two(item: &Value) -> bool {
    first(item) || *item == Value::Int(1)
}

#[test]
fn a_quorum_of_two_of_three_is_met_although_one_fails() {
    for seed in 1..=20 {
        let world = voting(
            3,
            "{ wait: { quorum: 2 }, on_failure: collect }",
            seed,
            first,
        );
        assert_eq!(reason(&world), Reason::Succeeded, "seed {seed}");
        assert!(outcomes(&world).1);
    }
}

#[test]
fn a_quorum_that_cannot_come_any_more_is_decided_at_once_and_not_met() {
    for seed in 1..=20 {
        let world = voting(
            3,
            "{ wait: { quorum: 2 }, on_failure: collect }",
            seed,
            first_two,
        );
        assert_eq!(
            (reason(&world), outcomes(&world).1),
            (Reason::Failed, false),
            "seed {seed}"
        );
    }
}

#[test]
fn any_is_met_by_the_first_success_and_the_others_are_cancelled() {
    for seed in 1..=20 {
        let world = voting(6, "{ wait: any, on_failure: collect }", seed, nobody);
        assert_eq!(reason(&world), Reason::Succeeded);
        let (outcomes, _) = outcomes(&world);
        let succeeded = outcomes
            .iter()
            .filter(|outcome| **outcome == SlotOutcome::Ended(Reason::Succeeded))
            .count();
        assert_eq!(succeeded, 1, "seed {seed}: {outcomes:?}");
        // The cancel of each of them begins at itself: its parent is not cancelled. So each gives its receipt.
        let requested = world.count("run.cancel_requested");
        assert!(requested > 0, "seed {seed}");
        assert_eq!(world.count("run.cancel_settled"), requested, "seed {seed}");
    }
}

#[test]
fn let_finish_lets_the_others_finish_and_the_run_waits_for_them() {
    let world = voting(
        4,
        "{ wait: any, on_failure: collect, then: let_finish }",
        3,
        nobody,
    );
    assert_eq!(world.count("run.cancel_requested"), 0);
    let succeeded = world.events().filter(|(_, event)| matches!(event, Event::Run(event::run::Event::Ended(ended)) if ended.reason == Reason::Succeeded));
    assert_eq!(succeeded.count(), 5);
}

#[test]
fn fail_fast_fails_with_the_first_failure_and_cancels_the_rest() {
    for seed in 1..=20 {
        let world = voting(6, "{ wait: all, on_failure: fail_fast }", seed, first);
        assert_eq!(
            (reason(&world), outcomes(&world).1),
            (Reason::Failed, false),
            "seed {seed}"
        );
        assert!(
            outcomes(&world).0.contains(&SlotOutcome::Open),
            "seed {seed}"
        );
    }
}

#[test]
fn collect_waits_for_every_member_and_says_who_failed() {
    let world = voting(3, "{ wait: all, on_failure: collect }", 5, first);
    let ok = SlotOutcome::Ended(Reason::Succeeded);
    assert_eq!(
        outcomes(&world),
        (
            vec![SlotOutcome::Ended(Reason::Failed), ok.clone(), ok],
            true
        )
    );
}

#[test]
fn different_answers_to_one_question_fail_the_join_that_says_so_and_go_to_a_person_where_it_says_so()
 {
    let world = voting(
        3,
        "{ wait: all, on_failure: collect, conflict: fail }",
        5,
        nobody,
    );
    assert_eq!(reason(&world), Reason::Failed);
    let world = voting(
        3,
        "{ wait: all, on_failure: collect, conflict: person }",
        5,
        nobody,
    );
    assert_eq!(reason(&world), Reason::NeedsHuman);
    let world = voting(
        3,
        "{ wait: all, on_failure: collect, conflict: majority }",
        5,
        nobody,
    );
    assert_eq!(
        reason(&world),
        Reason::Failed,
        "three different answers have no majority"
    );
    let world = voting(
        3,
        "{ wait: all, on_failure: collect, conflict: first }",
        5,
        nobody,
    );
    assert_eq!(reason(&world), Reason::Succeeded);
}

#[test]
fn a_fan_out_that_can_never_be_whole_makes_no_child() {
    let mut world = World::new(comparison(), input(400), 1, Weather::default());
    let ended = world.run();
    let seen = (ended.reason, ended.class.as_deref());
    assert_eq!(
        seen,
        (Reason::Failed, Some("budget_refused")),
        "{}",
        ended.message
    );
    assert_eq!(world.count("child.delegated"), 0);
}

pub fn yaml(width: u32, join: &str) -> String {
    format!(
        "
topology: voting
version: 1
contract: default
result_schema: incident_summary_v1
input: {{ type: object }}
agents:
  voter: {{ model: scripted/summarise, tools: [read_incident, search_runbook], result_schema: incident_summary_v1 }}
nodes:
  vote:
    fan_out: {{ width: {width}, agent: voter, slot: vote, concurrency: 3 }}
    delegation: {{ objective: Decide, authority_scope: {{ access: read_only }}, budget: {{ steps: 12, tokens: 18000, wall_clock: 1m }} }}
    join: {join}
  done:
    after: [vote]
    end: {{ reason: succeeded, answer: {{ incident: x, severity: high, summary: {{ from: vote, at: /outcomes/0 }} }}, evidence: [ {{ check: find_ticket, arguments: {{ request_id: x }}, expect: {{ eq: [ {{ from: check, at: /count }}, 0 ] }} }} ] }}
"
    )
}
