//! Outside effects: intended, sent once, and when nobody knows, found out before anything else.

use std::{collections::BTreeMap, sync::Arc};

use coppice_messages::{
    Digest, Event, Millis, Payload, Spent, Timestamp, Value,
    budget::Overdrawn,
    digest::LengthPrefixed,
    event::{
        budget,
        effect::{
            self, Conflicted, Declined, Escalated, Intended, Landed, Lost, LostCall, NotSent,
            Reconciled, ReconciledOutcome, ResultCheck, Retryable, Unknown, Withdrawn,
        },
    },
    ids::{EffectKey, NodeName, ToolName},
};
use coppice_topology::{
    node::Call,
    plan::PinnedTool,
    tool::{Attempts, OnUnknown},
};
use serde::Serialize;

use crate::{
    command::{EffectOutcome, Refusal},
    duty::Duty,
    progress::{ended, failed},
    state::{Meta, State, Turn},
};

/// The effects of one run by key.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Effects(BTreeMap<EffectKey, Effect>);

/// One effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    pub(crate) intended: Arc<Intended>,
    pub(crate) status: Status,
    /// Tries so far that came to nothing.
    pub(crate) failures: u32,
}

/// Where an effect stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Status {
    /// Intended; a byte may have left.
    Open,
    /// Nobody knows.
    Unknown,
    /// It happened.
    Landed {
        /// The result.
        value: Payload,
        /// Whether it can be used.
        result: ResultCheck,
    },
    /// The outside said no.
    Declined {
        /// Its code and words.
        message: String,
    },
    /// Provably not done; may be tried again from this time.
    Again {
        /// From when.
        at: Timestamp,
        /// Why it was not done.
        why: String,
    },
    /// Only a person can find out.
    Escalated {
        /// Why.
        why: String,
    },
    /// Nothing was sent and nothing will be.
    Withdrawn {
        /// The check that failed.
        why: String,
    },
}

/// What an effect came to, for the node or agent that wanted it.
pub(crate) enum Resolution {
    Pending,
    Value(Payload),
    Failed {
        class: &'static str,
        message: String,
    },
}

