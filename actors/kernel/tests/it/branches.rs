//! Joins of parallel branches: decided once by their rule, whatever fails inside of a branch, stays out or comes late (B94).

use coppice_messages::{
    Event,
    event::{
        effect,
        join::{self, Decided, SlotOutcome},
        node,
        run::{Ended, Reason},
    },
};
use proptest::prelude::*;

use crate::{
    arrivals::on_failure_and_then,
    control,
    world::{Weather, World},
};

const OK: &str = "call: { tool: search_runbook, arguments: { text: x } }";
/// Leads to an argument that is not there.
const FAILS: &str =
    "call: { tool: read_incident, arguments: { id: { from: input, at: /incidents/9 } } }";
const NEVER: &str = "wait: { signal: { name: never, timeout: 5m } }";

fn decisions(world: &World, of: &str) -> Vec<Decided> {
    let decided = world.events().filter_map(|(_, event)| match event {
        Event::Join(join::Event::Decided(decided)) if decided.node.as_str() == of => {
            Some(decided.clone())
        }
        _ => None,
    });
    decided.collect()
}

/// Names of nodes that ended in this way, in the order in which they did.
fn ended(world: &World, is: fn(&node::Outcome) -> bool) -> Vec<String> {
    let of = world.events().filter_map(|(_, event)| match event {
        Event::Node(node::Event::Ended(ended)) if is(&ended.outcome) => {
            Some(ended.node.to_string())
        }
        _ => None,
    });
    of.collect()
}

fn skipped(outcome: &node::Outcome) -> bool {
    *outcome == node::Outcome::Skipped
}

fn cancelled(outcome: &node::Outcome) -> bool {
    matches!(outcome, node::Outcome::Failed { class, .. } if class == "cancelled")
}

/// Branches a, b1 to b3, c, and what gathers them.
fn three(a: &str, b1: &str, c: &str, join: &str) -> String {
    format!(
        "
  start: {{ {OK} }}
  a: {{ after: [start], {a} }}
  b1: {{ after: [start], {b1} }}
  b2: {{ after: [b1], {OK} }}
  b3: {{ after: [b2], {OK} }}
  c: {{ after: [start], {c} }}
  last: {{ join: {{ of: [a, b3, c], {join} }} }}
"
    )
}

struct Seen {
    end: Ended,
    decided: Decided,
}

fn run(nodes: &str) -> (World, Seen) {
    let mut world = control::world(nodes, 1, Weather::default());
    let end = world.run();
    let mut decided = decisions(&world, "last");
    assert_eq!(decided.len(), 1, "a join fires once");
    let decided = decided.remove(0);
    (world, Seen { end, decided })
}

const DONE: SlotOutcome = SlotOutcome::Ended(Reason::Succeeded);

#[test]
fn a_branch_that_fails_before_its_last_node_is_gathered_like_one_that_fails_there() {
    for (rule, reason, met) in [
        ("wait: all, on_failure: collect", Reason::Succeeded, true),
        ("wait: all, on_failure: fail_fast", Reason::Failed, false),
        (
            "wait: { quorum: 2 }, on_failure: collect",
            Reason::Succeeded,
            true,
        ),
        (
            "wait: { quorum: 3 }, on_failure: collect",
            Reason::Failed,
            false,
        ),
        (
            "wait: any, on_failure: collect, then: let_finish",
            Reason::Succeeded,
            true,
        ),
    ] {
        let (_, seen) = run(&three(OK, FAILS, OK, rule));
        assert_eq!((seen.end.reason, seen.decided.met), (reason, met), "{rule}");
        let class = (!met).then_some("join_failed");
        assert_eq!(seen.end.class.as_deref(), class, "{rule}");
    }
}

