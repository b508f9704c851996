//! Outside effects: intended, then one of the outcomes of `spec/effects.md` 2; a doubt is reconciled by key.

use serde::{Deserialize, Serialize};

use crate::{
    budget::Spent,
    digest::Digest,
    ids::{EffectKey, NodeName, ToolName},
    payload::Payload,
    scope::Operation,
    units::{Millis, Timestamp},
};

/// What happened to an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// From here on a byte may have left.
    Intended(Box<Intended>),
    /// Provably no byte left.
    NotSent(NotSent),
    /// A read or model call whose answer will not come; charged with its reservation.
    Lost(Lost),
    /// It happened.
    Landed(Landed),
    /// The outside said no; never tried again.
    Declined(Declined),
    /// The outside refused for now.
    Retryable(Retryable),
    /// Nobody knows.
    Unknown(Unknown),
    /// Now it is known.
    Reconciled(Reconciled),
    /// Only a person can find out.
    Escalated(Escalated),
    /// The check at the moment of use failed; nothing was sent.
    Withdrawn(Withdrawn),
    /// The key stands for other arguments.
    Conflicted(Conflicted),
    /// The tool said that it happened, and the world does not show it.
    Contradicted(Contradicted),
}

/// An effect is intended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intended {
    /// Idempotency key.
    pub key: EffectKey,
    /// The node that wants it.
    pub node: NodeName,
    /// Step of an agent's loop; 0 for a call node.
    pub call: u32,
    /// Which tool.
    pub tool: ToolName,
    /// Digest of its contract.
    pub tool_digest: Digest,
    /// What it does to the outside.
    pub operation: Operation,
    /// Canonical arguments.
    pub arguments: Payload,
    /// Digest of all that is bound: tool, version, arguments, principal, tenant, run, key.
    pub action: Digest,
    /// From 1.
    pub attempt: u32,
    /// No byte leaves at or after this time.
    pub send_by: Timestamp,
    /// Reserved until the outcome is recorded.
    pub reserved: Spent,
    /// Version of the policy set that allowed it; none where there is no set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Digest>,
}

/// Provably no byte left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotSent {
    /// Which effect.
    pub key: EffectKey,
    /// Which attempt.
    pub attempt: u32,
    /// Why.
    pub why: String,
    /// It only waited for a place among the calls of its tool: no try that came to nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
}

/// A read or model call whose answer will not come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Which.
    pub what: LostCall,
    /// Its reservation, now used.
    pub charged: Spent,
}

/// What was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostCall {
    /// A read.
    Read {
        /// Its key.
        key: EffectKey,
        /// Which attempt.
        attempt: u32,
    },
    /// A model call.
    Model {
        /// The agent node.
        node: NodeName,
        /// Which call.
        call: u32,
    },
}

/// It happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Landed {
    /// Which effect.
    pub key: EffectKey,
    /// Which attempt.
    pub attempt: u32,
    /// What the outside gave as proof.
    pub receipt: Receipt,
    /// Whether the result can be used.
    pub result: ResultCheck,
    /// The result; null when it cannot be used.
    pub value: Payload,
    /// What the call used.
    pub usage: Spent,
}

/// What the outside gave as proof.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Receipt {
    /// The outside's id of what was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Version of the resource as observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Digest of the whole result.
    pub result: Digest,
}

impl Default for Digest {
    fn default() -> Self {
        Self::ZERO
    }
}

/// Whether a result can be used; changes nothing about the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultCheck {
    /// It meets its schema.
    Ok,
    /// It does not.
    OutputInvalid,
    /// It is larger than the tool's contract allows.
    OutputTooLarge,
}

/// The outside said no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declined {
    /// Which effect.
    pub key: EffectKey,
    /// Which attempt.
    pub attempt: u32,
    /// The outside's code, such as `409 key_conflict`.
    pub code: String,
    /// The outside's words.
    pub message: String,
    /// What the call used.
    pub usage: Spent,
}

/// The outside refused for now, and provably did nothing or deduplicates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retryable {
    /// Which effect.
    pub key: EffectKey,
    /// Which attempt.
    pub attempt: u32,
    /// The outside's code.
    pub code: String,
    /// How long the outside asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Millis>,
    /// What the call used.
    pub usage: Spent,
}

/// Nobody knows whether it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Which effect.
    pub key: EffectKey,
    /// Which attempt.
    pub attempt: u32,
    /// What was seen: a timeout, a reset, a 5xx, a crash.
    pub why: String,
}

/// A doubt is resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reconciled {
    /// Which effect.
    pub key: EffectKey,
    /// Which attempt.
    pub attempt: u32,
    /// How it turned out.
    pub outcome: ReconciledOutcome,
    /// How it was found out.
    pub source: Source,
    /// What finding out used.
    pub usage: Spent,
}

/// How a doubt turned out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReconciledOutcome {
    /// It happened.
    Landed {
        /// Proof.
        receipt: Receipt,
        /// Whether the result can be used.
        result: ResultCheck,
        /// The result.
        value: Payload,
    },
    /// It did not happen and will not.
    NotHappened,
}

/// How a doubt was resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The tool's look-up by key.
    Lookup,
    /// The answer of the request under way when the actor died.
    Answer,
}

/// Only a person can find out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalated {
    /// Which effect.
    pub key: EffectKey,
    /// Why look-up does not help, and what to look at.
    pub why: String,
}

/// Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdrawn {
    /// Which effect.
    pub key: EffectKey,
    /// Which attempt.
    pub attempt: u32,
    /// The check that failed.
    pub why: String,
}

/// The key stands for other arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflicted {
    /// Which effect.
    pub key: EffectKey,
    /// Digest of what was intended under this key.
    pub had: Digest,
    /// Digest of what is asked now.
    pub asked: Digest,
}

/// The tool said that it happened, and the world does not show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contradicted {
    /// Which effect.
    pub key: EffectKey,
    /// Which attempt.
    pub attempt: u32,
    /// What the postcondition wants.
    pub expected: String,
    /// What was seen.
    pub seen: String,
}
