//! Durable timers of a run: set with an absolute due time, due once.

use serde::{Deserialize, Serialize};

use crate::{ids::NodeName, units::Timestamp};

/// What happened to a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It will fall due.
    Set(Set),
    /// It was seen to be due; a clock that steps back revives nothing.
    Due(Due),
}

/// A timer is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// The node that waits.
    pub node: NodeName,
    /// Which visit, from 1.
    pub visit: u32,
    /// When.
    pub due: Timestamp,
}

/// A timer was seen to be due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// The node that waits.
    pub node: NodeName,
    /// Which visit, from 1.
    pub visit: u32,
}
