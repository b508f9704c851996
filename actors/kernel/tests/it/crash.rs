//! The log cut between any two commits, at every place, with the desk in either state that the cut allows.

use coppice_messages::{Event, Operation, event};

use crate::world::{Weather, World, comparison, input};

/// The world as it was after the first `commits` of `whole` were recorded, with whatever was intended and not answered done or not.
fn cut(whole: &World, commits: usize, open_ones_done: bool) -> World {
    let mut world = World::new(comparison(), input(3), 1, Weather::default());
    world.now = whole.now;
    world.log = whole.log[..commits].to_vec();
    world.blobs.0.clone_from(&whole.blobs.0);
    let mut open = std::collections::BTreeMap::new();
    for recorded in &world.log {
        for entry in &recorded.commit.events {
            match &entry.event {
                Event::Effect(event::effect::Event::Intended(intended))
                    if intended.operation != Operation::Read =>
                {
                    open.insert(intended.key, open_ones_done);
                }
                Event::Effect(event::effect::Event::Landed(landed)) => {
                    open.entry(landed.key).and_modify(|done| *done = true);
                }
                _ => {}
            }
        }
    }
    world.desk = open
        .into_iter()
        .filter(|(_, done)| *done)
        .map(|(key, _)| (key, 1))
        .collect();
    world
}

#[test]
fn every_cut_between_two_commits_recovers_to_the_same_end() {
    let mut whole = World::new(comparison(), input(3), 11, Weather::default());
    let expected = whole.run();
    assert!(whole.log.len() > 20, "{} commits", whole.log.len());
    for commits in 0..whole.log.len() {
        for open_ones_done in [false, true] {
            let mut world = cut(&whole, commits, open_ones_done);
            let ended = world.run();
            assert_eq!(
                (ended.reason, &ended.answer),
                (expected.reason, &expected.answer),
                "cut after {commits}: {ended:?}"
            );
            assert!(
                world.desk.values().all(|count| *count == 1),
                "cut after {commits}: {:?}",
                world.desk
            );
            assert_eq!(world.desk.len(), 1, "cut after {commits}");
        }
    }
}

#[test]
fn a_claim_settles_everything_that_a_dead_incarnation_had_under_way() {
    let mut whole = World::new(comparison(), input(2), 5, Weather::default());
    whole.run();
    for commits in 1..whole.log.len() {
        let mut world = cut(&whole, commits, true);
        world.run();
        for recorded in &world.log[commits..] {
            let claims = recorded
                .commit
                .events
                .iter()
                .filter(|entry| entry.event.kind() == "run.claimed")
                .count();
            let first = recorded.commit.events[0].event.kind() == "run.claimed";
            assert!(
                claims == 0 || (claims == 1 && first),
                "a claim stands first and alone in its kind"
            );
        }
    }
}
