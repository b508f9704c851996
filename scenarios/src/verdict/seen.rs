//! What the log says of a tree, and of the host while the tree was there.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::{
    Commit, Delegation, Event,
    event::{
        effect::{self, ReconciledOutcome},
        run, system,
    },
    ids::{EffectKey, RunId, TenantId, TreeId},
    scope::Operation,
};
use coppice_store::{LogReader, ReadError};

use super::tree::Tree;

/// What is recorded.
#[derive(Default)]
pub(super) struct Seen {
    /// How many events of each kind: the tree's, and the host's since it was started for it.
    pub kinds: BTreeMap<String, u64>,
    /// The kinds of the root's events, in order.
    pub root: Vec<String>,
    /// How the tree ended.
    pub ended: Option<run::Ended>,
    /// The tree's commits.
    pub commits: u64,
    /// The tree's events.
    pub events: u64,
    /// Starts of the host after the first, which was made for the tree: it may have died before the tree was opened.
    pub host_restarts: u64,
    /// Addresses of the faults that struck.
    pub struck: Vec<String>,
    /// What the tree offered to faults, when one of them did not strike.
    pub offered: Vec<(String, u32)>,
    /// Keys of the tree's writes that are known to have happened.
    pub landed: BTreeSet<EffectKey>,
    /// Keys of writes of which the log says that nobody knows.
    pub in_doubt: BTreeSet<EffectKey>,
    /// Intents of this tree outside the envelope of their run.
    pub beyond_envelope: u64,
    /// What became of its runs, joins and cancels.
    pub tree: Tree,
}

/// Where the reading of the log stands.
struct Reading<'a> {
    tenant: &'a TenantId,
    tree: &'a TreeId,
    seen: Seen,
    started: bool,
    envelopes: BTreeMap<RunId, Delegation>,
    writes: BTreeSet<EffectKey>,
}

impl Seen {
    /// Reads what was recorded after the position `before`, at which the host was started for this tree.
    pub fn read(
        log: &LogReader,
        tenant: &TenantId,
        tree: &TreeId,
        before: u64,
    ) -> Result<Self, ReadError> {
        let mut reading = Reading::new(tenant, tree);
        for positioned in log.commits_from(before + 1) {
            // What cannot be decoded is for verify to find.
            if let Ok(commit) = Commit::decode(&positioned?.bytes) {
                reading.take(&commit);
            }
        }
        Ok(reading.seen)
    }

    /// How many events of a kind there are.
    pub fn count(&self, kind: &str) -> u64 {
        self.kinds.get(kind).copied().unwrap_or(0)
    }
}

impl<'a> Reading<'a> {
    fn new(tenant: &'a TenantId, tree: &'a TreeId) -> Self {
        Self {
            tenant,
            tree,
            seen: Seen::default(),
            started: false,
            envelopes: BTreeMap::new(),
            writes: BTreeSet::new(),
        }
    }

    fn take(&mut self, commit: &Commit) {
        if commit.run.is_system() {
            self.take_system(commit);
            return;
        }
        // Other trees have desks of their own.
        if commit.tenant != *self.tenant || commit.tree != *self.tree {
            return;
        }
        self.seen.commits += 1;
        self.seen.events += commit.events.len() as u64;
        for entry in &commit.events {
            self.seen
                .tree
                .take(self.seen.commits, &commit.run, &entry.event);
            self.effect(&entry.event);
            self.event(commit, &entry.event);
        }
    }

    fn take_system(&mut self, commit: &Commit) {
        for entry in &commit.events {
            match &entry.event {
                Event::System(system::Event::HostStarted(_)) => {
                    self.seen.host_restarts += u64::from(self.started);
                    self.started = true;
                }
                Event::System(system::Event::FaultInjected(fault)) => {
                    self.seen.struck.push(fault.address.clone());
                }
                _ => {}
            }
            let kind = entry.event.kind().to_owned();
            *self.seen.kinds.entry(kind).or_default() += 1;
        }
    }

    fn event(&mut self, commit: &Commit, event: &Event) {
        let kind = event.kind().to_owned();
        let is_root = commit.run == self.tree.root();
        if is_root {
            self.seen.root.push(kind.clone());
        }
        *self.seen.kinds.entry(kind).or_default() += 1;
        match event {
            Event::Run(run::Event::Opened(opened)) => {
                let envelope = opened.envelope.clone();
                self.envelopes.insert(commit.run.clone(), envelope);
            }
            Event::Run(run::Event::Ended(ended)) if is_root => {
                self.seen.ended = Some(ended.clone());
            }
            Event::Effect(effect::Event::Intended(intended)) => {
                let within = self.envelopes.get(&commit.run).is_some_and(|envelope| {
                    envelope.permitted_tools().contains(&intended.tool)
                        && envelope.access() >= intended.operation.access()
                });
                self.seen.beyond_envelope += u64::from(!within);
            }
            _ => {}
        }
    }

    fn effect(&mut self, event: &Event) {
        let event = match event {
            Event::Effect(event) => event,
            // What was in doubt at its run's end, and turned out to have happened.
            Event::Run(run::Event::Late(late)) => {
                self.seen.in_doubt.remove(&late.key);
                if late.happened {
                    self.seen.landed.insert(late.key);
                }
                return;
            }
            _ => return,
        };
        let happened = match event {
            effect::Event::Intended(intended) => {
                if intended.operation != Operation::Read {
                    self.writes.insert(intended.key);
                }
                return;
            }
            effect::Event::Landed(landed) => landed.key,
            effect::Event::Reconciled(reconciled) => {
                self.seen.in_doubt.remove(&reconciled.key);
                match reconciled.outcome {
                    ReconciledOutcome::Landed { .. } => reconciled.key,
                    ReconciledOutcome::NotHappened => return,
                }
            }
            effect::Event::Unknown(unknown) => {
                self.seen.in_doubt.insert(unknown.key);
                return;
            }
            // The log knows that the desk has it not, whatever the tool said.
            effect::Event::Contradicted(contradicted) => {
                self.seen.landed.remove(&contradicted.key);
                return;
            }
            _ => return,
        };
        if self.writes.contains(&happened) {
            self.seen.landed.insert(happened);
        }
    }
}

#[cfg(test)]
impl Seen {
    /// What these commits would say if they were the whole log.
    pub fn of(commits: &[Commit], tenant: &TenantId, tree: &TreeId) -> Self {
        let mut reading = Reading::new(tenant, tree);
        for commit in commits {
            reading.take(commit);
        }
        reading.seen
    }
}
