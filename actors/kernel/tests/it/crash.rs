//! The logs of every shape cut between any two commits, at every place, with the desk in either state that the cut allows.

use std::collections::BTreeMap;

use coppice_messages::{
    Event, Operation,
    event::{
        effect::{self, ReconciledOutcome},
        run::Reason,
    },
    ids::EffectKey,
};

use crate::{
    cancels, control, joins, laws, proofs, waits,
    world::{Lying, Weather, World, comparison, input, plan_of},
};

/// The world as it was after the first `commits` of `whole` were recorded, with whatever was intended and not answered done or not.
fn cut(whole: &World, commits: usize, open_ones_done: bool) -> World {
    let mut world = whole.after(commits);
    let mut writes: BTreeMap<EffectKey, bool> = BTreeMap::new();
    for recorded in &world.log {
        for entry in &recorded.commit.events {
            if let Event::Effect(event) = &entry.event {
                note(&mut writes, event, open_ones_done);
            }
        }
    }
    let done = writes.into_iter().filter(|(_, done)| *done);
    world.desk = done.map(|(key, _)| (key, 1)).collect();
    world
}

/// Whether each write has been done, as far as the log says.
fn note(writes: &mut BTreeMap<EffectKey, bool>, event: &effect::Event, open_ones_done: bool) {
    let mut answered = |key: EffectKey, done: bool| {
        writes.entry(key).and_modify(|write| *write = done);
    };
    match event {
        effect::Event::Intended(intended) if intended.operation != Operation::Read => {
            writes.insert(intended.key, open_ones_done);
        }
        effect::Event::Landed(landed) => answered(landed.key, true),
        effect::Event::Reconciled(reconciled) => {
            let landed = matches!(reconciled.outcome, ReconciledOutcome::Landed { .. });
            answered(reconciled.key, landed);
        }
        effect::Event::NotSent(not_sent) => answered(not_sent.key, false),
        effect::Event::Retryable(retryable) => answered(retryable.key, false),
        _ => {}
    }
}

/// Cuts a log everywhere and runs each rest in fair weather; `holds` judges its end.
fn check(name: &str, whole: &World, holds: fn(&World, &World) -> bool) {
    assert!(whole.ended().is_some(), "{name}: the whole ended");
    for commits in 0..whole.log.len() {
        for open_ones_done in [false, true] {
            let mut world = cut(whole, commits, open_ones_done);
            let ended = world.run();
            let place = format!("{name}, cut after {commits}, open ones done: {open_ones_done}");
            assert!(holds(whole, &world), "{place}: {ended:?}");
            assert!(
                world.desk.values().all(|count| *count == 1),
                "{place}: {:?}",
                world.desk
            );
            assert_eq!(
                world.count("child.delegated"),
                world.count("child.settled"),
                "{place}"
            );
        }
    }
}

/// The same reason and the same answer.
fn same_end(whole: &World, rest: &World) -> bool {
    let end = |world: &World| {
        world
            .ended()
            .map(|ended| (ended.reason, ended.class, ended.answer))
    };
    end(whole) == end(rest)
}

/// The same reason: which members were cancelled by a join depends on who came first.
fn same_reason(whole: &World, rest: &World) -> bool {
    reason(whole) == reason(rest)
}

/// No worse than the whole: in fair weather what had not failed yet does not fail.
fn no_worse(whole: &World, rest: &World) -> bool {
    same_reason(whole, rest) || reason(rest) == Some(Reason::Succeeded)
}

/// Cancelled where the request is in the log, done where it is not.
fn cancelled_if_asked(_: &World, rest: &World) -> bool {
    let asked = rest.count("run.cancel_requested") > 0;
    reason(rest)
        == Some(if asked {
            Reason::Cancelled
        } else {
            Reason::Succeeded
        })
}

fn reason(world: &World) -> Option<Reason> {
    world.ended().map(|ended| ended.reason)
}

fn run(mut world: World) -> World {
    world.run();
    world
}

#[test]
fn every_cut_between_two_commits_recovers_to_the_same_end() {
    let whole = run(World::new(comparison(), input(3), 11, Weather::default()));
    assert!(whole.log.len() > 20, "{} commits", whole.log.len());
    check("comparison", &whole, same_end);
    for commits in 0..whole.log.len() {
        let rest = run(cut(&whole, commits, true));
        assert_eq!(rest.desk.len(), 1, "cut after {commits}");
    }
}

#[test]
fn every_cut_of_waits_branches_and_loops_recovers_to_the_same_end() {
    let paused = World::new(plan_of(waits::PAUSED), input(1), 3, Weather::default());
    check("timer", &run(paused), same_end);
    check(
        "branch",
        &run(control::world(control::BRANCH, 1, Weather::default())),
        same_end,
    );
    check(
        "loop",
        &run(control::world(control::LOOP, 4, Weather::default())),
        same_end,
    );
}

#[test]
fn every_cut_of_every_kind_of_join_recovers_to_the_same_reason() {
    let rules = [
        "{ wait: { quorum: 2 }, on_failure: collect }",
        "{ wait: any, on_failure: collect }",
        "{ wait: any, on_failure: collect, then: let_finish }",
        "{ wait: all, on_failure: fail_fast }",
        "{ wait: all, on_failure: collect }",
    ];
    for join in rules {
        let mut whole = World::new(
            plan_of(&joins::yaml(4, join)),
            input(0),
            3,
            Weather::default(),
        );
        whole.failing = joins::first;
        check(join, &run(whole), same_reason);
    }
}

#[test]
fn every_cut_of_a_cancelled_tree_is_cancelled_or_was_never_asked_to() {
    for after in [3, 12, 30] {
        let mut whole = World::new(comparison(), input(3), 7, Weather::default());
        whole.prepare();
        for _ in 0..after {
            whole.step();
        }
        let root = whole.root.clone();
        whole.tell(&root, cancels::request());
        whole.run_on();
        check("cancel", &whole, cancelled_if_asked);
    }
}

#[test]
fn every_cut_of_the_logs_of_storms_ends_no_worse_than_the_storm() {
    for seed in 1..=6 {
        let whole = run(World::new(comparison(), input(3), seed, laws::STORM));
        check("storm", &whole, no_worse);
    }
}

#[test]
fn a_claim_settles_everything_that_a_dead_incarnation_had_under_way() {
    let whole = run(World::new(comparison(), input(2), 5, Weather::default()));
    for commits in 1..whole.log.len() {
        let world = run(cut(&whole, commits, true));
        for recorded in &world.log[commits..] {
            let is_claim = |kind: &str| kind == "run.claimed";
            let claims = recorded
                .commit
                .events
                .iter()
                .filter(|entry| is_claim(entry.event.kind()))
                .count();
            let first = is_claim(recorded.commit.events[0].event.kind());
            assert!(
                claims == 0 || (claims == 1 && first),
                "a claim stands first and alone in its kind"
            );
        }
    }
}

#[test]
fn a_run_that_dies_before_it_looked_looks_again_and_ends_the_same() {
    for lying in [Lying::Always, Lying::Unreadable] {
        let mut whole = control::world(proofs::FILED, 1, Weather::default());
        whole.lying = lying;
        whole.run();
        check("lying", &whole, |whole, rest| {
            let class = |world: &World| {
                world
                    .ended()
                    .map(|ended| (ended.reason, ended.class.clone()))
            };
            class(whole) == class(rest)
        });
    }
}
