//! Children: delegated, supervised, returned, settled (`spec/delegation.md`).

use serde::{Deserialize, Serialize};

use super::run::Reason;
use crate::{
    budget::Spent,
    delegation::Delegation,
    digest::Digest,
    ids::{AgentName, NodeName, RunId, SchemaName, SlotName},
    payload::Payload,
    units::Timestamp,
};

/// What happened to a child, as its parent records it.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It may exist, with this envelope; its grant is reserved.
    Delegated(Box<Delegated>),
    /// Its actor died.
    Crashed(Crashed),
    /// Its actor may be started again.
    Restarted(Restarted),
    /// It will not be driven any more.
    GivenUp(GivenUp),
    /// It ended, and this is what it brought.
    Returned(Returned),
    /// What it brought is refused.
    Rejected(Rejected),
    /// Its grant is accounted for.
    Settled(Settled),
}

/// A child was delegated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delegated {
    /// The fan-out or agent node that asked for it.
    pub node: NodeName,
    /// Which slot it fills.
    pub slot: SlotName,
    /// As which number, over all visits.
    pub ordinal: u32,
    /// Which agent does the work.
    pub agent: AgentName,
    /// What it works on.
    pub item: Payload,
    /// What it may do; its `budget` is what is reserved.
    pub envelope: Delegation,
}

/// A child's actor died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crashed {
    /// Which child.
    pub child: RunId,
    /// Panic message or "killed".
    pub why: String,
    /// When it may be started again; absent when it will not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_at: Option<Timestamp>,
}

/// A child's actor may be started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restarted {
    /// Which child.
    pub child: RunId,
    /// The how-manieth restart, from 1.
    pub nth: u32,
}

/// A child will not be driven any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// Which child.
    pub child: RunId,
    /// The limit that was passed.
    pub why: String,
}

/// A child ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Returned {
    /// Which child.
    pub child: RunId,
    /// How it ended.
    pub reason: Reason,
    /// The class of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Payload>,
    /// Digest of the child's last commit.
    pub commit: Digest,
}

/// What a child brought does not meet its result schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Which child.
    pub child: RunId,
    /// The schema that was not met.
    pub schema: SchemaName,
    /// Where and how.
    pub why: String,
}

/// A child's grant is accounted for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// Which child.
    pub child: RunId,
    /// What it used.
    pub charged: Spent,
    /// What comes back.
    pub returned: Spent,
}