impl Effects {
    pub(crate) fn get(&self, key: &EffectKey) -> Option<&Effect> {
        self.0.get(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = EffectKey> {
        self.0.keys().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&EffectKey, &Effect)> {
        self.0.iter()
    }

    pub(crate) fn value(&self, key: &EffectKey) -> Option<&Payload> {
        match &self.0.get(key)?.status {
            Status::Landed { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Nothing is on its way, and nothing is unclear that looking up can clear.
    pub(crate) fn none_open(&self) -> bool {
        !self
            .0
            .values()
            .any(|effect| matches!(effect.status, Status::Open | Status::Unknown))
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        let again = |effect: &Effect| {
            if let Status::Again { at, .. } = effect.status {
                Some(at)
            } else {
                None
            }
        };
        self.0.values().filter_map(again).min()
    }
}

impl State {
    fn tool(&self, tool: &ToolName) -> Option<&PinnedTool> {
        self.plan.tools.get(tool)
    }

    /// What one call reserves: a step, one operation of its class, and the largest answer that it may bring.
    fn reservation(tool: &PinnedTool) -> Spent {
        Spent {
            steps: 1,
            network: tool.contract.http.request.max_bytes.0,
            operations: [(tool.contract.operation, 1)].into(),
            ..Spent::default()
        }
    }

    /// The operation's name within the lineage: the business key where the contract has one, else the place in the plan.
    fn operation(
        &self,
        tool: &PinnedTool,
        node: &NodeName,
        call: u32,
        turn: &Turn<'_>,
    ) -> Result<String, String> {
        let business_key = &tool.contract.idempotency.business_key;
        if business_key.is_empty() {
            let path = self
                .opened()
                .map(|opened| opened.path.as_str())
                .unwrap_or_default();
            return Ok(format!("at:{path}/{node}.{call}"));
        }
        let scope = self.scope(turn);
        let parts = business_key
            .iter()
            .map(|reference| reference.resolve(&scope));
        let parts = parts
            .collect::<Result<Vec<Value>, _>>()
            .map_err(|dangling| format!("business key: {dangling}"))?;
        Ok(format!("business:{}", Value::List(parts)))
    }

    /// The intent to call a tool, with what it needs reserved; or why not.
    pub(crate) fn intend(
        &self,
        node: &NodeName,
        call: u32,
        tool: &ToolName,
        arguments: Payload,
        turn: &Turn<'_>,
    ) -> Result<Event, Event> {
        let fail = |class: &str, message: String| Err(failed(node, class, message));
        let Some(pinned) = self.tool(tool) else {
            return fail("refused_tool", format!("{tool} is not in the release"));
        };
        let Some(opened) = self.opened() else {
            return fail("refused_tool", "the run is not open".to_owned());
        };
        if !opened.envelope.permitted_tools().contains(tool) {
            return fail(
                "refused_tool",
                format!("{tool} is not among the tools that this run may call"),
            );
        }
        if pinned.contract.operation.access() > opened.envelope.access() {
            return fail(
                "refused_tool",
                format!("{tool} needs {}", pinned.contract.operation.access()),
            );
        }
        let operation = match self.operation(pinned, node, call, turn) {
            Ok(operation) => operation,
            Err(message) => return fail("result_invalid", message),
        };
        let key = EffectKey::derive(&self.tenant, tool, &opened.lineage, &operation);
        let action = self.action_digest(pinned, &arguments, key);
        if let Some(had) = self.effects.get(&key) {
            return Err(self.meet_again(node, key, had, action));
        }
        let reserved = Self::reservation(pinned);
        if let Err(over) = self.account.affords(&reserved) {
            return Err(exhausted(over));
        }
        Ok(Event::Effect(effect::Event::Intended(Box::new(Intended {
            key,
            node: node.clone(),
            call,
            tool: tool.clone(),
            tool_digest: pinned.digest,
            operation: pinned.contract.operation,
            arguments,
            action,
            attempt: 1,
            send_by: Self::send_by(turn.now),
            reserved,
        }))))
    }

    /// The key is taken: equal arguments are one operation, other arguments are a conflict.
    fn meet_again(&self, node: &NodeName, key: EffectKey, had: &Effect, action: Digest) -> Event {
        if had.intended.action == action
            && matches!(
                had.status,
                Status::Landed {
                    result: ResultCheck::Ok,
                    ..
                }
            )
        {
            return ended(node, event_done(), Some(key));
        }
        Event::Effect(effect::Event::Conflicted(Conflicted {
            key,
            had: had.intended.action,
            asked: action,
        }))
    }

    fn action_digest(&self, tool: &PinnedTool, arguments: &Payload, key: EffectKey) -> Digest {
        let principal = self
            .opened()
            .map(|opened| opened.envelope.principal())
            .unwrap_or_default();
        LengthPrefixed::new()
            .part(tool.contract.tool.as_str().as_bytes())
            .part(&tool.digest.0)
            .part(&arguments.digest().0)
            .part(principal.as_bytes())
            .part(self.tenant.as_str().as_bytes())
            .part(self.run.as_str().as_bytes())
            .part(&key.0.0)
            .finish()
    }

    pub(crate) fn advance_call(&self, node: &NodeName, call: &Call, turn: &Turn<'_>) -> Vec<Event> {
        let own = self
            .effects
            .iter()
            .find(|(_, effect)| effect.intended.node == *node && effect.intended.call == 0);
        if let Some((key, effect)) = own {
            return match self.resolution(effect) {
                Resolution::Pending => Vec::new(),
                Resolution::Value(_) => vec![ended(node, event_done(), Some(*key))],
                Resolution::Failed { class, message } => vec![failed(node, class, message)],
            };
        }
        let arguments = match call.arguments.resolve(&self.scope(turn)) {
            Ok(arguments) => turn.keep(arguments),
            Err(dangling) => {
                return vec![failed(
                    node,
                    "result_invalid",
                    format!("arguments: {dangling}"),
                )];
            }
        };
        match self.intend(node, 0, &call.tool, arguments, turn) {
            Ok(intended) => vec![intended],
            Err(event @ Event::Effect(effect::Event::Conflicted(_))) => {
                vec![
                    event,
                    failed(
                        node,
                        "key_conflict",
                        "the key stands for other arguments; a person must look",
                    ),
                ]
            }
            Err(event) => vec![event],
        }
    }

    pub(crate) fn resolution(&self, effect: &Effect) -> Resolution {
        match &effect.status {
            Status::Open | Status::Unknown | Status::Escalated { .. } => Resolution::Pending,
            Status::Landed {
                value,
                result: ResultCheck::Ok,
            } => Resolution::Value(value.clone()),
            Status::Landed { result, .. } => Resolution::Failed {
                class: "result_invalid",
                message: match result {
                    ResultCheck::OutputTooLarge => {
                        "the tool's output is larger than its contract allows (output_too_large)"
                            .to_owned()
                    }
                    ResultCheck::OutputInvalid | ResultCheck::Ok => {
                        "the tool's output does not meet its schema (output_invalid)".to_owned()
                    }
                },
            },
            Status::Declined { message } => Resolution::Failed {
                class: "declined",
                message: message.clone(),
            },
            Status::Withdrawn { why } => Resolution::Failed {
                class: "withdrawn",
                message: why.clone(),
            },
            Status::Again { .. } if self.may_try_again(effect) => Resolution::Pending,
            Status::Again { why, .. } => Resolution::Failed {
                class: "repeated_failure",
                message: why.clone(),
            },
        }
    }

    fn may_try_again(&self, effect: &Effect) -> bool {
        let allowed = self.tool(&effect.intended.tool).is_some_and(|tool| {
            tool.contract.is_read() || tool.contract.idempotency.attempts == Attempts::AtLeastOnce
        });
        allowed && effect.failures < self.plan.contract.recovery.attempts
    }

    /// A new intent for what provably did not happen, once its backoff is over.
    pub(crate) fn advance_again(&self, turn: &Turn<'_>) -> Vec<Event> {
        if self.lifecycle.closing.is_some() {
            return Vec::new();
        }
        let due = |effect: &&Effect| {
            matches!(effect.status, Status::Again { at, .. } if at <= turn.now)
                && self.may_try_again(effect)
        };
        let Some(effect) = self.effects.0.values().find(due) else {
            return Vec::new();
        };
        if let Err(over) = self.account.affords(&effect.intended.reserved) {
            return vec![exhausted(over)];
        }
        let mut intended = Intended::clone(&effect.intended);
        intended.attempt += 1;
        intended.send_by = Self::send_by(turn.now);
        vec![Event::Effect(effect::Event::Intended(Box::new(intended)))]
    }

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
        if tool.is_some_and(coppice_topology::tool::Tool::is_read) {
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
            effect::Event::NotSent(not_sent) => {
                let status = self.again(not_sent.key, &not_sent.why, None, meta);
                self.settle(not_sent.key, status, &Spent::default(), touched);
            }
            effect::Event::Withdrawn(withdrawn) => {
                let status = Status::Withdrawn {
                    why: withdrawn.why.clone(),
                };
                self.settle(withdrawn.key, status, &Spent::default(), touched);
            }
            effect::Event::Unknown(unknown) => self.evolve_unknown(unknown, touched),
            effect::Event::Reconciled(reconciled) => {
                let status = match &reconciled.outcome {
                    ReconciledOutcome::Landed { result, value, .. } => Status::Landed {
                        value: value.clone(),
                        result: *result,
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
        self.agents
            .acting(&intended.node, intended.call, intended.key);
        touched.push(Duty::Effect(intended.key));
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

    fn settle(&mut self, key: EffectKey, status: Status, usage: &Spent, touched: &mut Vec<Duty>) {
        if let Some(effect) = self.effects.0.get_mut(&key) {
            self.account.calls = self.account.calls.less(&effect.intended.reserved);
            self.account.used = self.account.used.plus(usage);
            if matches!(status, Status::Again { .. }) {
                effect.failures += 1;
            }
            effect.status = status;
        }
        touched.push(Duty::Effect(key));
    }
}

pub(crate) fn event_done() -> coppice_messages::event::node::Outcome {
    coppice_messages::event::node::Outcome::Done
}

pub(crate) fn exhausted(over: Overdrawn) -> Event {
    let Overdrawn {
        dimension,
        asked,
        left,
    } = over;
    Event::Budget(budget::Event::Exhausted(budget::Exhausted {
        dimension,
        asked,
        left,
    }))
}
