//! Callbacks: one of each operation counts, whenever it comes; every other is absorbed, also after the end.

use coppice_kernel::{Command, Driver, Identity, Input, Output, Room, Start, Turn};
use coppice_messages::{
    Millis, Payload, Value,
    event::{
        callback::Received,
        run::{ClaimReason, Reason},
    },
    ids::{EffectKey, RunId},
};

use crate::{
    control::world,
    world::{Recorded, Weather, World},
};

pub const CALLED_BACK: &str = "
  file: { call: { tool: create_ticket, arguments: { title: T, body: {}, request_id: r } } }
  last: { after: [file], wait: { callback: { of: file, timeout: 5m } } }
";

fn callback(key: EffectKey, id: &str) -> Command {
    Command::Callback(Received {
        key,
        id: id.to_owned(),
        value: Payload::Inline(Value::Bool(true)),
    })
}

/// A world in which the ticket is made, and its answer on its way or recorded.
fn filed(nodes: &str, seed: u64, weather: Weather) -> (World, RunId, EffectKey) {
    let mut world = world(nodes, seed, weather);
    world.prepare();
    while world.desk.is_empty() {
        world.step();
    }
    let (root, key) = (world.root.clone(), *world.desk.keys().next().expect("one"));
    (world, root, key)
}

#[test]
fn a_callback_counts_once_and_its_repetitions_are_absorbed() {
    let (mut world, root, key) = filed(CALLED_BACK, 1, Weather::default());
    for id in ["cb-1", "cb-1", "cb-2", "cb-1"] {
        world.tell(&root, callback(key, id));
    }
    assert_eq!(world.run_on().reason, Reason::Succeeded);
    assert_eq!(
        (
            world.count("callback.received"),
            world.count("callback.absorbed")
        ),
        (1, 3)
    );
    assert_eq!(world.desk.values().sum::<u32>(), 1);
}

#[test]
fn a_callback_of_an_operation_that_the_run_never_made_is_refused() {
    let mut world = world(CALLED_BACK, 1, Weather::default());
    world.prepare();
    let root = world.root.clone();
    let key = EffectKey(coppice_messages::Digest::ZERO);
    world.step();
    world.tell(&root, callback(key, "x"));
    while world.refusals.is_empty() && world.ended().is_none() {
        world.step();
    }
    assert_eq!(world.refusals.len(), 1, "{:?}", world.refusals);
}

#[test]
fn without_its_callback_the_run_is_timed_out() {
    let ended = world(CALLED_BACK, 1, Weather::default()).run();
    assert_eq!(
        (ended.reason, ended.class.as_deref()),
        (Reason::TimedOut, Some("wait_timeout"))
    );
}

#[test]
fn a_callback_says_nothing_of_a_doubt_which_is_looked_up_all_the_same() {
    let weather = Weather {
        reply_lost: 1,
        ..Weather::default()
    };
    let (mut world, root, key) = filed(CALLED_BACK, 3, weather);
    world.tell(&root, callback(key, "cb-1"));
    assert_eq!(world.run_on().reason, Reason::Succeeded);
    assert_eq!(world.count("callback.received"), 1);
    assert!(world.count("effect.unknown") > 0);
    assert_eq!(
        world.count("effect.unknown"),
        world.count("effect.reconciled")
    );
    assert_eq!(world.desk.values().sum::<u32>(), 1);
}

const SKIPPED: &str = "
  choose: { branch: { cases: [ { when: { eq: [ { from: input, at: /incidents/0 }, never ] }, to: [file] } ], otherwise: [look] } }
  file: { after: [choose], call: { tool: create_ticket, arguments: { title: T, body: {}, request_id: r } } }
  look: { after: [choose], call: { tool: search_runbook, arguments: { text: x } } }
  either: { join: { of: [file, look], wait: all } }
  last: { after: [either], wait: { callback: { of: file } } }
";

#[test]
fn nobody_waits_in_vain_for_the_callback_of_an_operation_that_was_skipped() {
    let mut world = world(SKIPPED, 1, Weather::default());
    let begun = world.now;
    let ended = world.run();
    assert!(world.now < begun.plus(Millis(60_000)), "{ended:?}");
    assert_eq!(world.desk.len(), 0);
}

