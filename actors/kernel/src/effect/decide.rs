//! What an outcome, or a claim, makes of an effect.

use coppice_messages::{
    Event,
    event::effect::{
        self, Declined, Escalated, Intended, Landed, Lost, LostCall, NotSent, Reconciled,
        ReconciledOutcome, Retryable, Unknown, Withdrawn,
    },
    ids::EffectKey,
};
use coppice_topology::tool::{OnUnknown, Tool};

use super::Status;
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
        if tool.is_none_or(|tool| tool.http.on_unknown == OnUnknown::Person) {
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
        let sent = effect.status == Status::Open;
        let doubtful = effect.status == Status::Unknown;
        let event = match outcome {
            EffectOutcome::Landed {
                receipt,
                result,
                value,
                usage,
            } if sent => effect::Event::Landed(Landed {
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
            } if sent => effect::Event::Declined(Declined {
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
            } if sent => effect::Event::Retryable(Retryable {
                key,
                attempt,
                code,
                retry_after,
                usage,
            }),
            EffectOutcome::NotSent { why } if sent => {
                effect::Event::NotSent(NotSent { key, attempt, why })
            }
            EffectOutcome::Withdrawn { why } if sent => {
                effect::Event::Withdrawn(Withdrawn { key, attempt, why })
            }
            EffectOutcome::Unknown { why } if sent => {
                return Ok(self.lost_or_unknown(&effect.intended, &why));
            }
            EffectOutcome::Reconciled { landed, source } if doubtful => {
                let usage = effect.intended.reserved.clone();
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
            EffectOutcome::Unresolvable { why } if doubtful => {
                effect::Event::Escalated(Escalated { key, why })
            }
            EffectOutcome::Landed { .. }
            | EffectOutcome::Declined { .. }
            | EffectOutcome::Retryable { .. }
            | EffectOutcome::NotSent { .. }
            | EffectOutcome::Withdrawn { .. }
            | EffectOutcome::Unknown { .. }
            | EffectOutcome::Reconciled { .. }
            | EffectOutcome::Unresolvable { .. } => return Err(not_open()),
        };
        Ok(vec![Event::Effect(event)])
    }
}
