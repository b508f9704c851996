//! Outside effects: intended, sent once, and when nobody knows, found out before anything else.

mod decide;
mod evolve;
mod govern;
mod intend;
mod proof;

use std::{collections::BTreeMap, sync::Arc};

use coppice_messages::{
    Event, Payload, Timestamp,
    budget::Overdrawn,
    event::{
        budget,
        effect::{Intended, ResultCheck},
    },
    ids::EffectKey,
};
use coppice_topology::tool::Attempts;
use serde::Serialize;

pub(crate) use self::{govern::recorded, intend::NotIntended, proof::Proof};
use crate::state::{Room, State, Turn};

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
        /// Whether the world shows it. Left out of the state's hash where nobody asks.
        #[serde(skip_serializing_if = "Proof::is_not_asked")]
        proof: Proof,
    },
    /// The tool said that it happened, and the world does not show it.
    Contradicted {
        /// What was wanted and what was seen.
        why: String,
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
    /// The policy set denied it: nothing was sent and nothing will be.
    Denied {
        /// Its reason.
        why: String,
    },
}

/// The class of a node whose tool said "done" while the world does not show it.
pub(crate) const POSTCONDITION_FAILED: &str = "postcondition_failed";

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
            Status::Open
            | Status::Unknown
            | Status::Declined { .. }
            | Status::Again { .. }
            | Status::Escalated { .. }
            | Status::Contradicted { .. }
            | Status::Withdrawn { .. }
            | Status::Denied { .. } => None,
        }
    }

    /// Nothing is on its way.
    pub(crate) fn none_sent(&self) -> bool {
        !self.0.values().any(|effect| effect.status == Status::Open)
    }

    /// Nothing is on its way, and nothing is unclear that looking up can clear.
    pub(crate) fn none_open(&self) -> bool {
        !self
            .0
            .values()
            .any(|effect| matches!(effect.status, Status::Open | Status::Unknown))
    }
}

impl State {
    pub(crate) fn resolution(&self, effect: &Effect) -> Resolution {
        match &effect.status {
            Status::Open | Status::Unknown | Status::Escalated { .. } => Resolution::Pending,
            Status::Landed {
                value,
                result: ResultCheck::Ok,
                proof,
            } => match proof {
                Proof::Owed(_) => Resolution::Pending,
                Proof::NotAsked | Proof::Shown => Resolution::Value(value.clone()),
                Proof::Unread { why } => Resolution::Failed {
                    class: "postcondition_unread",
                    message: format!(
                        "{} says that it was done, and whether the world shows it cannot be read: {why}",
                        effect.intended.tool
                    ),
                },
            },
            Status::Contradicted { why } => Resolution::Failed {
                class: POSTCONDITION_FAILED,
                message: why.clone(),
            },
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
            Status::Denied { why } => Resolution::Failed {
                class: "policy_denied",
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

    /// Whether the node that intended it still waits for it. Another that means the same operation intends it anew.
    fn is_wanted(&self, effect: &Effect) -> bool {
        self.nodes
            .at_work()
            .any(|node| *node == effect.intended.node)
    }

    /// Whether it was to be tried again and the node that intended it does not wait for it any more.
    pub(super) fn is_left(&self, effect: &Effect) -> bool {
        let put_off = matches!(effect.status, Status::Again { .. });
        put_off && self.may_try_again(effect) && !self.is_wanted(effect)
    }

    /// When the next try is due. What will not be tried again is not due, however long ago its time was.
    pub(crate) fn effects_due(&self) -> Option<Timestamp> {
        let again = |effect: &Effect| {
            if let Status::Again { at, .. } = effect.status {
                (self.may_try_again(effect) && self.is_wanted(effect)).then_some(at)
            } else {
                None
            }
        };
        self.effects.0.values().filter_map(again).min()
    }

    /// A new intent for what provably did not happen, once its backoff is over.
    pub(crate) fn advance_again(&self, turn: &Turn<'_>) -> Vec<Event> {
        if self.lifecycle.closing.is_some() {
            return Vec::new();
        }
        let due = |effect: &&Effect| {
            matches!(effect.status, Status::Again { at, .. } if at <= turn.now)
                && self.may_try_again(effect)
                && self.is_wanted(effect)
        };
        let Some(effect) = self.effects.0.values().find(due) else {
            return Vec::new();
        };
        if let Err(over) = self.account.affords(&effect.intended.reserved) {
            return vec![exhausted(over)];
        }
        if turn.room == Room::Low {
            return Vec::new();
        }
        let mut intended = Intended::clone(&effect.intended);
        intended.attempt += 1;
        intended.send_by = Self::send_by(turn.now);
        intended.policy = None;
        match self.governed(intended, turn) {
            Ok(events) => events,
            Err(denied) => vec![recorded(denied.decided)],
        }
    }
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
