//! What is outside of the drivers: obligations carried out by a desk that counts and a model with three turns.

use coppice_kernel::{
    Command, Duty, Obligation, Start, Turn,
    command::{CheckId, CheckOutcome, EffectOutcome, ModelOutcome, ProbeOutcome},
};
use coppice_messages::{
    Digest, Millis, Operation, ParentRef, Payload, Spent, Value,
    event::{
        effect::{Intended, Receipt, ResultCheck, Source},
        model::Proposal,
        run::{CancelRequested, CancelSettled, ClaimReason},
    },
    ids::RunId,
};

use super::{Lying, World};

impl World {
    pub(super) fn carry(&mut self, run: &RunId, duty: &Duty, obligation: Obligation) {
        let Some(driver) = self.drivers.get(run) else {
            return;
        };
        match obligation {
            Obligation::AskModel { asked, turns } => {
                let turn = Turn::new(self.now, self.room, &self.blobs);
                let input = driver
                    .state()
                    .agent_input(&asked.node, &turn)
                    .expect("an agent has an input");
                let outcome = self.model(
                    &asked.agent.to_string(),
                    &input,
                    turns.len(),
                    turns.last().and_then(|turned| turned.result.clone()),
                );
                self.tell(
                    run,
                    Command::Model {
                        node: asked.node.clone(),
                        call: asked.call,
                        outcome,
                    },
                );
            }
            Obligation::Send { intended } => {
                let outcome = self.send(&intended);
                self.tell(
                    run,
                    Command::Effect {
                        key: intended.key,
                        attempt: intended.attempt,
                        outcome,
                    },
                );
            }
            Obligation::Reconcile { intended } => {
                let landed = self
                    .desk
                    .contains_key(&intended.key)
                    .then(|| (receipt(), ResultCheck::Ok, (self.gives)(&intended)));
                let outcome = EffectOutcome::Reconciled {
                    landed,
                    source: Source::Lookup,
                };
                self.tell(
                    run,
                    Command::Effect {
                        key: intended.key,
                        attempt: intended.attempt,
                        outcome,
                    },
                );
            }
            Obligation::Probe { intended, .. } => {
                let seen = self.probe(&intended);
                self.tell(
                    run,
                    Command::Probed {
                        key: intended.key,
                        seen,
                    },
                );
            }
            Obligation::Check { node, check } => {
                let seen = match check {
                    CheckId::Schema => CheckOutcome::SchemaMet(Digest::ZERO),
                    CheckId::Evidence(_) => {
                        let count = i64::try_from(self.desk.len()).expect("a small number");
                        CheckOutcome::Read(Payload::Inline(Value::map([(
                            "count",
                            Value::Int(count),
                        )])))
                    }
                };
                self.tell(run, Command::Check { node, check, seen });
            }
            Obligation::Await {
                delegated,
                seq,
                commit,
                give_up,
                cancel,
                ..
            } => {
                let child = delegated.envelope.run().clone();
                assert_eq!(*duty, Duty::Child(child.clone()));
                if self
                    .chain(&child)
                    .flat_map(|recorded| &recorded.commit.events)
                    .any(|entry| entry.event.kind() == "run.ended")
                {
                    let end = self.end_of(&child);
                    return self.tell(run, Command::ChildEnded(Box::new(end)));
                }
                let opened = driver
                    .state()
                    .child_opened(&delegated)
                    .expect("the parent is open");
                if self.drivers.contains_key(&child) {
                    return self.remind(&child, give_up, cancel);
                }
                let start = self.start_kind(&child, ClaimReason::Restart);
                self.start(
                    &child,
                    start,
                    Some(ParentRef {
                        run: run.clone(),
                        seq,
                        commit,
                    }),
                );
                if start == Start::First {
                    self.tell(&child, Command::Open(Box::new(opened), None));
                }
                if let Some(why) = give_up {
                    self.tell(&child, Command::GiveUp { why });
                }
                if let Some(cancel) = cancel {
                    self.tell(&child, Command::Cancel(cancel));
                }
            }
            Obligation::Receipt { .. } => {
                let receipt = self.receipt();
                self.tell(run, Command::Receipt(Box::new(receipt)));
            }
        }
    }

    /// A child that lives is only told what is new: the obligation names its state, not a step.
    fn remind(&mut self, child: &RunId, give_up: Option<String>, cancel: Option<CancelRequested>) {
        if let Some(why) = give_up {
            self.tell(child, Command::GiveUp { why });
        }
        if let Some(cancel) = cancel {
            self.tell(child, Command::Cancel(cancel));
        }
    }

