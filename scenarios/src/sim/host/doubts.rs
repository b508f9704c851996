//! The supervisor of ended runs with effects in doubt: each gets an actor of its own that looks them up.

use coppice_messages::{event::run::ClaimReason, ids::RunId};

use super::actors::Starting;
use crate::sim::{
    step::{ActorId, Step},
    world::{MS, World},
};

/// How long after the end they are looked up, and how long after a crash again.
const BACKOFF_MS: u64 = 2_000;

impl World {
    /// Ended runs with effects that nobody knows the outcome of.
    pub(in crate::sim) fn in_doubt(&self) -> impl Iterator<Item = &RunId> {
        let doubtful = self
            .laws
            .states()
            .filter(|(_, state)| state.ended().is_some() && !state.in_doubt().is_empty());
        doubtful.map(|(run, _)| run)
    }

    pub(super) fn start_doubts(&mut self) {
        let runs: Vec<RunId> = self.in_doubt().cloned().collect();
        for run in runs {
            self.put_between(0, 50_000, Step::Doubt(run));
        }
    }

    /// An actor that only looks up what is in doubt, if there is anything left.
    pub(in crate::sim) fn look_up_doubts(&mut self, run: &RunId) {
        let state = self.laws.state(run);
        let open = state.filter(|state| !state.in_doubt().is_empty());
        let Some(opened) = open.and_then(|state| state.opened().cloned()) else {
            return;
        };
        if self.host.actors.contains_key(run) {
            return;
        }
        self.spawn(Starting {
            run: run.clone(),
            opened: Box::new(opened),
            parent: None,
            why: ClaimReason::Restart,
            give_up: None,
            cancel: None,
            supervisor: None,
        });
    }

    /// Whoever takes in the end of a run hands its doubts over. What the actor that looks them up leaves is looked up by another.
    pub(super) fn hand_over_doubts(&mut self, run: &RunId) {
        if self.in_doubt().any(|known| known == run) {
            self.put(BACKOFF_MS * MS, Step::Doubt(run.clone()));
        }
    }

    pub(super) fn is_for_doubts(&self, id: &ActorId) -> bool {
        let actor = self.host.actors.get(&id.0);
        actor.is_some_and(|actor| actor.only_doubts)
    }

    /// An actor that was started for doubts stops once none is left.
    pub(super) fn stop_without_doubts(&mut self, id: &ActorId) {
        let over = self.host.actors.get(&id.0).is_some_and(|actor| {
            actor.only_doubts && actor.driver.in_hand().is_empty() && !actor.driver.is_publishing()
        });
        if over {
            self.stop_actor(&id.0, "nothing is in doubt");
        }
    }
}
