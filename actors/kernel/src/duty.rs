//! Obligations: what must now happen outside, derived from state and nothing else.
//!
//! A [`Duty`] names one thing that may be owed; [`State::obligation`] says whether it is. [`State::owed`] is total and is the truth;
//! the driver keeps the difference by the duties that each event touched.

use std::sync::Arc;

use coppice_messages::{
    Digest, Timestamp,
    event::{
        child::Delegated,
        effect::{Intended, Receipt},
        model::Asked,
        run::CancelRequested,
    },
    ids::{EffectKey, NodeName, RunId},
};

use crate::{
    agent::Turned,
    child::{Child, Stage},
    command::CheckId,
    effect::Status,
    state::State,
};

/// The name of something that may be owed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Duty {
    /// The model call of an agent node.
    Model(NodeName),
    /// An effect: to be sent, or to be found out.
    Effect(EffectKey),
    /// The postcondition of an effect that landed.
    Probe(EffectKey),
    /// A check of an end node.
    Check(NodeName, CheckId),
    /// A child: to be started, or its end to be reported.
    Child(RunId),
    /// The receipt of a cancel that began here.
    Receipt,
}

/// What must now happen outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Obligation {
    /// Ask the model. Recorded in the current epoch, so it was not asked before.
    AskModel {
        /// As recorded.
        asked: Arc<Asked>,
        /// The calls before, with their results.
        turns: Arc<Vec<Turned>>,
    },
    /// Send the effect. Recorded in the current epoch, so no byte of it has left.
    Send {
        /// As recorded.
        intended: Arc<Intended>,
    },
    /// Find out by key what became of the effect; never send.
    Reconcile {
        /// As recorded.
        intended: Arc<Intended>,
    },
    /// Look whether the world shows what the tool said it did.
    Probe {
        /// As recorded.
        intended: Arc<Intended>,
        /// What the tool gave as proof.
        receipt: Receipt,
    },
    /// Make a check of success.
    Check {
        /// The end node.
        node: NodeName,
        /// Which of its checks.
        check: CheckId,
    },
    /// See to it that the child runs, and report its end.
    Await {
        /// As recorded.
        delegated: Arc<Delegated>,
        /// Number of the recorded event.
        seq: u64,
        /// The commit that holds it.
        commit: Digest,
        /// Starts of its actor that a crash made necessary.
        restarts: u32,
        /// The supervisor gave it up: it is to be closed, not driven.
        give_up: Option<String>,
        /// It is to be told that it is cancelled, and why.
        cancel: Option<CancelRequested>,
    },
    /// Read from the log what became of everything below this run since its cancel.
    Receipt {
        /// When the cancel was recorded.
        since: Timestamp,
    },
}

impl Obligation {
    /// Whether carrying it out can change the outside, so that the incarnation must have recorded its claim.
    #[must_use]
    pub fn acts(&self) -> bool {
        match self {
            Self::AskModel { .. }
            | Self::Send { .. }
            | Self::Reconcile { .. }
            | Self::Probe { .. }
            | Self::Check { .. } => true,
            Self::Await { .. } | Self::Receipt { .. } => false,
        }
    }
}

impl State {
    /// What is owed under this name now.
    #[must_use]
    pub fn obligation(&self, duty: &Duty) -> Option<Obligation> {
        if self.ended().is_some() {
            return self.owed_after_end(duty);
        }
        if !self.is_open() {
            return None;
        }
        match duty {
            Duty::Model(node) => self.owed_model(node),
            Duty::Effect(key) => self.owed_effect(key),
            Duty::Probe(key) => self.owed_probe(key),
            Duty::Check(node, check) => self.owed_check(node, *check),
            Duty::Child(child) => self.owed_child(child),
            Duty::Receipt => self.owed_receipt(),
        }
    }

