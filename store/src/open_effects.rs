//! Which effects are open: intended in this host's life and without an outcome yet. The tool broker dispatches only what it finds here, never
//! on a run's word.
//!
//! In memory only: after a restart the run's claim puts every open effect in doubt, so nothing from before it may be sent.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, PoisonError, RwLock},
};

use coppice_messages::{
    Commit, Digest, Event, Payload, Timestamp,
    event::{effect, run},
    ids::{EffectKey, RunId, TenantId, ToolName},
};

/// An effect that was intended and has no outcome yet.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenEffect {
    /// The epoch in which it was intended.
    pub epoch: u64,
    /// Which attempt.
    pub attempt: u32,
    /// Digest of all that is bound.
    pub action: Digest,
    /// Which tool.
    pub tool: ToolName,
    /// Canonical arguments.
    pub arguments: Payload,
    /// No byte leaves at or after this time.
    pub send_by: Timestamp,
    /// Position of the commit that intended it.
    pub pos: u64,
    /// Who may have sent this before: then it is found out by key, and not sent.
    pub held_by: Option<Holder>,
}

/// Who may have sent a write before the run that intends it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// Another run that intended a write under the same key.
    Run(RunId),
    /// The same run, in the log of which this one is an older copy.
    LostLog,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(run) => write!(f, "the run {run} intended the operation of this key before"),
            Self::LostLog => f.write_str(
                "the log was restored from an older copy, and the operation of this key may have been done after it was taken",
            ),
        }
    }
}

/// An intent under a key that somebody may have used before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub run: (TenantId, RunId),
    pub key: EffectKey,
    pub holder: Holder,
}

type ByRun = HashMap<(TenantId, RunId), BTreeMap<EffectKey, OpenEffect>>;

/// The index; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct OpenEffects {
    open: Arc<RwLock<ByRun>>,
    /// Runs of which a cancel is recorded and no end.
    cancelled: Arc<RwLock<HashSet<(TenantId, RunId)>>>,
}

/// Whether a commit can change the index.
pub(crate) fn concerns(commit: &Commit) -> bool {
    commit.events.iter().any(|entry| {
        matches!(
            &entry.event,
            Event::Effect(_)
                | Event::Run(
                    run::Event::Claimed(_) | run::Event::Ended(_) | run::Event::CancelRequested(_)
                )
        )
    })
}

impl OpenEffects {
    pub fn get(&self, tenant: &TenantId, run: &RunId, key: &EffectKey) -> Option<OpenEffect> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&(tenant.clone(), run.clone()))?.get(key).cloned()
    }

    /// Takes in recorded commits, in the order of the log.
    pub fn record(&self, commits: &[(u64, Arc<Commit>)], held: &[Held]) {
        if commits.is_empty() {
            return;
        }
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        for (pos, commit) in commits {
            record_one(&mut open, *pos, commit);
        }
        for Held { run, key, holder } in held {
            if let Some(effect) = open.get_mut(run).and_then(|effects| effects.get_mut(key)) {
                effect.held_by = Some(holder.clone());
            }
        }
    }

    /// Withholds what a cancel forbids, before the cancel is on disk: early is always safe.
    pub fn withhold(&self, commits: &[(u64, Arc<Commit>)]) {
        for (_, commit) in commits {
            self.record_cancel(commit);
        }
    }

    fn record_cancel(&self, commit: &Commit) {
        let run = || (commit.tenant.clone(), commit.run.clone());
        for entry in &commit.events {
            match &entry.event {
                Event::Run(run::Event::CancelRequested(_)) => self.cancelled_mut().insert(run()),
                Event::Run(run::Event::Ended(_)) => self.cancelled_mut().remove(&run()),
                _ => false,
            };
        }
    }

    fn cancelled_mut(&self) -> std::sync::RwLockWriteGuard<'_, HashSet<(TenantId, RunId)>> {
        self.cancelled
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a cancel of this very run is recorded, and not its end.
    pub fn is_cancelled(&self, tenant: &TenantId, run: &RunId) -> bool {
        let cancelled = self
            .cancelled
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        !cancelled.is_empty() && cancelled.contains(&(tenant.clone(), run.clone()))
    }

    /// Whether any cancel is under way.
    pub fn any_cancelled(&self) -> bool {
        !self
            .cancelled
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }
}

fn record_one(open: &mut ByRun, pos: u64, commit: &Commit) {
    let run = (commit.tenant.clone(), commit.run.clone());
    for entry in &commit.events {
        match &entry.event {
            Event::Effect(effect::Event::Intended(intended)) => {
                let effect = OpenEffect {
                    epoch: commit.epoch,
                    attempt: intended.attempt,
                    action: intended.action,
                    tool: intended.tool.clone(),
                    arguments: intended.arguments.clone(),
                    send_by: intended.send_by,
                    pos,
                    held_by: None,
                };
                open.entry(run.clone())
                    .or_default()
                    .insert(intended.key, effect);
            }
            Event::Effect(event) => {
                if let Some(key) = closes(event)
                    && let Some(effects) = open.get_mut(&run)
                {
                    effects.remove(&key);
                    if effects.is_empty() {
                        open.remove(&run);
                    }
                }
            }
            // A new incarnation sends nothing that an earlier one intended; an ended run sends nothing at all.
            Event::Run(run::Event::Claimed(_) | run::Event::Ended(_)) => {
                open.remove(&run);
            }
            _ => {}
        }
    }
}

/// The effect that an event gives an outcome, or puts in doubt: either way it is not to be sent any more.
fn closes(event: &effect::Event) -> Option<EffectKey> {
    match event {
        effect::Event::NotSent(e) => Some(e.key),
        effect::Event::Lost(e) => match &e.what {
            effect::LostCall::Read { key, .. } => Some(*key),
            effect::LostCall::Model { .. } => None,
        },
        effect::Event::Landed(e) => Some(e.key),
        effect::Event::Declined(e) => Some(e.key),
        effect::Event::Retryable(e) => Some(e.key),
        effect::Event::Unknown(e) => Some(e.key),
        effect::Event::Reconciled(e) => Some(e.key),
        effect::Event::Withdrawn(e) => Some(e.key),
        effect::Event::Intended(_)
        | effect::Event::Escalated(_)
        | effect::Event::Conflicted(_)
        | effect::Event::Contradicted(_) => None,
    }
}
