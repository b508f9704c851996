//! Model scripts: a model whose turns are written down, so that one that loops, floods, lies or obeys injected text can be shown.

use coppice_messages::{
    Millis, Value,
    delegation::Request,
    ids::{AgentName, ToolName},
};
use serde::{Deserialize, Serialize};

use crate::expr::{Condition, Template};

/// A scripted model. The first turn whose `when` holds and which has repeats left is taken.
///
/// Sources for references: `input` (what the agent works on, also as `item`), `arguments` (`{ call: N }`, the how-manieth call this is),
/// `body` (the last result that it was shown: of a tool, of children, or a refusal), `check` (`{ results: [...] }`, what each tool call so far
/// gave, in order).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Its name, as in `scripted/NAME`.
    pub model: String,
    /// Varies what is varied; the same seed gives the same turns.
    #[serde(default)]
    pub seed: u64,
    /// In order.
    pub turns: Vec<Turn>,
}

/// One turn of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// How often this turn may be taken.
    #[serde(default = "once")]
    pub repeat: u32,
    /// How long the model takes.
    #[serde(default)]
    pub after: Millis,
    /// Tokens that the turn uses.
    #[serde(default)]
    pub tokens: u64,
    /// Says something and does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub say: Option<String>,
    /// Wants a tool called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propose: Option<ProposeCall>,
    /// Wants work delegated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegate: Option<ProposeDelegation>,
    /// Is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Template>,
    /// Fails with this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<String>,
}

fn once() -> u32 {
    1
}

/// A proposed tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposeCall {
    /// Which tool.
    pub tool: ToolName,
    /// With which arguments.
    pub arguments: Template,
}

/// A proposed delegation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposeDelegation {
    /// To which agent.
    pub agent: AgentName,
    /// One child each.
    pub items: Vec<Value>,
    /// With which envelope.
    pub delegation: Request,
}