#[test]
fn every_slot_of_a_failed_branch_has_its_outcome_and_the_failure_says_where_it_began() {
    let (world, seen) = run(&three(
        OK,
        FAILS,
        OK,
        "wait: { quorum: 3 }, on_failure: collect",
    ));
    assert_eq!(seen.decided.outcomes[1], SlotOutcome::Unreachable);
    let failed = ended(&world, |outcome| {
        matches!(outcome, node::Outcome::Failed { .. })
    });
    assert_eq!(failed[..3], ["b1", "b2", "b3"]);
    assert_eq!(failed.last().map(String::as_str), Some("last"));
    let message = &seen.end.message;
    assert!(
        message.contains("first b3: b1 failed before it"),
        "{message}"
    );
    assert!(message.contains("(result_invalid)"), "{message}");
}

#[test]
fn a_failure_before_the_fork_belongs_to_no_branch_and_ends_the_run() {
    let nodes = three(OK, OK, OK, "wait: all, on_failure: collect").replacen(OK, FAILS, 1);
    let mut world = control::world(&nodes, 1, Weather::default());
    let end = world.run();
    assert_eq!(
        (end.reason, end.class.as_deref()),
        (Reason::Failed, Some("result_invalid"))
    );
    assert!(decisions(&world, "last").is_empty());
}

#[test]
fn a_node_beside_the_join_that_stands_behind_a_gathered_failure_is_skipped() {
    let nodes = three(OK, FAILS, OK, "wait: all, on_failure: collect")
        .replace("  last: {", "  gathered: {")
        + &format!(
            "  beside: {{ after: [b3], {OK} }}\n  last: {{ after: [gathered, beside], {OK} }}\n"
        );
    for nodes in [
        nodes.clone(),
        nodes.replace(FAILS, OK).replacen(
            &format!("after: [b2], {OK}"),
            &format!("after: [b2], {FAILS}"),
            1,
        ),
    ] {
        let mut world = control::world(&nodes, 1, Weather::default());
        assert_eq!(world.run().reason, Reason::Succeeded);
        assert_eq!(ended(&world, skipped), ["beside"]);
    }
    // With a way beside the last node the first one belongs to no branch.
    let from_the_middle = nodes.replace("beside: { after: [b3]", "beside: { after: [b2]");
    let mut world = control::world(&from_the_middle, 1, Weather::default());
    assert_eq!(world.run().class.as_deref(), Some("result_invalid"));
}

#[test]
fn what_is_left_of_the_branches_is_stopped_when_the_join_is_decided_without_them() {
    let rule = "wait: { quorum: 1 }, on_failure: collect";
    let (world, seen) = run(&three(OK, NEVER, NEVER, rule));
    assert_eq!(seen.end.reason, Reason::Succeeded);
    assert_eq!(
        seen.decided.outcomes,
        [DONE, SlotOutcome::Open, SlotOutcome::Open]
    );
    let stopped = ended(
        &world,
        |outcome| matches!(outcome, node::Outcome::Failed { class, .. } if class == "cancelled"),
    );
    assert_eq!(stopped, ["b1", "c"]);
    assert_eq!(ended(&world, skipped), ["b2", "b3"]);
    assert!(
        world.now
            < world
                .start_of_time()
                .plus(coppice_messages::Millis(300_000))
    );
}

#[test]
fn what_a_stopped_branch_had_put_off_is_not_sent_for_it_and_the_next_that_means_it_sends_it_once() {
    let ticket = "call: { tool: create_ticket, arguments: { title: t, body: {}, request_id: r } }";
    let nodes = format!(
        "
  a: {{ wait: {{ timer: 100ms }} }}
  b: {{ {ticket} }}
  gathered: {{ join: {{ of: [a, b], wait: any, then: cancel }} }}
  last: {{ after: [gathered], {ticket} }}
"
    );
    let always = Weather {
        retryable: 1,
        ..Weather::default()
    };
    let mut world = control::world(&nodes, 1, always);
    world.prepare();
    while decisions(&world, "gathered").is_empty() {
        world.step();
    }
    world.weather = Weather::default();
    assert_eq!(world.run_on().reason, Reason::Succeeded);
    assert_eq!(ended(&world, cancelled), ["b"]);
    let intended = world.events().filter_map(|(_, event)| match event {
        Event::Effect(effect::Event::Intended(intended)) => Some(intended.node.to_string()),
        _ => None,
    });
    assert_eq!(intended.collect::<Vec<_>>(), ["b", "last"]);
    assert_eq!(world.desk.values().sum::<u32>(), 1);
}

