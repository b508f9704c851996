//! What a policy set is asked before an effect, and what it may answer. The kernel asks at the intent, the tool broker again at the moment of
//! use; both through this.

use std::collections::BTreeSet;

use coppice_messages::{
    Access, Digest, Payload, Spent, Value,
    event::{effect::Intended, policy::Decision},
    ids::{AgentName, EffectKey, RunId, TenantId, TreeId},
};
use coppice_topology::plan::PinnedTool;

/// Whoever says what may be done. Pure: the same question to the same version has the same answer.
pub trait Governor: Send + Sync {
    /// The answer to one question.
    fn judge(&self, question: &Question<'_>) -> Judged;

    /// The version of what it judges by.
    fn version(&self) -> Digest;
}

/// What is asked: may this run do this?
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Who wants it.
    pub subject: &'a Subject,
    /// With which tool.
    pub tool: &'a PinnedTool,
    /// With which arguments; none when they are larger than an event holds.
    pub arguments: Option<&'a Value>,
    /// Idempotency key.
    pub key: EffectKey,
}

impl<'a> Question<'a> {
    /// The question that an intent poses. At the intent and at the moment of use it is made here.
    #[must_use]
    pub fn about(subject: &'a Subject, tool: &'a PinnedTool, intended: &'a Intended) -> Self {
        Self {
            subject,
            tool,
            arguments: match &intended.arguments {
                Payload::Inline(arguments) => Some(arguments),
                Payload::Blob { .. } => None,
            },
            key: intended.key,
        }
    }

    /// The kind and id of what is touched: the resource that the contract names, else the system that the tool belongs to. None when the
    /// arguments do not say which.
    #[must_use]
    pub fn resource(&self) -> Option<(&'a str, String)> {
        let contract = &self.tool.contract;
        match &contract.resource {
            Some(resource) => {
                let id = self.arguments.and_then(|given| resource.id_in(given));
                Some((resource.kind.as_str(), id?))
            }
            None => Some(("system", contract.namespace.clone())),
        }
    }
}

/// Who wants an effect, and what the run that wants it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// For whom the run acts: `user:NAME` or `workload:NAME`.
    pub principal: String,
    /// Whose run.
    pub tenant: TenantId,
    /// Its tree.
    pub tree: TreeId,
    /// The run.
    pub run: RunId,
    /// How many delegations lie between the root and it.
    pub depth: u32,
    /// The agent that proposed it, or whose work the run does.
    pub agent: Option<AgentName>,
    /// None, reads or writes.
    pub access: Access,
    /// What is left of the run's budget.
    pub left: Spent,
    /// Where the arguments come from, as far as nobody vouches for it.
    pub taint: BTreeSet<Taint>,
}

/// A source of arguments that nobody vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Taint {
    /// A model worded them.
    Model,
    /// They hold what a tool answered.
    Tool,
    /// They hold what was sent to the run: a callback, a signal.
    Outside,
    /// They hold what the delegating run handed down.
    Parent,
}

impl Taint {
    /// Its word in policies.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Outside => "outside",
            Self::Parent => "parent",
        }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Allow, deny, or approve with who.
    pub decision: Decision,
    /// The version that was asked.
    pub policy: Digest,
    /// The policies that were decisive, sorted; none when nothing permits it.
    pub policies: Vec<String>,
    /// Why, for people and agents.
    pub reason: String,
}
