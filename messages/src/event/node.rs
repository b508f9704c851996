//! The nodes of a run's plan.

use serde::{Deserialize, Serialize};

use crate::ids::{EffectKey, NodeName};

/// What happened to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Its turn has come.
    Started(Started),
    /// It is done or failed.
    Ended(Ended),
}

/// A node's turn has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Which node.
    pub node: NodeName,
    /// Which visit, from 1.
    pub visit: u32,
}

/// A node is done or failed. Its value is that of the effect, answer or join that ended it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Which node.
    pub node: NodeName,
    /// Which visit, from 1.
    pub visit: u32,
    /// How.
    pub outcome: Outcome,
    /// Of a call: the effect whose result is the node's value. Two calls with one business key have one effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectKey>,
}

/// How a node ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did what it is for.
    Done,
    /// A branch did not take it.
    Skipped,
    /// A loop goes round once more: its nodes wait again.
    Repeated,
    /// It did not; the class is that of the run's end, should it end for this.
    Failed {
        /// Open set.
        class: String,
        /// One sentence for people.
        message: String,
    },
}
