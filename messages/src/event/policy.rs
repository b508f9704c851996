//! What the policy set said about one attempt of an effect.

use serde::{Deserialize, Serialize};

use crate::{
    digest::Digest,
    ids::{EffectKey, NodeName, ToolName},
};

/// What the policy set said.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It was asked, and decided.
    Decided(Box<Decided>),
}

/// The policy set was asked about one attempt of an effect. In the commit of the intent, or of the refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The node that wants the effect.
    pub node: NodeName,
    /// Step of an agent's loop; 0 for a call node.
    pub call: u32,
    /// Idempotency key.
    pub key: EffectKey,
    /// Which attempt.
    pub attempt: u32,
    /// Which tool.
    pub tool: ToolName,
    /// Digest of all that is bound, as in the intent.
    pub action: Digest,
    /// Allow, deny, or approve with who.
    pub decision: Decision,
    /// Version of the policy set: the digest of its files.
    pub policy: Digest,
    /// The policies that were decisive, sorted; none when nothing permits it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// Why, for people and agents.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Decided {
    /// The decision with its reason and the policies behind it, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let said = match &self.decision {
            Decision::Allow => "allowed by policy".to_owned(),
            Decision::Deny => "denied by policy".to_owned(),
            Decision::Approve { by, people: 1 } => format!("the policy wants {by} to approve"),
            Decision::Approve { by, people } => {
                format!("the policy wants {people} people of {by} to approve")
            }
        };
        let by = match self.policies.as_slice() {
            [] => String::new(),
            policies => format!(" ({})", policies.join(", ")),
        };
        match self.reason.as_str() {
            "" => format!("{said}{by}"),
            reason => format!("{said}{by}: {reason}"),
        }
    }
}

/// The answer of a policy set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may happen.
    Allow,
    /// It may not.
    Deny,
    /// It may happen once these people have approved it.
    Approve {
        /// Who may approve: `role:NAME`.
        by: String,
        /// How many different people.
        people: u32,
    },
}
