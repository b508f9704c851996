//! What an outcome, or a claim, makes of an effect.

use coppice_messages::event::run::{self, Late};
use coppice_messages::{
    Event,
    event::effect::{
        self, Declined, Escalated, Intended, Landed, Lost, LostCall, NotSent, Reconciled,
        ReconciledOutcome, Retryable, Unknown, Withdrawn,
    },
    ids::EffectKey,
};
use coppice_topology::tool::{OnUnknown, Tool};

use super::{Status, govern::withdrawn_by_policy};
use crate::{
    command::{EffectOutcome, Refusal},
    state::State,
};

impl State {
    /// What a claim makes of effects that were under way: reads are lost, writes are unknown.
    pub(crate) fn claim_effects(&self) -> impl Iterator<Item = Event> {
        let under_way = self
            .effects
            .0
            .values()
            .filter(|effect| effect.status == Status::Open);
        under_way.flat_map(|effect| {
            self.lost_or_unknown(
                &effect.intended,
                "the actor that sent it died before an answer was recorded",
            )
        })
    }

    /// An answer that does not come: a read is charged and asked again, a write is a doubt, which only a person resolves if the tool says so.
    fn lost_or_unknown(&self, intended: &Intended, why: &str) -> Vec<Event> {
        let (key, attempt) = (intended.key, intended.attempt);
        let tool = self.tool(&intended.tool).map(|tool| &tool.contract);
        if tool.is_some_and(Tool::is_read) {
            let what = LostCall::Read { key, attempt };
            return vec![Event::Effect(effect::Event::Lost(Lost {
                what,
                charged: intended.reserved.clone(),
            }))];
        }
        let unknown = Event::Effect(effect::Event::Unknown(Unknown {
            key,
            attempt,
            why: why.to_owned(),
        }));
        if tool.is_none_or(|tool| tool.on_unknown() == OnUnknown::Person) {
            let why = format!(
                "{} cannot be looked up by key; a person must find out",
                intended.tool
            );
            return vec![
                unknown,
                Event::Effect(effect::Event::Escalated(Escalated { key, why })),
            ];
        }
        vec![unknown]
    }

    pub(crate) fn decide_effect(
        &self,
        key: EffectKey,
        attempt: u32,
        outcome: EffectOutcome,
    ) -> Result<Vec<Event>, Refusal> {
        let not_open = || Refusal::NotOpen(format!("attempt {attempt} of effect {key:?}"));
        let effect = self
            .effects
            .get(&key)
            .filter(|effect| effect.intended.attempt == attempt)
            .ok_or_else(not_open)?;
        match effect.status {
            Status::Open => self
                .answer_to_sent(&effect.intended, outcome)
                .ok_or_else(not_open),
            Status::Unknown => answer_to_doubt(&effect.intended, outcome)
                .map(|event| vec![event])
                .ok_or_else(not_open),
            Status::Landed { .. }
            | Status::Declined { .. }
            | Status::Again { .. }
            | Status::Escalated { .. }
            | Status::Contradicted { .. }
            | Status::Withdrawn { .. }
            | Status::Denied { .. } => Err(not_open()),
        }
    }

    /// What comes after the end is recorded as inert, and clears the doubt.
    pub(crate) fn decide_late(
        &self,
        key: EffectKey,
        outcome: &EffectOutcome,
    ) -> Result<Vec<Event>, Refusal> {
        let doubtful = self
            .effects
            .get(&key)
            .is_some_and(|effect| effect.status == Status::Unknown);
        match outcome {
            EffectOutcome::Reconciled { landed, .. } if doubtful => {
                let value = landed.as_ref().map(|(_, _, value)| value.clone());
                Ok(vec![Event::Run(run::Event::Late(Late {
                    key,
                    happened: value.is_some(),
                    value,
                }))])
            }
            // Nobody but a person can find out: the doubt stays named in the run's end.
            EffectOutcome::Unresolvable { .. } if doubtful => Ok(Vec::new()),
            EffectOutcome::Landed { .. }
            | EffectOutcome::Declined { .. }
            | EffectOutcome::Retryable { .. }
            | EffectOutcome::NotSent { .. }
            | EffectOutcome::NoPlace { .. }
            | EffectOutcome::Withdrawn { .. }
            | EffectOutcome::Denied(_)
            | EffectOutcome::Unknown { .. }
            | EffectOutcome::Reconciled { .. }
            | EffectOutcome::Unresolvable { .. } => {
                Err(Refusal::NotOpen(format!("effect {key:?} of an ended run")))
            }
        }
    }

    /// What the answer to a request under way leads to; none when it is an answer to another question.
    fn answer_to_sent(&self, intended: &Intended, outcome: EffectOutcome) -> Option<Vec<Event>> {
        let (key, attempt) = (intended.key, intended.attempt);
        let event = match outcome {
            EffectOutcome::Landed {
                receipt,
                result,
                value,
                usage,
            } => effect::Event::Landed(Landed {
                key,
                attempt,
                receipt,
                result,
                value,
                usage,
            }),
            EffectOutcome::Declined {
                code,
                message,
                usage,
            } => effect::Event::Declined(Declined {
                key,
                attempt,
                code,
                message,
                usage,
            }),
            EffectOutcome::Retryable {
                code,
                retry_after,
                usage,
            } => effect::Event::Retryable(Retryable {
                key,
                attempt,
                code,
                retry_after,
                usage,
            }),
            EffectOutcome::NotSent { why } => not_sent(key, attempt, why, false),
            EffectOutcome::NoPlace { why } => not_sent(key, attempt, why, true),
            EffectOutcome::Withdrawn { why } => {
                effect::Event::Withdrawn(Withdrawn { key, attempt, why })
            }
            EffectOutcome::Denied(judged) => return Some(withdrawn_by_policy(intended, *judged)),
            EffectOutcome::Unknown { why } => return Some(self.lost_or_unknown(intended, &why)),
            EffectOutcome::Reconciled { .. } | EffectOutcome::Unresolvable { .. } => return None,
        };
        Some(vec![Event::Effect(event)])
    }
}

/// What finding out leads to; none when it is an answer to another question.
fn answer_to_doubt(intended: &Intended, outcome: EffectOutcome) -> Option<Event> {
    let (key, attempt) = (intended.key, intended.attempt);
    let event = match outcome {
        EffectOutcome::Reconciled { landed, source } => {
            let usage = intended.reserved.clone();
            let outcome = match landed {
                Some((receipt, result, value)) => ReconciledOutcome::Landed {
                    receipt,
                    result,
                    value,
                },
                None => ReconciledOutcome::NotHappened,
            };
            effect::Event::Reconciled(Reconciled {
                key,
                attempt,
                outcome,
                source,
                usage,
            })
        }
        EffectOutcome::Unresolvable { why } => effect::Event::Escalated(Escalated { key, why }),
        EffectOutcome::Landed { .. }
        | EffectOutcome::Declined { .. }
        | EffectOutcome::Retryable { .. }
        | EffectOutcome::NotSent { .. }
        | EffectOutcome::NoPlace { .. }
        | EffectOutcome::Withdrawn { .. }
        | EffectOutcome::Denied(_)
        | EffectOutcome::Unknown { .. } => return None,
    };
    Some(Event::Effect(event))
}

fn not_sent(key: EffectKey, attempt: u32, why: String, waited: bool) -> effect::Event {
    effect::Event::NotSent(NotSent {
        key,
        attempt,
        why,
        waited,
    })
}
