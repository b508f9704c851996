//! The ownership tree and the control state are two readings of one log: they agree at every commit.

use std::collections::BTreeMap;

use coppice_kernel::State;
use coppice_messages::ids::{RunId, TenantId};
use coppice_topology::{Tree, tree::State as Standing};

use crate::world::{Weather, World, comparison, input};

const STORM: Weather = Weather {
    reply_lost: 6,
    not_sent: 12,
    retryable: 12,
    model_fails: 14,
    actor_dies: 60,
    host_dies: 60,
    duplicate_input: 5,
    room_low: 0,
};

/// Shows the log to both, commit by commit, and gives the tree at its end.
fn agree(world: &World) -> Tree {
    let mut tree = Tree::new();
    let mut states: BTreeMap<RunId, State> = BTreeMap::new();
    for (position, recorded) in (1..).zip(&world.log) {
        let commit = &recorded.commit;
        tree.apply(commit, position);
        let state = states.entry(commit.run.clone()).or_insert_with(|| {
            let tenant = TenantId::default_tenant();
            State::new(
                world.plan.clone(),
                tenant,
                commit.tree.clone(),
                commit.run.clone(),
            )
        });
        state.fold(commit, recorded.hash).expect("it folds");
        let frame = tree.frame();
        let shown = frame.runs.iter().find(|run| run.run == commit.run);
        let shown = shown.expect("a run with a commit is shown");
        assert_eq!(&shown.budget, state.account(), "{position}: {}", shown.path);
        assert_eq!(shown.epoch, state.epoch());
        assert_eq!(shown.state == Standing::Ended, state.ended().is_some());
    }
    tree
}

#[test]
fn the_tree_shows_the_account_that_the_kernel_keeps() {
    for seed in 1..=40 {
        let mut world = World::new(comparison(), input(3), seed, STORM);
        world.run();
        let frame = agree(&world).frame();
        let root = frame.runs.first().expect("a root");
        assert_eq!(root.subtree, root.budget.used, "seed {seed}");
        assert!(frame.runs.iter().all(|run| run.state == Standing::Ended));
    }
}
