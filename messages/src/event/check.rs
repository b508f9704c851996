//! Checks that prove success.

use serde::{Deserialize, Serialize};

use crate::{ids::NodeName, payload::Payload};

/// What a check showed.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It holds.
    Passed(Passed),
    /// It does not.
    Failed(Failed),
}

/// A check holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Passed {
    /// The end node.
    pub node: NodeName,
    /// Its place in the node's evidence list; the result's schema is `schema`.
    pub check: String,
    /// What was seen.
    pub seen: Payload,
}

/// A check does not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// The end node.
    pub node: NodeName,
    /// Its place in the node's evidence list; the result's schema is `schema`.
    pub check: String,
    /// What was expected.
    pub expected: String,
    /// What was seen.
    pub seen: Payload,
}