#[test]
fn hundreds_of_nodes_that_end_at_once_do_so_over_several_commits() {
    let chain = |first: &str, count: usize| -> String {
        let node = |at: usize| {
            let (before, body) = if at == 0 {
                (String::new(), first)
            } else {
                (format!("after: [n{}], ", at - 1), OK)
            };
            format!("  n{at}: {{ {before}{body} }}\n")
        };
        (0..count).map(node).collect()
    };
    let join = |then: &str| {
        format!(
            "  quick: {{ {OK} }}\n  last: {{ join: {{ of: [quick, n269], wait: any, on_failure: collect, then: {then} }} }}\n"
        )
    };
    for (first, then) in [(NEVER, "cancel"), (FAILS, "let_finish")] {
        let mut world = control::world(&(chain(first, 270) + &join(then)), 1, Weather::default());
        assert_eq!(world.run().reason, Reason::Succeeded, "{then}");
        let of_chain = ended(&world, |outcome| *outcome != node::Outcome::Done);
        assert!(of_chain.len() <= 270, "{then}");
    }
    let waits: String = (0..270)
        .map(|at| format!("  w{at}: {{ {NEVER} }}\n"))
        .collect();
    let names: Vec<_> = (0..270).map(|at| format!("w{at}")).collect();
    let many = format!(
        "{waits}  quick: {{ {OK} }}\n  last: {{ join: {{ of: [quick, {}], wait: any, then: cancel }} }}\n",
        names.join(", ")
    );
    let mut world = control::world(&many, 1, Weather::default());
    assert_eq!(world.run().reason, Reason::Succeeded);
    let left = ended(&world, cancelled).len() + ended(&world, skipped).len();
    assert_eq!(left, 270);
}

#[test]
fn branches_that_are_let_finish_go_on_behind_the_decision() {
    let rule = "wait: any, on_failure: collect, then: let_finish";
    let timer = "wait: { timer: 1m }";
    let (world, seen) = run(&three(OK, timer, timer, rule).replace("x }", "y }"));
    assert_eq!(seen.end.reason, Reason::Succeeded);
    let stopped = ended(&world, |outcome| {
        matches!(outcome, node::Outcome::Failed { .. })
    });
    assert!(stopped.is_empty(), "{stopped:?}");
}

#[test]
fn a_join_whose_deadline_passes_counts_who_has_not_come_as_timed_out() {
    for (rule, reason, class) in [
        (
            "wait: all, on_failure: collect, deadline: 1m",
            Reason::Succeeded,
            None,
        ),
        (
            "wait: all, on_failure: fail_fast, deadline: 1m",
            Reason::Failed,
            Some("join_failed"),
        ),
        (
            "wait: { quorum: 3 }, on_failure: collect, deadline: 1m",
            Reason::Failed,
            Some("join_failed"),
        ),
    ] {
        let (world, seen) = run(&three(OK, OK, NEVER, rule));
        assert_eq!(
            (seen.end.reason, seen.end.class.as_deref()),
            (reason, class),
            "{rule}"
        );
        let late = SlotOutcome::Ended(Reason::TimedOut);
        assert_eq!(seen.decided.outcomes, [DONE, DONE, late], "{rule}");
        let took = world.now.since(world.start_of_time()).0;
        assert!((60_000..120_000).contains(&took), "{rule}: {took} ms");
    }
}