    fn receipt(&self) -> CancelSettled {
        CancelSettled {
            acknowledged: 0,
            killed: 0,
            unreachable: 0,
            ended_before: 0,
            effects_landed: 0,
            effects_not_sent: 0,
            effects_in_doubt: 0,
            quiet_after: Millis(0),
            steps_after: 0,
            tokens_after: 0,
            descendants: Payload::Inline(Value::List(Vec::new())),
        }
    }

    fn model(
        &mut self,
        agent: &str,
        input: &Value,
        made: usize,
        last: Option<Payload>,
    ) -> ModelOutcome {
        let usage = Spent {
            tokens: 10,
            ..Spent::step()
        };
        if (self.failing)(input) || self.seed.one_in(self.weather.model_fails) {
            return ModelOutcome::Failed {
                class: "unavailable".to_owned(),
                message: "try later".to_owned(),
                usage,
            };
        }
        let proposal = (self.proposes)(input, agent, made, last);
        ModelOutcome::Proposed {
            proposal,
            answer_valid: Ok(()),
            usage,
            latency: Millis(1),
        }
    }

    pub(super) fn do_write(&mut self, intended: &Intended) {
        if intended.operation != Operation::Read {
            *self.desk.entry(intended.key).or_default() += 1;
        }
    }

    /// Whether the desk shows what was done under this key.
    fn probe(&self, intended: &Intended) -> ProbeOutcome {
        let shown = self.desk.contains_key(&intended.key);
        match self.lying {
            Lying::Never if shown => ProbeOutcome::Holds((self.gives)(intended)),
            Lying::Always | Lying::Never => ProbeOutcome::Contradicted {
                expected: "one".to_owned(),
                seen: "none".to_owned(),
            },
            Lying::Unreadable => ProbeOutcome::Unreadable {
                why: "status 403".to_owned(),
            },
        }
    }

    fn send(&mut self, intended: &Intended) -> EffectOutcome {
        let usage = Spent {
            operations: [(intended.operation, 1)].into(),
            network: 100,
            ..Spent::step()
        };
        if self.no_place > 0 {
            self.no_place -= 1;
            return EffectOutcome::NoPlace {
                why: "the tool is full".to_owned(),
            };
        }
        if self.seed.one_in(self.weather.not_sent) {
            return EffectOutcome::NotSent {
                why: "connection refused".to_owned(),
            };
        }
        if self.seed.one_in(self.weather.retryable) {
            return EffectOutcome::Retryable {
                code: "429".to_owned(),
                retry_after: None,
                usage,
            };
        }
        if self.seed.one_in(self.weather.reply_lost) {
            if self.seed.one_in(2) {
                self.do_write(intended);
            }
            return EffectOutcome::Unknown {
                why: "timeout".to_owned(),
            };
        }
        self.do_write(intended);
        EffectOutcome::Landed {
            receipt: receipt(),
            result: ResultCheck::Ok,
            value: (self.gives)(intended),
            usage,
        }
    }
}

fn receipt() -> Receipt {
    Receipt {
        id: Some("ticket_1".to_owned()),
        version: None,
        result: Digest::ZERO,
    }
}

/// The model of most tests.
pub(super) fn two_reads_and_an_answer(
    input: &Value,
    agent: &str,
    made: usize,
    last: Option<Payload>,
) -> Proposal {
    match made {
        0 => calls("read_incident", Value::map([("id", input.clone())])),
        1 => calls(
            "search_runbook",
            Value::map([("text", Value::from("database"))]),
        ),
        _ => Proposal::Answer(Payload::Inline(Value::map([
            ("incident", input.clone()),
            ("agent", Value::from(agent)),
            ("seen", Value::Bool(last.is_some())),
        ]))),
    }
}

/// A proposed call.
pub fn calls(tool: &str, arguments: Value) -> Proposal {
    Proposal::Call {
        tool: tool.parse().expect("an id"),
        arguments: Payload::Inline(arguments),
    }
}

/// The tools of most tests.
pub(super) fn what_was_asked(intended: &Intended) -> Payload {
    let Payload::Inline(arguments) = &intended.arguments else {
        return Payload::Inline(Value::Null);
    };
    Payload::Inline(Value::map([
        ("id", Value::from("ticket_1")),
        ("of", arguments.clone()),
    ]))
}