    /// Everything that is owed now; equal after any rebuild.
    #[must_use]
    pub fn owed(&self) -> Vec<(Duty, Obligation)> {
        let models = self.agents.names().map(Duty::Model);
        let effects = self.effects.keys().map(Duty::Effect);
        let probes = self.effects.unproven().map(Duty::Probe);
        let checks = self
            .check_names()
            .into_iter()
            .map(|(node, check)| Duty::Check(node, check));
        let children = self.children.ids().map(Duty::Child);
        let receipt = std::iter::once(Duty::Receipt);
        let duties = models
            .chain(effects)
            .chain(probes)
            .chain(checks)
            .chain(children)
            .chain(receipt);
        duties
            .filter_map(|duty| self.obligation(&duty).map(|obligation| (duty, obligation)))
            .collect()
    }

    fn owed_model(&self, node: &NodeName) -> Option<Obligation> {
        let (agent, asked) = self.agents.asking(node)?;
        Some(Obligation::AskModel {
            asked,
            turns: agent.turns.clone(),
        })
    }

    fn owed_effect(&self, key: &EffectKey) -> Option<Obligation> {
        let effect = self.effects.get(key)?;
        match effect.status {
            Status::Open => Some(Obligation::Send {
                intended: effect.intended.clone(),
            }),
            Status::Unknown => Some(Obligation::Reconcile {
                intended: effect.intended.clone(),
            }),
            Status::Landed { .. }
            | Status::Declined { .. }
            | Status::Again { .. }
            | Status::Escalated { .. }
            | Status::Contradicted { .. }
            | Status::Withdrawn { .. }
            | Status::Denied { .. } => None,
        }
    }

    fn owed_check(&self, node: &NodeName, check: CheckId) -> Option<Obligation> {
        let wanted = self.lifecycle.closing.is_none() && self.check_is_open(node, check);
        wanted.then(|| Obligation::Check {
            node: node.clone(),
            check,
        })
    }

    fn owed_child(&self, child: &RunId) -> Option<Obligation> {
        let child = self.children.get(child)?;
        let give_up = match &child.stage {
            Stage::Live => None,
            Stage::GivenUp { why } => Some(why.clone()),
            Stage::Queued | Stage::Crashed { .. } | Stage::Settled => return None,
        };
        Some(Obligation::Await {
            delegated: child.delegated.clone(),
            seq: child.seq,
            commit: child.commit,
            restarts: child.restarts,
            give_up,
            cancel: self.cancel_of(child),
        })
    }

    /// What a cancelled child is told: the run's own cancel, the decision of its join, or that there will be none.
    fn cancel_of(&self, child: &Child) -> Option<CancelRequested> {
        if let Some(cancel) = &self.lifecycle.cancel {
            let from = Some(
                cancel
                    .requested
                    .from
                    .clone()
                    .unwrap_or_else(|| self.run.clone()),
            );
            return Some(CancelRequested {
                from,
                ..cancel.requested.clone()
            });
        }
        let why = self.children.cancelled_because(child)?;
        Some(CancelRequested {
            by: self.run.to_string(),
            why: why.to_owned(),
            // This run is not cancelled: the cancel begins at the child, which gives the receipt.
            from: None,
        })
    }

    fn owed_receipt(&self) -> Option<Obligation> {
        let since = self.lifecycle.cancel.as_ref()?.at;
        self.receipt_is_due()
            .then_some(Obligation::Receipt { since })
    }

    /// A doubt outlives the run: it is still found out.
    fn owed_after_end(&self, duty: &Duty) -> Option<Obligation> {
        let Duty::Effect(key) = duty else { return None };
        let effect = self
            .effects
            .get(key)
            .filter(|effect| effect.status == Status::Unknown)?;
        Some(Obligation::Reconcile {
            intended: effect.intended.clone(),
        })
    }

    /// Whether everything that must not be left behind is over: calls, effects, children.
    pub(crate) fn is_quiet(&self) -> bool {
        self.agents.none_asking() && self.effects.none_open() && self.children.all_settled()
    }

    /// When an intent recorded now must have left.
    pub(crate) fn send_by(now: Timestamp) -> Timestamp {
        now.plus(coppice_messages::Millis(crate::limits::SEND_WITHIN_MS))
    }
}