#[test]
fn a_join_within_a_branch_of_another_is_gathered_by_the_outer_one() {
    let nodes = format!(
        "
  x: {{ {OK} }}
  y1: {{ {FAILS} }}
  y2: {{ after: [y1], {OK} }}
  inner: {{ join: {{ of: [x, y2], wait: all, on_failure: fail_fast }} }}
  behind: {{ after: [inner], {OK} }}
  z: {{ {OK} }}
  last: {{ join: {{ of: [behind, z], wait: any, on_failure: collect, then: let_finish }} }}
"
    );
    let (world, seen) = run(&nodes);
    assert_eq!(seen.end.reason, Reason::Succeeded);
    assert_eq!(decisions(&world, "inner").len(), 1);
    assert!(!decisions(&world, "inner")[0].met);
}

#[test]
fn the_value_of_a_join_has_results_and_outcomes_in_the_order_of_its_list() {
    let nodes = three(OK, FAILS, OK, "wait: all, on_failure: collect")
        + "  file: { after: [last], call: { tool: create_ticket, arguments: { title: t, body: { from: last }, request_id: r } } }\n";
    let nodes = nodes
        .replace("  last: {", "  gathered: {")
        .replace("[last]", "[gathered]")
        .replace("from: last", "from: gathered")
        .replace("  file: {", "  last: {");
    let mut world = control::world(&nodes, 1, Weather::default());
    assert_eq!(world.run().reason, Reason::Succeeded);
    let filed = world.events().find_map(|(_, event)| match event {
        Event::Effect(effect::Event::Intended(intended))
            if intended.tool.as_str() == "create_ticket" =>
        {
            Some(intended.arguments.clone())
        }
        _ => None,
    });
    let coppice_messages::Payload::Inline(filed) = filed.expect("a ticket is intended") else {
        panic!("a small body")
    };
    let words = filed.at("/body/outcomes").expect("outcomes").to_string();
    assert_eq!(words, r#"["succeeded","unreachable","succeeded"]"#);
    assert_eq!(
        filed
            .at("/body/results/1")
            .map(ToString::to_string)
            .as_deref(),
        Some("null")
    );
    assert!(filed.at("/body/results/2/id").is_some());
}

#[test]
fn each_way_of_a_branch_can_have_an_end_of_its_own() {
    for (condition, reason) in [
        ("eq: [ 1, 1 ]", Reason::Succeeded),
        ("eq: [ 1, 2 ]", Reason::Refused),
    ] {
        let nodes = format!(
            "
  choose: {{ branch: {{ cases: [ {{ when: {{ {condition} }}, to: [last] }} ], otherwise: [say_no] }} }}
  say_no: {{ after: [choose], {OK} }}
  no: {{ after: [say_no], end: {{ reason: refused }} }}
  last: {{ after: [choose], {OK} }}
"
        );
        let mut world = control::world(&nodes, 1, Weather::default());
        assert_eq!(world.run().reason, reason, "{condition}");
        assert_eq!(world.count("effect.intended"), 1);
    }
}

/// One branch: its nodes in order.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Works,
    Fails,
    Waits,
    NotTaken,
}

#[derive(Debug, Clone)]
struct Drawn {
    branches: Vec<Vec<Part>>,
    quorum: Option<usize>,
    fail_fast: bool,
    let_finish: bool,
    seed: u64,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let part = prop_oneof![
        4 => Just(Part::Works), 2 => Just(Part::Fails), 1 => Just(Part::Waits), 1 => Just(Part::NotTaken)
    ];
    let branch = prop::collection::vec(part, 1..=3);
    (
        prop::collection::vec(branch, 1..=4),
        prop::option::of(1..=4_usize),
        any::<bool>(),
        any::<bool>(),
        1..10_000_u64,
    )
        .prop_map(|(branches, quorum, fail_fast, let_finish, seed)| Drawn {
            quorum: quorum.map(|quorum| quorum.min(branches.len())),
            branches,
            fail_fast,
            let_finish,
            seed,
        })
}

