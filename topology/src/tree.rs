//! The ownership tree (`spec/tree.md`): a pure projection from recorded commits, the same for terminal, console and API.
//!
//! Commits of one run come in their order; runs may come in any order to each other, so a child may be there before its parent has
//! said that it delegated it. Kinds that this build does not know are skipped and counted.

mod fact;
mod fold;
mod frame;
mod picture;
mod standing;
mod text;
mod waits;

use std::collections::BTreeMap;

use coppice_messages::{
    Commit, Event, Timestamp,
    ids::{RunId, TenantId, TreeId},
};

use self::fold::Folded;
pub use self::{
    fact::fact,
    frame::{
        Authority, Doubt, Ended, Frame, Last, NodeState, Refused, Run, State, Waiting, WaitingFor,
    },
    text::TextOptions,
};

/// One tree, as far as it was shown the log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tree {
    of: Option<(TenantId, TreeId)>,
    position: u64,
    at: Option<Timestamp>,
    skipped: u64,
    runs: BTreeMap<RunId, Folded>,
}

impl Tree {
    /// A tree of which nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in one recorded commit, which stands at `position` of the log. The first says which tree it is; commits of other trees
    /// and of system chains change nothing.
    pub fn apply(&mut self, commit: &Commit, position: u64) {
        let of = (&commit.tenant, &commit.tree);
        let other = self
            .of
            .as_ref()
            .is_some_and(|(tenant, tree)| (tenant, tree) != of);
        if commit.run.is_system() || other {
            return;
        }
        if self.of.is_none() {
            self.of = Some((commit.tenant.clone(), commit.tree.clone()));
        }
        self.position = self.position.max(position);
        self.at = self.at.max(Some(commit.at));
        let run = self.runs.entry(commit.run.clone()).or_default();
        run.epoch = run.epoch.max(commit.epoch);
        for (seq, entry) in (commit.seq..).zip(&commit.events) {
            if matches!(entry.event, Event::Unrecognised { .. }) {
                self.skipped += 1;
            }
            let last = Last {
                position,
                seq,
                at: commit.at,
                kind: entry.event.kind().to_owned(),
                fact: fact(&entry.event),
            };
            run.apply(&entry.event, last);
        }
    }

    /// The tree as data.
    #[must_use]
    pub fn frame(&self) -> Frame {
        picture::frame(self)
    }

    /// The tree as text, one line a run.
    #[must_use]
    pub fn text(&self, options: &TextOptions) -> String {
        self.frame().text(options)
    }
}
