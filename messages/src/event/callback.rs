//! What comes from outside unasked: callbacks about an operation, and signals that a wait is for.

use serde::{Deserialize, Serialize};

use crate::{ids::EffectKey, payload::Payload};

/// What came.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A callback about an operation of this run.
    Received(Received),
    /// A callback that changes nothing.
    Absorbed(Absorbed),
    /// A signal.
    Signal(Signal),
}

/// A callback about an operation of this run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// The operation's idempotency key.
    pub key: EffectKey,
    /// The callback's own id.
    pub id: String,
    /// What it says; untrusted data.
    pub value: Payload,
}

/// A callback that changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absorbed {
    /// The operation's idempotency key.
    pub key: EffectKey,
    /// The callback's own id.
    pub id: String,
    /// Why: a duplicate, a second one for an operation that was answered.
    pub why: String,
}

/// A signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Its name.
    pub name: String,
    /// Its own id: the same signal twice is one.
    pub id: String,
    /// What it says; untrusted data.
    pub value: Payload,
}
