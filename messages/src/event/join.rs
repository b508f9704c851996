//! Joins: opened with all members, decided once.

use serde::{Deserialize, Serialize};

use super::run::Reason;
use crate::ids::{NodeName, SlotName};

/// What happened to a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Its members are known.
    Opened(Opened),
    /// It fired.
    Decided(Decided),
}

/// A join's members are known; their ids follow from slot and ordinal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The fan-out node.
    pub node: NodeName,
    /// The slot that the members fill.
    pub slot: SlotName,
    /// Ordinal of the first member.
    pub first: u32,
    /// How many.
    pub members: u32,
}

/// A join fired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The fan-out node.
    pub node: NodeName,
    /// One outcome a member, in declared order.
    pub outcomes: Vec<SlotOutcome>,
    /// Which rule decided, in words.
    pub rule: String,
    /// Whether the rule is met.
    pub met: bool,
}

/// How a slot ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotOutcome {
    /// Its child ended for this reason.
    Ended(Reason),
    /// The child's answer was refused by the parent.
    ResultInvalid,
    /// The child's chain can neither be read nor extended.
    Unreachable,
    /// No child was made for it.
    Skipped,
    /// Still going when the join was decided.
    Open,
}

/// The word that people and join values read: the child's reason, or what became of the slot without one.
impl std::fmt::Display for SlotOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended(reason) => reason.fmt(f),
            Self::ResultInvalid => f.write_str("result_invalid"),
            Self::Unreachable => f.write_str("unreachable"),
            Self::Skipped => f.write_str("skipped"),
            Self::Open => f.write_str("open"),
        }
    }
}
