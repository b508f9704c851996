//! Loops that go on without getting anywhere (`spec/run.md` 5).

use serde::{Deserialize, Serialize};

use crate::ids::NodeName;

/// What happened to the progress of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// There is none: the loop is stopped.
    Stalled(Stalled),
}

/// An agent did what it had done before, with the same outcome, too often in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalled {
    /// The agent node.
    pub node: NodeName,
    /// Its last call.
    pub call: u32,
    /// How many calls in a row brought nothing new.
    pub repeats: u32,
    /// How many the contract allows.
    pub limit: u32,
}
