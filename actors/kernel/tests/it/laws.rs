//! Laws that hold at every position of every log, whatever the weather.

use std::collections::BTreeMap;

use coppice_kernel::State;
use coppice_messages::{Event, event, event::run::Reason};

use crate::world::{Weather, World, comparison, input};

pub const STORM: Weather = Weather {
    reply_lost: 6,
    not_sent: 12,
    retryable: 12,
    model_fails: 14,
    actor_dies: 60,
    host_dies: 60,
    duplicate_input: 5,
    room_low: 20,
};

/// Runs the comparison in this weather, checking the laws after every step, and gives the world at its end.
pub fn check(seed: u64, incidents: usize, weather: Weather) -> World {
    let mut world = World::new(comparison(), input(incidents), seed, weather);
    world.after_step = |world| {
        owed_is_in_hand(world);
        conserved(world);
    };
    world.run();
    at_most_once(&world);
    one_end_a_run(&world);
    every_child_settled(&world);
    world
}

fn owed_is_in_hand(world: &World) {
    for driver in world
        .drivers
        .values()
        .filter(|driver| !driver.is_publishing())
    {
        let owed: BTreeMap<_, _> = driver.state().owed().into_iter().collect();
        assert_eq!(owed, *driver.in_hand(), "{}", driver.state().run());
    }
}

fn conserved(world: &World) {
    for driver in world.drivers.values() {
        assert!(
            driver.state().account().is_conserved(),
            "{:?}",
            driver.state().account()
        );
    }
}

fn at_most_once(world: &World) {
    assert!(
        world.desk.values().all(|count| *count <= 1),
        "{:?}",
        world.desk
    );
}

fn one_end_a_run(world: &World) {
    let mut ends: BTreeMap<_, u32> = BTreeMap::new();
    for (run, event) in world.events() {
        if matches!(event, Event::Run(event::run::Event::Ended(_))) {
            *ends.entry(run.clone()).or_default() += 1;
        }
    }
    assert!(ends.values().all(|count| *count == 1), "{ends:?}");
}

fn every_child_settled(world: &World) {
    let delegated = world
        .events()
        .filter(|(_, event)| event.kind() == "child.delegated")
        .count();
    let settled = world
        .events()
        .filter(|(_, event)| event.kind() == "child.settled")
        .count();
    assert_eq!(delegated, settled);
}

#[test]
fn an_undisturbed_comparison_succeeds_with_one_ticket_and_its_evidence() {
    let world = check(1, 5, Weather::default());
    let ended = world.ended().expect("it ended");
    assert_eq!(ended.reason, Reason::Succeeded, "{ended:?}");
    // The ticket's postcondition, the result's schema, and that there is one ticket.
    assert_eq!(ended.evidence.len(), 3);
    assert_eq!(world.desk.len(), 1);
    assert_eq!(world.refusals, Vec::<String>::new());
}

#[test]
fn at_most_one_effect_a_key_and_the_budget_law_hold_in_every_storm() {
    for seed in 1..=300 {
        let world = check(seed, 1 + usize::try_from(seed % 5).expect("small"), STORM);
        let ended = world.ended().expect("it ended");
        // Three failures in a row may end an agent; nothing else may go wrong.
        assert!(
            matches!(ended.reason, Reason::Succeeded | Reason::Failed),
            "seed {seed}: {ended:?}"
        );
    }
}

#[test]
fn lost_replies_and_dead_hosts_alone_change_neither_reason_nor_answer() {
    let undisturbed = check(7, 4, Weather::default());
    let weather = Weather {
        reply_lost: 3,
        host_dies: 40,
        ..Weather::default()
    };
    for seed in 1..=200 {
        let world = check(seed, 4, weather);
        let (ended, expected) = (
            world.ended().expect("ended"),
            undisturbed.ended().expect("ended"),
        );
        if world.host_crashes > 2 || ended.class.as_deref() == Some("repeated_failure") {
            continue;
        }
        assert_eq!(
            (ended.reason, &ended.answer),
            (expected.reason, &expected.answer),
            "seed {seed}: {ended:?}"
        );
    }
}

#[test]
fn a_rebuild_from_the_log_equals_the_live_state_of_every_run() {
    for seed in 1..=50 {
        let mut world = World::new(comparison(), input(3), seed, STORM);
        world.after_step = |world| {
            let quiet = world
                .drivers
                .values()
                .filter(|driver| !driver.is_publishing());
            for driver in quiet {
                let rebuilt: State = world.fold(driver.state().run());
                assert_eq!(
                    rebuilt.hash(),
                    driver.state().hash(),
                    "{}",
                    driver.state().run()
                );
            }
        };
        world.run();
    }
}

#[test]
fn a_fan_out_wider_than_one_slice_joins_in_declared_order() {
    let world = check(
        3,
        64,
        Weather {
            host_dies: 400,
            ..Weather::default()
        },
    );
    let decided = world.events().find_map(|(_, event)| match event {
        Event::Join(event::join::Event::Decided(decided)) => Some(decided.clone()),
        _ => None,
    });
    assert_eq!(decided.expect("decided").outcomes.len(), 64);
    assert_eq!(world.ended().expect("ended").reason, Reason::Succeeded);
}
