//! Model calls: asked, answered with a proposal, failed. A proposal is data; it decides nothing.

use serde::{Deserialize, Serialize};

use crate::{
    budget::Spent,
    delegation::Request,
    digest::Digest,
    ids::{AgentName, NodeName, ToolName},
    payload::Payload,
};

/// What happened to a model call.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It may be sent.
    Asked(Asked),
    /// It answered.
    Proposed(Proposed),
    /// It did not answer, or not usably.
    Failed(Failed),
    /// What it proposed is malformed or not allowed.
    Refused(Refused),
}

/// A model is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The agent node.
    pub node: NodeName,
    /// The how-manieth call of this node, from 1.
    pub call: u32,
    /// Which agent.
    pub agent: AgentName,
    /// Which model: `scripted/NAME` or a provider's.
    pub route: String,
    /// Digest of what the model is shown.
    pub context: Digest,
    /// Reserved until the answer is recorded.
    pub reserved: Spent,
}

/// A model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposed {
    /// The agent node.
    pub node: NodeName,
    /// Which call.
    pub call: u32,
    /// What it proposes.
    pub proposal: Proposal,
    /// What the call used.
    pub usage: Spent,
    /// From sending to the whole answer.
    pub latency_ms: u64,
}

/// A model's proposal, by its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proposal {
    /// It only says something.
    Say(String),
    /// It wants a tool called.
    Call {
        /// Which tool.
        tool: ToolName,
        /// With which arguments.
        arguments: Payload,
    },
    /// It wants work delegated: one child an item.
    Delegate {
        /// To which agent.
        agent: AgentName,
        /// One child each.
        items: Vec<crate::value::Value>,
        /// With which envelope.
        delegation: Box<Request>,
    },
    /// It is done, and this is the result.
    Answer(Payload),
}

/// A model call without a usable answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The agent node.
    pub node: NodeName,
    /// Which call.
    pub call: u32,
    /// Open set: `rate_limited`, `malformed`, `unavailable`, …
    pub class: String,
    /// One sentence for people.
    pub message: String,
    /// What the call used all the same.
    pub usage: Spent,
}

/// A proposal that goes nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The agent node.
    pub node: NodeName,
    /// Which call.
    pub call: u32,
    /// Where in the proposal, or the field of the envelope that would widen.
    pub path: String,
    /// Why, and what would be right.
    pub why: String,
}
