//! Durable timers: set once, due once, whatever dies meanwhile.

use coppice_messages::{Millis, event::run::Reason};

use crate::world::{Weather, World, input, plan_of};

pub const PAUSED: &str = "
topology: paused
version: 1
contract: default
result_schema: ticket_ref_v1
input: { type: object, required: [request_id, incidents], properties: { request_id: { type: string }, incidents: { type: array } } }
nodes:
  cool_down: { wait: { timer: 5m } }
  file:
    after: [cool_down]
    call: { tool: create_ticket, arguments: { title: Late, body: {}, request_id: { from: input, at: /request_id } } }
  done:
    after: [file]
    end:
      reason: succeeded
      answer: { ticket: { from: file, at: /id } }
      evidence: [ { check: find_ticket, arguments: { request_id: { from: input, at: /request_id } }, expect: { eq: [ { from: check, at: /count }, 1 ] } } ]
";

#[test]
fn a_run_goes_on_once_its_timer_is_due_and_not_before() {
    let mut world = World::new(plan_of(PAUSED), input(1), 3, Weather::default());
    let begun = world.now;
    assert_eq!(world.run().reason, Reason::Succeeded);
    assert!(world.now >= begun.plus(Millis(300_000)));
    assert_eq!((world.count("timer.set"), world.count("timer.due")), (1, 1));
}

#[test]
fn a_timer_counts_downtime_and_is_neither_lost_nor_set_again_by_a_dead_host() {
    for seed in 1..=40 {
        let mut world = World::new(
            plan_of(PAUSED),
            input(1),
            seed,
            Weather {
                host_dies: 5,
                ..Weather::default()
            },
        );
        let begun = world.now;
        let ended = world.run();
        assert!(
            matches!(ended.reason, Reason::Succeeded | Reason::Failed),
            "seed {seed}: {ended:?}"
        );
        assert!(world.now >= begun.plus(Millis(300_000)));
        assert_eq!(
            (world.count("timer.set"), world.count("timer.due")),
            (1, 1),
            "seed {seed}"
        );
        assert!(world.desk.values().all(|count| *count == 1));
    }
}

const BESIDE: &str = "
topology: beside
version: 1
contract: default
input: { type: object, required: [request_id, incidents], properties: { request_id: { type: string }, incidents: { type: array } } }
nodes:
  look: { call: { tool: read_incident, arguments: { id: incident_1 } } }
  cool_down: { wait: { timer: 5m } }
  both: { join: { of: [look, cool_down], on_failure: collect } }
  done:
    after: [both]
    end:
      reason: succeeded
      evidence: [ { check: find_ticket, arguments: { request_id: { from: input, at: /request_id } }, expect: { eq: [ { from: check, at: /count }, 0 ] } } ]
";

#[test]
fn an_effect_that_is_not_tried_again_does_not_keep_a_later_timer_from_being_armed() {
    let always = Weather {
        retryable: 1,
        ..Weather::default()
    };
    let mut world = World::new(plan_of(BESIDE), input(1), 3, always);
    assert_eq!(world.run().reason, Reason::Succeeded);
    assert_eq!(world.count("timer.due"), 1);
}

#[test]
fn a_timer_that_goes_off_before_its_time_because_the_clock_was_set_back_is_armed_again() {
    let mut world = World::new(plan_of(PAUSED), input(1), 3, Weather::default());
    let begun = world.now;
    world.prepare();
    while world.count("timer.set") == 0 {
        world.step();
    }
    world.tick_early();
    while world.ended().is_none() {
        world.step();
    }
    assert!(world.now >= begun.plus(Millis(300_000)));
    assert_eq!(world.count("timer.due"), 1);
}