impl Drawn {
    fn yaml(&self) -> String {
        let mut nodes = String::new();
        let mut last = Vec::new();
        for (at, branch) in self.branches.iter().enumerate() {
            let mut before = String::new();
            for (nth, part) in branch.iter().enumerate() {
                let name = format!("n{at}x{nth}");
                let body = match part {
                    Part::Works | Part::NotTaken => OK,
                    Part::Fails => FAILS,
                    Part::Waits => "wait: { timer: 1m }",
                };
                if *part == Part::NotTaken {
                    let choice = format!("c{at}x{nth}");
                    nodes += &format!(
                        "  {choice}: {{ {before}branch: {{ cases: [ {{ when: {{ eq: [ 1, 2 ] }}, to: [{name}] }} ], otherwise: [] }} }}\n"
                    );
                    before = format!("after: [{choice}], ");
                }
                nodes += &format!("  {name}: {{ {before}{body} }}\n");
                before = format!("after: [{name}], ");
            }
            last.push(format!("n{at}x{}", branch.len() - 1));
        }
        let wait = self
            .quorum
            .map_or("all".to_owned(), |quorum| format!("{{ quorum: {quorum} }}"));
        let rest = on_failure_and_then(self.fail_fast, self.let_finish);
        let of = last.join(", ");
        nodes + &format!("  last: {{ join: {{ of: [{of}], wait: {wait}, {rest} }} }}\n")
    }

    /// What a branch comes to when it is let alone: whether it succeeded; none when it is not taken.
    fn alone(branch: &[Part]) -> Option<bool> {
        let decisive = |part: &&Part| matches!(part, Part::Fails | Part::NotTaken);
        match branch.iter().find(decisive) {
            Some(Part::NotTaken) => None,
            Some(_) => Some(false),
            None => Some(true),
        }
    }
}

proptest! {
    #[test]
    fn a_join_of_drawn_branches_is_decided_once_as_its_rule_says_over_every_restart(drawn in drawn()) {
        // A branch that is not taken after a failure cannot be told apart from one before it: the choice itself fails then.
        let weather = Weather { host_dies: 10, ..Weather::default() };
        let mut world = control::world(&drawn.yaml(), drawn.seed, weather);
        let end = world.run();
        let decided = decisions(&world, "last");
        let came: Vec<bool> = drawn.branches.iter().filter_map(|branch| Drawn::alone(branch)).collect();
        if came.is_empty() {
            // Nothing can be gathered: the join is skipped with all that stands behind it, or a quorum that cannot come is not met.
            prop_assert!(decided.iter().all(|decided| !decided.met));
            let class = if decided.is_empty() { "no_progress" } else { "join_failed" };
            prop_assert_eq!(end.class.as_deref(), Some(class));
            return Ok(());
        }
        prop_assert_eq!(decided.len(), 1);
        let reason = if decided[0].met { Reason::Succeeded } else { Reason::Failed };
        prop_assert_eq!(end.reason, reason);
        let mut ends = ended(&world, |_| true);
        let all = ends.len();
        ends.sort();
        ends.dedup();
        prop_assert_eq!(ends.len(), all, "each node ends once");
        let given_up = |outcome: &node::Outcome| matches!(outcome, node::Outcome::Failed { class, .. } if class == "repeated_failure");
        if !ended(&world, given_up).is_empty() {
            // A call whose answer was lost with each of several hosts failed although it was drawn to work.
            return Ok(());
        }
        let failed = came.iter().filter(|ok| !**ok).count();
        let succeeded = came.len() - failed;
        let met = match drawn.quorum {
            _ if drawn.fail_fast && failed > 0 && (drawn.quorum.is_none() || succeeded < drawn.quorum.unwrap_or(0)) => Some(false),
            // Whether the failure or the quorum comes first is a matter of order.
            Some(_) if drawn.fail_fast && failed > 0 => None,
            Some(quorum) => Some(succeeded >= quorum),
            None => Some(true),
        };
        if let Some(met) = met {
            prop_assert_eq!(decided[0].met, met);
        }
    }
}
