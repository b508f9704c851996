//! Little room: no intent is decided, and nothing waits behind one that is not.

use coppice_kernel::{Command, Room};
use coppice_messages::event::run::Reason;

use crate::{
    cancels, control, laws,
    world::{Weather, World, comparison, input},
};

/// The comparison up to where only an intent would lead on.
fn held_up(seed: u64) -> World {
    let mut world = World::new(comparison(), input(4), seed, Weather::default());
    world.room = Room::Low;
    world.prepare();
    while world.has_pending() {
        world.step();
    }
    assert_eq!(world.ended(), None);
    world
}

#[test]
fn room_that_comes_and_goes_changes_neither_reason_nor_answer() {
    let undisturbed = laws::check(7, 4, Weather::default());
    let expected = undisturbed.ended().expect("it ended");
    let weather = Weather {
        room_low: 3,
        reply_lost: 6,
        host_dies: 60,
        ..Weather::default()
    };
    for seed in 1..=200 {
        let ended = laws::check(seed, 4, weather).ended().expect("it ended");
        assert_eq!(
            (ended.reason, ended.answer),
            (expected.reason, expected.answer.clone()),
            "seed {seed}"
        );
    }
}

#[test]
fn a_cancel_passes_where_an_intent_waits_for_room() {
    let mut world = held_up(1);
    let (root, intents) = (world.root.clone(), world.count("effect.intended"));
    world.tell(&root, cancels::request());
    assert_eq!(world.run_on().reason, Reason::Cancelled);
    assert_eq!(world.count("effect.intended"), intents);
    assert_eq!(world.count("run.cancel_settled"), 1);
}

#[test]
fn the_deadline_ends_a_run_whose_intent_waits_for_room() {
    let nodes = "  last: { call: { tool: create_ticket, arguments: { title: t, body: {}, request_id: r } } }";
    let mut world = control::world(nodes, 1, Weather::default());
    world.room = Room::Low;
    let ended = world.run();
    assert_eq!(
        (ended.reason, ended.class.as_deref()),
        (Reason::TimedOut, Some("deadline"))
    );
    assert_eq!(world.desk.len(), 0);
}

#[test]
fn a_tick_without_room_changes_nothing_and_one_with_room_goes_on() {
    let mut world = held_up(1);
    let commits = world.log.len();
    for run in world.drivers.keys().cloned().collect::<Vec<_>>() {
        world.tell(&run, Command::Tick);
    }
    assert!(!world.has_pending());
    assert_eq!(world.log.len(), commits);
    world.make_room();
    assert_eq!(world.run_on().reason, Reason::Succeeded);
    assert_eq!(world.desk.len(), 1);
}

#[test]
fn a_further_try_is_not_due_before_there_is_room() {
    let weather = Weather {
        not_sent: 1,
        ..Weather::default()
    };
    let mut world = World::new(comparison(), input(1), 1, weather);
    world.prepare();
    while world.count("effect.not_sent") == 0 {
        world.step();
    }
    let trying = |world: &World| {
        let due = |room| move |run: &&_| world.drivers[*run].state().due(room);
        let runs = || world.drivers.keys();
        let enough: Vec<_> = runs().map(|run| due(Room::Enough)(&run)).collect();
        let low: Vec<_> = runs().map(|run| due(Room::Low)(&run)).collect();
        (enough, low)
    };
    let (enough, low) = trying(&world);
    assert_ne!(enough, low);
    assert!(
        enough.iter().zip(&low).all(|(enough, low)| enough <= low),
        "{enough:?} {low:?}"
    );
}
