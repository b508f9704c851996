//! Cancel: whatever stage it hits, the result is `cancelled`, nothing starts afterwards, and every child is settled.

use std::collections::{BTreeMap, BTreeSet};

use coppice_kernel::Command;
use coppice_messages::{
    Event, event,
    event::run::{CancelRequested, Reason},
    ids::RunId,
};

use crate::world::{Weather, World, comparison, input};

pub fn request() -> Command {
    let requested = CancelRequested {
        by: "user:tester".to_owned(),
        why: "enough".to_owned(),
        from: None,
    };
    Command::Cancel(requested)
}

/// Cancels the root after so many steps, runs to the end, and checks what holds for every cancel.
fn check(after: usize, seed: u64, weather: Weather) -> World {
    let mut world = World::new(comparison(), input(4), seed, weather);
    world.prepare();
    for _ in 0..after {
        if world.ended().is_some() {
            return world;
        }
        world.step();
    }
    let root = world.root.clone();
    world.tell(&root, request());
    let requested = |world: &World| world.count("run.cancel_requested") > 0;
    for _ in 0..200_000 {
        if world.ended().is_some() {
            break;
        }
        world.step();
        // A host that died before the request was recorded was never asked: whoever asked asks again.
        if !requested(&world) && world.ended().is_none() {
            world.tell(&root, request());
        }
    }
    let ended = world.ended().unwrap_or_else(|| {
        panic!(
            "seed {seed}, cancelled after {after} steps: no end\n{}",
            world.describe()
        )
    });
    if requested(&world) {
        assert_eq!(
            ended.reason,
            Reason::Cancelled,
            "seed {seed}, after {after}: {ended:?}"
        );
        assert_eq!(world.count("run.cancel_settled"), 1);
    }
    nothing_starts_behind_a_cancel(&world);
    assert_eq!(
        world.count("child.delegated"),
        world.count("child.settled"),
        "seed {seed}, after {after}"
    );
    assert!(world.desk.values().all(|count| *count <= 1));
    world
}

/// In each chain: no model call, intent or delegation behind the request.
fn nothing_starts_behind_a_cancel(world: &World) {
    let mut cancelled: BTreeMap<RunId, bool> = BTreeMap::new();
    for (run, event) in world.events() {
        let seen = cancelled.entry(run.clone()).or_default();
        let starts = matches!(
            event,
            Event::Model(event::model::Event::Asked(_))
                | Event::Effect(event::effect::Event::Intended(_))
                | Event::Child(event::child::Event::Delegated(_))
        );
        assert!(!(*seen && starts), "{run}: {event:?}");
        *seen |= matches!(event, Event::Run(event::run::Event::CancelRequested(_)));
    }
}

/// How many children have their first commit behind their parent's cancel: on their way to the log when it came, or started behind it. All
/// end cancelled.
fn attached_behind_a_cancel(world: &World) -> usize {
    let mut cancelled: BTreeSet<&RunId> = BTreeSet::new();
    let mut attached: BTreeSet<&RunId> = BTreeSet::new();
    for (run, event) in world.events() {
        match event {
            Event::Run(event::run::Event::CancelRequested(_)) => {
                cancelled.insert(run);
            }
            Event::Run(event::run::Event::Opened(opened)) => {
                let parent = opened.envelope.parent();
                if parent.is_some_and(|parent| cancelled.contains(parent)) {
                    attached.insert(run);
                }
            }
            Event::Run(event::run::Event::Ended(ended)) if attached.contains(run) => {
                assert_eq!(ended.reason, Reason::Cancelled, "{run}");
            }
            _ => {}
        }
    }
    attached.len()
}

#[test]
fn a_cancel_at_every_step_of_a_run_gives_cancelled_and_settles_every_child() {
    let mut whole = World::new(comparison(), input(4), 1, Weather::default());
    whole.prepare();
    let mut steps = 0;
    while whole.ended().is_none() {
        whole.step();
        steps += 1;
    }
    let mut cancelled = 0;
    for after in 0..steps {
        let world = check(after, 1, Weather::default());
        cancelled += u32::from(
            world
                .ended()
                .is_some_and(|ended| ended.reason == Reason::Cancelled),
        );
    }
    assert!(cancelled > 50, "{cancelled} of {steps} steps");
}

#[test]
fn a_cancel_holds_in_a_thousand_random_schedules_of_losses_and_deaths() {
    let weather = Weather {
        reply_lost: 4,
        not_sent: 9,
        model_fails: 30,
        actor_dies: 40,
        host_dies: 50,
        duplicate_input: 5,
        ..Weather::default()
    };
    let mut attached = 0;
    for seed in 1..=1000 {
        let world = check(usize::try_from(seed % 70).expect("small"), seed, weather);
        attached += attached_behind_a_cancel(&world);
    }
    assert!(attached > 50, "{attached} children came behind the cancel");
}

#[test]
fn repeating_a_cancel_changes_nothing() {
    let mut world = World::new(comparison(), input(2), 1, Weather::default());
    world.prepare();
    for _ in 0..12 {
        world.step();
    }
    let root = world.root.clone();
    world.tell(&root, request());
    world.tell(&root, request());
    while world.ended().is_none() {
        world.step();
    }
    let at_root = world
        .events()
        .filter(|(run, event)| **run == world.root && event.kind() == "run.cancel_requested")
        .count();
    assert_eq!(at_root, 1);
}