const IN_TIME: &str = "
  file: { call: { tool: create_ticket, arguments: { title: T, body: {}, request_id: r } } }
  called: { after: [file], wait: { callback: { of: file } } }
  too_late: { after: [file], wait: { timer: 1m } }
  either: { join: { of: [called, too_late], wait: any } }
  last: { after: [either], wait: { timer: 10s } }
";

#[test]
fn a_callback_and_a_timer_joined_go_on_with_whichever_comes_first() {
    let (mut world, root, key) = filed(IN_TIME, 1, Weather::default());
    let begun = world.now;
    while world.count("timer.set") == 0 {
        world.step();
    }
    world.tell(&root, callback(key, "cb-1"));
    assert_eq!(world.run_on().reason, Reason::Succeeded);
    assert!(world.now < begun.plus(Millis(60_000)));
    assert_eq!((world.count("timer.set"), world.count("timer.due")), (2, 1));
}

#[test]
fn a_callback_after_the_timer_of_its_join_changes_nothing() {
    let (mut world, root, key) = filed(IN_TIME, 1, Weather::default());
    while world.count("timer.due") == 0 {
        world.step();
    }
    world.tell(&root, callback(key, "cb-1"));
    assert_eq!(world.run_on().reason, Reason::Succeeded);
    assert_eq!(world.count("callback.received"), 1);
    assert_eq!(world.desk.values().sum::<u32>(), 1);
}

const GOES_ON: &str = "
  file: { call: { tool: create_ticket, arguments: { title: T, body: {}, request_id: r } } }
  called: { after: [file], wait: { callback: { of: file, timeout: 5m } } }
  last: { after: [called], wait: { timer: 10m } }
";

#[test]
fn the_deadline_of_a_wait_that_is_over_falls_due_for_nobody() {
    let (mut world, root, key) = filed(GOES_ON, 1, Weather::default());
    while world.count("timer.set") == 0 {
        world.step();
    }
    world.tell(&root, callback(key, "cb-1"));
    assert_eq!(world.run_on().reason, Reason::Succeeded);
    assert_eq!((world.count("timer.set"), world.count("timer.due")), (2, 1));
}

/// What an incarnation of the ended run records when it is told something, without having begun.
fn late(world: &mut World, command: Command) -> Vec<String> {
    let root = world.root.clone();
    let identity = Identity {
        host: "host-1".parse().expect("an id"),
        trace: String::new(),
        parent: None,
    };
    let state = world.fold(&root);
    let epoch = state.epoch();
    let mut driver = Driver::new(state, identity, Start::Again(ClaimReason::Start));
    let outputs = driver.handle(
        Input::Command(command),
        Turn::new(world.now, Room::Enough, &world.blobs),
    );
    let mut kinds = Vec::new();
    for output in outputs {
        let Output::Publish(prepared) = output else {
            panic!("an ended run does nothing: {output:?}");
        };
        assert_eq!(prepared.commit.epoch, epoch, "nobody owns an ended run");
        let events = prepared.commit.events.iter();
        kinds.extend(events.map(|entry| entry.event.kind().to_owned()));
        world.log.push(Recorded {
            commit: prepared.commit,
            hash: prepared.hash,
        });
    }
    kinds
}

#[test]
fn a_callback_after_the_end_is_absorbed_without_a_claim_and_changes_neither_end_nor_budget() {
    let (mut world, root, key) = filed(CALLED_BACK, 1, Weather::default());
    world.tell(&root, callback(key, "cb-1"));
    world.run_on();
    let before = world.fold(&root);
    for id in ["cb-1", "cb-2", "cb-2"] {
        assert_eq!(late(&mut world, callback(key, id)), ["callback.absorbed"]);
    }
    let after = world.fold(&root);
    assert_eq!(after.ended(), before.ended());
    assert_eq!(after.account(), before.account());
    assert_eq!(after.owed(), before.owed());
}

#[test]
fn repetitions_without_end_fill_no_log_and_are_still_answered() {
    let (mut world, root, key) = filed(CALLED_BACK, 1, Weather::default());
    world.tell(&root, callback(key, "cb-1"));
    world.run_on();
    for _ in 0..coppice_kernel::limits::CALLBACKS_MAX {
        late(&mut world, callback(key, "cb-1"));
    }
    let recorded = world.count("callback.received") + world.count("callback.absorbed");
    assert_eq!(
        u32::try_from(recorded),
        Ok(coppice_kernel::limits::CALLBACKS_MAX)
    );
    assert!(late(&mut world, callback(key, "cb-1")).is_empty());
}
