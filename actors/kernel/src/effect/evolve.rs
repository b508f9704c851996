//! How an effect's state follows from its events.

use std::sync::Arc;

use coppice_messages::{
    Millis, Spent,
    event::{
        effect::{self, Intended, LostCall, NotSent, ReconciledOutcome, ResultCheck, Unknown},
        run::Late,
    },
    ids::EffectKey,
};

use super::{Effect, Proof, Status};
use crate::{
    duty::Duty,
    state::{Meta, State},
};

impl State {
    pub(crate) fn evolve_effect(
        &mut self,
        event: &effect::Event,
        meta: Meta,
        touched: &mut Vec<Duty>,
    ) {
        match event {
            effect::Event::Intended(intended) => self.evolve_intended(intended, touched),
            effect::Event::Landed(landed) => {
                let status = Status::Landed {
                    value: landed.value.clone(),
                    result: landed.result,
                    proof: self.proof_of(&landed.key, landed.result, &landed.receipt),
                };
                self.settle(landed.key, status, &landed.usage, touched);
            }
            effect::Event::Declined(declined) => {
                let status = Status::Declined {
                    message: format!("{}: {}", declined.code, declined.message),
                };
                self.settle(declined.key, status, &declined.usage, touched);
            }
            effect::Event::Retryable(retryable) => {
                let status =
                    self.again(retryable.key, &retryable.code, retryable.retry_after, meta);
                self.settle(retryable.key, status, &retryable.usage, touched);
            }
            effect::Event::NotSent(not_sent) => self.evolve_not_sent(not_sent, meta, touched),
            effect::Event::Withdrawn(withdrawn) => {
                let status = Status::Withdrawn {
                    why: withdrawn.why.clone(),
                };
                self.settle(withdrawn.key, status, &Spent::default(), touched);
            }
            effect::Event::Unknown(unknown) => self.evolve_unknown(unknown, touched),
            effect::Event::Reconciled(reconciled) => {
                let status = match &reconciled.outcome {
                    ReconciledOutcome::Landed {
                        receipt,
                        result,
                        value,
                    } => Status::Landed {
                        value: value.clone(),
                        result: *result,
                        proof: self.proof_of(&reconciled.key, *result, receipt),
                    },
                    ReconciledOutcome::NotHappened => {
                        self.again(reconciled.key, "it did not happen", None, meta)
                    }
                };
                self.settle(reconciled.key, status, &reconciled.usage, touched);
            }
            effect::Event::Escalated(escalated) => {
                if let Some(effect) = self.effects.0.get_mut(&escalated.key) {
                    effect.status = Status::Escalated {
                        why: escalated.why.clone(),
                    };
                }
                touched.push(Duty::Effect(escalated.key));
            }
            effect::Event::Lost(lost) => match &lost.what {
                LostCall::Read { key, .. } => {
                    let status = self.again(*key, "its answer was lost", None, meta);
                    self.settle(*key, status, &lost.charged, touched);
                }
                LostCall::Model { node, .. } => {
                    self.evolve_lost_model(node, &lost.charged, touched)
                }
            },
            effect::Event::Conflicted(_) => {}
            effect::Event::Contradicted(event) => self.evolve_contradicted(event, touched),
        }
    }

    fn evolve_not_sent(&mut self, not_sent: &NotSent, meta: Meta, touched: &mut Vec<Duty>) {
        let status = self.again(not_sent.key, &not_sent.why, None, meta);
        let nothing = Spent::default();
        // Waiting for its turn is no failure, however long others take.
        if not_sent.waited {
            self.close_try(not_sent.key, status, &nothing, touched);
        } else {
            self.settle(not_sent.key, status, &nothing, touched);
        }
    }

    fn evolve_intended(&mut self, intended: &Intended, touched: &mut Vec<Duty>) {
        self.account.calls = self.account.calls.plus(&intended.reserved);
        let failures = self
            .effects
            .get(&intended.key)
            .map_or(0, |effect| effect.failures);
        let effect = Effect {
            intended: Arc::new(intended.clone()),
            status: Status::Open,
            failures,
        };
        self.effects.0.insert(intended.key, effect);
        if intended.call == 0 {
            self.nodes.calls(&intended.node, intended.key);
        }
        self.agents
            .acting(&intended.node, intended.call, intended.key);
        touched.push(Duty::Effect(intended.key));
    }

    /// The doubt is over; the account of an ended run does not move.
    pub(crate) fn evolve_late(&mut self, late: &Late, touched: &mut Vec<Duty>) {
        if let Some(effect) = self.effects.0.get_mut(&late.key) {
            effect.status = match &late.value {
                Some(value) => Status::Landed {
                    value: value.clone(),
                    result: ResultCheck::Ok,
                    proof: Proof::NotAsked,
                },
                None => Status::Withdrawn {
                    why: "it did not happen".to_owned(),
                },
            };
        }
        touched.push(Duty::Effect(late.key));
    }

    fn evolve_unknown(&mut self, unknown: &Unknown, touched: &mut Vec<Duty>) {
        if let Some(effect) = self.effects.0.get_mut(&unknown.key) {
            effect.status = Status::Unknown;
        }
        touched.push(Duty::Effect(unknown.key));
    }

    fn again(&self, key: EffectKey, why: &str, retry_after: Option<Millis>, meta: Meta) -> Status {
        let failures = self.effects.get(&key).map_or(0, |effect| effect.failures);
        let backoff = Millis(
            self.plan
                .contract
                .recovery
                .backoff
                .0
                .saturating_mul(1 << failures.min(16)),
        );
        let at = meta.at.plus(retry_after.unwrap_or(backoff).max(backoff));
        Status::Again {
            at,
            why: why.to_owned(),
        }
    }

    /// A try has its outcome; one that is to be made again came to nothing.
    fn settle(&mut self, key: EffectKey, status: Status, usage: &Spent, touched: &mut Vec<Duty>) {
        if let Some(effect) = self.effects.0.get_mut(&key)
            && matches!(status, Status::Again { .. })
        {
            effect.failures += 1;
        }
        self.close_try(key, status, usage, touched);
    }

    /// What was reserved for a try comes back, what it used is charged.
    fn close_try(
        &mut self,
        key: EffectKey,
        status: Status,
        usage: &Spent,
        touched: &mut Vec<Duty>,
    ) {
        if let Some(effect) = self.effects.0.get_mut(&key) {
            self.account.calls = self.account.calls.less(&effect.intended.reserved);
            self.account.used = self.account.used.plus(usage);
            effect.status = status;
        }
        touched.extend([Duty::Effect(key), Duty::Probe(key)]);
    }
}
