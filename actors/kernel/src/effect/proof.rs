//! Whether the world shows what a tool said it did: the contract's postcondition, read after the effect landed.

use coppice_messages::{
    Event,
    event::{
        check::{self, Failed, Passed},
        effect::{self, Contradicted, Receipt, ResultCheck},
    },
    ids::EffectKey,
};
use serde::Serialize;

use super::{Effect, Effects, Status};
use crate::{
    command::{ProbeOutcome, Refusal},
    duty::{Duty, Obligation},
    state::State,
};

/// The name of the check in `check.passed` and `check.failed`.
const POSTCONDITION: &str = "postcondition";

/// What is known of an effect's postcondition.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) enum Proof {
    /// Nobody asks: the contract has none, or the result cannot be used.
    #[default]
    NotAsked,
    /// It is to be looked at, with this receipt.
    Owed(Receipt),
    /// The world shows it.
    Shown,
    /// It cannot be read.
    Unread {
        /// Why.
        why: String,
    },
}

impl Proof {
    pub(crate) fn is_not_asked(&self) -> bool {
        *self == Self::NotAsked
    }
}

impl Effects {
    /// The effects whose postcondition is to be looked at.
    pub(crate) fn unproven(&self) -> impl Iterator<Item = EffectKey> {
        let owed = |effect: &&Effect| effect.receipt_to_prove().is_some();
        let each = self.0.iter().filter(move |(_, effect)| owed(effect));
        each.map(|(key, _)| *key)
    }
}

impl Effect {
    fn receipt_to_prove(&self) -> Option<&Receipt> {
        if let Status::Landed {
            proof: Proof::Owed(receipt),
            ..
        } = &self.status
        {
            Some(receipt)
        } else {
            None
        }
    }
}

impl State {
    /// What is to be done about the postcondition of an effect that landed just now.
    pub(super) fn proof_of(
        &self,
        key: &EffectKey,
        result: ResultCheck,
        receipt: &Receipt,
    ) -> Proof {
        let asks = self.effects.get(key).is_some_and(|effect| {
            self.tool(&effect.intended.tool)
                .is_some_and(|tool| tool.contract.postcondition.is_some())
        });
        if asks && result == ResultCheck::Ok {
            Proof::Owed(receipt.clone())
        } else {
            Proof::NotAsked
        }
    }

    pub(crate) fn owed_probe(&self, key: &EffectKey) -> Option<Obligation> {
        let effect = self.effects.get(key)?;
        let receipt = effect.receipt_to_prove()?;
        self.lifecycle.closing.is_none().then(|| Obligation::Probe {
            intended: effect.intended.clone(),
            receipt: receipt.clone(),
        })
    }

    /// A closing run looks at nothing any more.
    pub(crate) fn touch_probes(&self, touched: &mut Vec<Duty>) {
        touched.extend(self.effects.unproven().map(Duty::Probe));
    }

    pub(crate) fn decide_probed(
        &self,
        key: EffectKey,
        seen: ProbeOutcome,
    ) -> Result<Vec<Event>, Refusal> {
        let effect = self
            .effects
            .get(&key)
            .filter(|_| self.owed_probe(&key).is_some())
            .ok_or_else(|| Refusal::NotOpen(format!("the postcondition of effect {key:?}")))?;
        let node = effect.intended.node.clone();
        let check = POSTCONDITION.to_owned();
        Ok(vec![match seen {
            ProbeOutcome::Holds(seen) => Event::Check(check::Event::Passed(Passed {
                node,
                check,
                effect: Some(key),
                seen,
            })),
            ProbeOutcome::Contradicted { expected, seen } => {
                Event::Effect(effect::Event::Contradicted(Contradicted {
                    key,
                    attempt: effect.intended.attempt,
                    expected,
                    seen,
                }))
            }
            ProbeOutcome::Unreadable { why } => Event::Check(check::Event::Failed(Failed {
                node,
                check,
                effect: Some(key),
                expected: "an answer that shows whether it was done".to_owned(),
                seen: crate::check::text(&why),
            })),
        }])
    }

    /// What a check says about an effect.
    pub(crate) fn evolve_proof(&mut self, key: EffectKey, known: Proof, touched: &mut Vec<Duty>) {
        if let Some(effect) = self.effects.0.get_mut(&key)
            && let Status::Landed { proof, .. } = &mut effect.status
        {
            *proof = known;
        }
        touched.push(Duty::Probe(key));
    }

    pub(super) fn evolve_contradicted(&mut self, event: &Contradicted, touched: &mut Vec<Duty>) {
        if let Some(effect) = self.effects.0.get_mut(&event.key) {
            effect.status = Status::Contradicted {
                why: format!(
                    "{} says that it was done, and the world does not show it: expected {}, saw {}",
                    effect.intended.tool, event.expected, event.seen
                ),
            };
        }
        touched.push(Duty::Probe(event.key));
    }
}
