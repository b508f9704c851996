//! Branches, loops and signals.

use coppice_kernel::Command;
use coppice_messages::{
    Payload, Value,
    event::{callback::Signal, run::Reason},
};

use crate::world::{Weather, World, input, plan_of};

const END: &str = "{ reason: succeeded, answer: { ticket: x }, evidence: [ { check: find_ticket, arguments: { request_id: x }, expect: { gt: [ { from: check, at: /count }, -1 ] } } ] }";

pub fn world(nodes: &str, seed: u64, weather: Weather) -> World {
    let yaml = format!(
        "
topology: control
version: 1
contract: default
result_schema: ticket_ref_v1
input: {{ type: object, required: [incidents], properties: {{ request_id: {{ type: string }}, incidents: {{ type: array }} }} }}
agents:
  reader: {{ model: scripted/summarise, tools: [read_incident, search_runbook], result_schema: incident_summary_v1 }}
nodes:
{nodes}
  done: {{ after: [last], end: {END} }}
"
    );
    World::new(plan_of(&yaml), input(2), seed, weather)
}

pub const BRANCH: &str = "
  choose: { branch: { cases: [ { when: { exists: { from: input, at: /incidents/0 } }, to: [some] } ], otherwise: [none] } }
  some: { after: [choose], call: { tool: read_incident, arguments: { id: { from: input, at: /incidents/0 } } } }
  none: { after: [choose], call: { tool: search_runbook, arguments: { text: nothing } } }
  behind_none: { after: [none], call: { tool: search_runbook, arguments: { text: nothing } } }
  last: { join: { of: [some, behind_none], wait: all } }
";

#[test]
fn a_branch_takes_the_first_case_that_holds_and_skips_what_stands_behind_the_others() {
    let mut world = world(BRANCH, 1, Weather::default());
    assert_eq!(world.run().reason, Reason::Succeeded);
    assert_eq!(world.count("effect.intended"), 1);
    let skipped = world
        .events()
        .filter(|(_, event)| {
            event.kind() == "node.ended" && format!("{event:?}").contains("Skipped")
        })
        .count();
    assert_eq!(skipped, 2);
}

pub const LOOP: &str = "
  gather:
    fan_out: { over: { from: input, at: /incidents }, agent: reader, slot: reading, concurrency: 2 }
    delegation: { objective: Read, authority_scope: { access: read_only }, budget: { steps: 12, tokens: 18000, wall_clock: 1m } }
    join: { wait: all, on_failure: collect }
  file: { after: [gather], call: { tool: create_ticket, arguments: { title: Round, body: {} , request_id: r } } }
  last: { after: [file], loop: { back_to: gather, until: { eq: [ 1, 2 ] }, at_most: 3 } }
";

#[test]
fn a_loop_goes_round_within_its_limit_with_children_of_its_own_each_round() {
    for seed in 1..=30 {
        let weather = Weather {
            host_dies: 60,
            ..Weather::default()
        };
        let mut world = world(LOOP, seed, weather);
        let ended = world.run();
        if ended.class.as_deref() == Some("repeated_failure") {
            continue;
        }
        assert_eq!(
            (ended.reason, ended.class.as_deref()),
            (Reason::Failed, Some("loop_limit")),
            "seed {seed}: {ended:?}"
        );
        assert_eq!(
            (world.count("join.decided"), world.count("child.delegated")),
            (3, 6)
        );
        let mut children: Vec<_> = world
            .events()
            .filter(|(_, event)| event.kind() == "run.opened")
            .map(|(run, _)| run.clone())
            .collect();
        children.sort();
        children.dedup();
        assert_eq!(children.len(), 7, "every round has children of its own");
        // One business key names one operation, however often it is planned.
        assert_eq!(world.desk.values().sum::<u32>(), 1);
    }
}

#[test]
fn a_loop_whose_condition_holds_goes_on() {
    let nodes = LOOP.replace("{ eq: [ 1, 2 ] }", "{ exists: { from: file } }");
    let mut world = world(&nodes, 4, Weather::default());
    assert_eq!(world.run().reason, Reason::Succeeded);
    assert_eq!(world.count("join.decided"), 1);
}

const SIGNAL: &str = "
  wait_for_go: { wait: { signal: { name: go, timeout: 5m } } }
  last: { after: [wait_for_go], call: { tool: read_incident, arguments: { id: { from: wait_for_go, at: /incident } } } }
";

fn go(id: &str) -> Command {
    let value = Payload::Inline(Value::map([("incident", Value::from("incident_104"))]));
    Command::Signal(Signal {
        name: "go".to_owned(),
        id: id.to_owned(),
        value,
    })
}

#[test]
fn a_signal_that_comes_before_its_wait_counts_and_the_same_signal_twice_is_one() {
    let mut world = world(
        SIGNAL,
        1,
        Weather {
            duplicate_input: 1,
            ..Weather::default()
        },
    );
    world.prepare();
    let root = world.root.clone();
    world.tell(&root, go("s-1"));
    assert_eq!(world.run_on().reason, Reason::Succeeded);
    assert_eq!(world.count("signal.received"), 1);
}

#[test]
fn a_signal_that_does_not_come_in_time_ends_the_run_timed_out() {
    let mut world = world(SIGNAL, 1, Weather::default());
    let ended = world.run();
    assert_eq!(
        (ended.reason, ended.class.as_deref()),
        (Reason::TimedOut, Some("wait_timeout"))
    );
}

/// Two nodes that want the operation of one business key at the same time.
fn wanted_twice(title: &str, seed: u64, weather: Weather) -> World {
    let call = |title: &str| {
        format!("tool: create_ticket, arguments: {{ title: {title}, body: x, request_id: r }}")
    };
    let nodes = format!(
        "
  one: {{ call: {{ {} }} }}
  two: {{ call: {{ {} }} }}
  last: {{ after: [one, two], call: {{ tool: search_runbook, arguments: {{ text: x }} }} }}
",
        call("equal"),
        call(title)
    );
    world(&nodes, seed, weather)
}

#[test]
fn what_is_wanted_twice_while_it_is_under_way_is_done_once_and_counts_for_both() {
    let weather = Weather {
        reply_lost: 4,
        host_dies: 30,
        ..Weather::default()
    };
    for seed in 1..=30 {
        let mut world = wanted_twice("equal", seed, weather);
        let ended = world.run();
        assert_eq!(ended.reason, Reason::Succeeded, "seed {seed}: {ended:?}");
        assert_eq!(world.desk.values().sum::<u32>(), 1, "seed {seed}");
        assert_eq!(world.count("effect.conflicted"), 0, "seed {seed}");
    }
}

#[test]
fn a_key_that_is_wanted_for_other_arguments_is_a_conflict_and_goes_to_a_person() {
    let mut world = wanted_twice("other", 1, Weather::default());
    let ended = world.run();
    assert_eq!(
        (ended.reason, ended.class.as_deref()),
        (Reason::NeedsHuman, Some("key_conflict"))
    );
    assert_eq!(world.count("effect.conflicted"), 1);
    assert_eq!(world.count("effect.intended"), 1);
}
