//! The nodes of a topology and the rules of joins, as they are written and as the kernel reads them.

use std::collections::BTreeMap;

use coppice_messages::{
    Millis,
    delegation::Request,
    event::run::Reason,
    ids::{AgentName, NodeName, SlotName, ToolName},
};
use serde::{Deserialize, Serialize};

use crate::expr::{Condition, Template};

/// One node: what it waits for and what it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Nodes that must be done before; all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<NodeName>,
    /// One tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Call>,
    /// One agent's loop in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentLoop>,
    /// One child run an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<FanOut>,
    /// The envelope of each child of the fan-out; `{item}` in the objective stands for the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation: Option<Request>,
    /// Of a fan-out: when it is over. Alone: gathers parallel branches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<Join>,
    /// A durable wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitFor>,
    /// Which of the nodes behind it are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
    /// Whether the nodes before it go round once more.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub again: Option<Loop>,
    /// The run's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// What a node does. Exactly one of the keys of [`Node`] says it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind<'a> {
    /// One tool call.
    Call(&'a Call),
    /// One agent's loop in this run.
    Agent(&'a AgentLoop),
    /// Children, their envelopes and their join.
    FanOut(&'a FanOut, &'a Request, &'a Join),
    /// Gathers parallel branches.
    Join(&'a Join),
    /// A durable wait.
    Wait(&'a WaitFor),
    /// Which of the nodes behind it are taken.
    Branch(&'a Branch),
    /// Whether the nodes before it go round once more.
    Loop(&'a Loop),
    /// The run's end.
    End(&'a End),
}

/// One tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Which tool.
    pub tool: ToolName,
    /// With which arguments.
    pub arguments: Template,
}

/// One agent's loop in this run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentLoop {
    /// Which agent.
    pub agent: AgentName,
    /// What it works on.
    pub input: Template,
}

/// One child run an item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FanOut {
    /// A list: one child an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Template>,
    /// A number: children with the items 0, 1, 2, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Which agent does the work.
    pub agent: AgentName,
    /// The slot's name, unique in the topology.
    pub slot: SlotName,
    /// Children at work at one time.
    #[serde(default = "default_concurrency")]
    pub concurrency: u32,
    /// What happens when a child's actor dies.
    #[serde(default)]
    pub restart: Restart,
}

fn default_concurrency() -> u32 {
    8
}

/// What happens when a child's actor dies (`spec/delegation.md` 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// Whether it is started again at all.
    #[serde(default)]
    pub kind: RestartKind,
    /// Restarts within the period before it is given up.
    #[serde(default = "default_at_most")]
    pub at_most: u32,
    /// The period.
    #[serde(default = "default_within")]
    pub within: Millis,
    /// Before the first restart; doubles with each further one.
    #[serde(default = "default_backoff")]
    pub backoff: Millis,
}

impl Restart {
    /// How long to wait after a crash when there were so many before it.
    #[must_use]
    pub fn wait_after(&self, crashes: u32) -> Millis {
        Millis(self.backoff.0.saturating_mul(1 << crashes.min(16)))
    }
}

fn default_at_most() -> u32 {
    3
}

fn default_within() -> Millis {
    Millis(60_000)
}

fn default_backoff() -> Millis {
    Millis(200)
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            kind: RestartKind::default(),
            at_most: default_at_most(),
            within: default_within(),
            backoff: default_backoff(),
        }
    }
}

/// Whether a child that crashed is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestartKind {
    /// It is.
    #[default]
    Transient,
    /// It is not.
    Temporary,
}

/// When a fan-out or parallel branches are over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Alone: the nodes that are gathered. Of a fan-out: absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<NodeName>,
    /// How many must come.
    #[serde(default)]
    pub wait: Wait,
    /// What a failed member means.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// What happens to the members that have not come when the join is decided.
    #[serde(default)]
    pub then: Then,
    /// In which order the results stand.
    #[serde(default)]
    pub order: Order,
    /// What different answers to one question mean; absent: they are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Conflict>,
    /// From the node's start; the children's deadline is no later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
}

/// How many members must come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Every one.
    #[default]
    All,
    /// One that succeeds.
    Any,
    /// So many that succeed.
    Quorum(u32),
}

/// What a failed member means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The join fails with the first one.
    #[default]
    FailFast,
    /// The others are waited for; the outcomes say who failed.
    Collect,
}

/// What happens to the others when the join is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// They are cancelled.
    #[default]
    Cancel,
    /// They go on; the run waits for them before it ends.
    LetFinish,
}

/// In which order the results stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// That of the items.
    #[default]
    Declared,
    /// That in which they came.
    Completion,
}

/// What different answers to one question mean. Members answer one question when they have one item, or come from a `width`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conflict {
    /// The join fails.
    Fail,
    /// The first answer in order counts.
    First,
    /// The answer of more than half counts; without one the join fails.
    Majority,
    /// A person must look: the run ends `needs_human`.
    Person,
}

impl Join {
    /// Whether the join is decided by so many that succeeded and failed of `total`, and if so, whether it is met. It never waits for
    /// what cannot come.
    #[must_use]
    pub fn verdict(&self, succeeded: u32, failed: u32, total: u32) -> Option<bool> {
        if self.on_failure == OnFailure::FailFast && failed > 0 {
            return Some(false);
        }
        let need = match self.wait {
            Wait::All => return (succeeded + failed == total).then_some(true),
            Wait::Any => 1,
            Wait::Quorum(number) => number,
        };
        let open = total.saturating_sub(succeeded + failed);
        match (succeeded >= need, succeeded + open < need) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }

    /// The rule in words, as `join.decided` records it.
    #[must_use]
    pub fn rule(&self) -> String {
        let wait = match self.wait {
            Wait::All => "all".to_owned(),
            Wait::Any => "any".to_owned(),
            Wait::Quorum(number) => format!("quorum({number})"),
        };
        let on_failure = match self.on_failure {
            OnFailure::FailFast => "fail_fast",
            OnFailure::Collect => "collect",
        };
        format!("{wait}, {on_failure}")
    }
}

/// What a durable wait is for. The run is not kept in memory for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// That this long has passed since the node's start, downtime included.
    Timer(Millis),
    /// A signal of this name; one that came before the node's turn counts.
    Signal(WaitForSignal),
    /// The callback about an operation that an earlier call node made.
    Callback(WaitForCallback),
}

/// A signal that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitForSignal {
    /// Its name.
    pub name: String,
    /// Longest wait; the node fails then. Absent: until the run's deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
}

/// A callback that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitForCallback {
    /// The call node whose operation it is about.
    pub of: NodeName,
    /// Longest wait; the node fails then. Absent: until the run's deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
}

impl WaitFor {
    /// How long at most.
    #[must_use]
    pub fn longest(&self) -> Option<Millis> {
        match self {
            Self::Timer(span) => Some(*span),
            Self::Signal(signal) => signal.timeout,
            Self::Callback(callback) => callback.timeout,
        }
    }
}

/// Which of the nodes behind it are taken: those of the first case that holds. The others are skipped, and what stands only behind
/// skipped nodes is skipped too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// In order.
    pub cases: Vec<Case>,
    /// When no case holds.
    #[serde(default)]
    pub otherwise: Vec<NodeName>,
}

/// One case of a branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Over typed state.
    pub when: Condition,
    /// Nodes that stand directly behind the branch.
    pub to: Vec<NodeName>,
}

/// Whether the nodes from `back_to` to this one go round once more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// Where the round begins: a node before this one.
    pub back_to: NodeName,
    /// No further round once this holds.
    pub until: Condition,
    /// Rounds in all; when the condition does not hold after the last, the node fails.
    pub at_most: u32,
}

/// The run's end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Which of the seven reasons.
    pub reason: Reason,
    /// The result.
    #[serde(default = "nothing")]
    pub answer: Template,
    /// Checks that must hold before `succeeded` is recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

fn nothing() -> Template {
    Template::Map(BTreeMap::new())
}

/// One check of the outside world: a read tool and what it must show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// A tool whose operation is `read`.
    pub check: ToolName,
    /// Its arguments.
    pub arguments: Template,
    /// What must hold of its answer, cited as `{from: check}`.
    pub expect: Condition,
}

/// A node with no body, or with more than one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNode {
    /// It does nothing.
    #[error(
        "the node does nothing: give it one of call, agent, fan_out, join, wait, branch, loop, end"
    )]
    Empty,
    /// It does several things.
    #[error("the node has {0}: give it one of them")]
    Several(String),
    /// A fan-out without the envelope of its children.
    #[error("a fan_out needs a delegation: the envelope of each child")]
    WithoutDelegation,
    /// A fan-out without a join.
    #[error("a fan_out needs a join: when it is over")]
    WithoutJoin,
    /// An envelope without children.
    #[error("delegation belongs to a fan_out")]
    DelegationWithoutFanOut,
}

impl Node {
    /// What the node does.
    ///
    /// # Errors
    /// [`InvalidNode`] when its keys do not say exactly one thing.
    pub fn kind(&self) -> Result<Kind<'_>, InvalidNode> {
        let bodies = [
            ("call", self.call.as_ref().map(Kind::Call)),
            ("agent", self.agent.as_ref().map(Kind::Agent)),
            (
                "join",
                self.join
                    .as_ref()
                    .filter(|_| self.fan_out.is_none())
                    .map(Kind::Join),
            ),
            ("wait", self.wait.as_ref().map(Kind::Wait)),
            ("branch", self.branch.as_ref().map(Kind::Branch)),
            ("loop", self.again.as_ref().map(Kind::Loop)),
            ("end", self.end.as_ref().map(Kind::End)),
        ];
        let present: Vec<_> = bodies
            .into_iter()
            .filter_map(|(name, kind)| Some((name, kind?)))
            .collect();
        let names = || {
            self.fan_out
                .iter()
                .map(|_| "fan_out")
                .chain(present.iter().map(|(name, _)| *name))
        };
        if names().count() > 1 {
            return Err(InvalidNode::Several(
                names().collect::<Vec<_>>().join(" and "),
            ));
        }
        match (&self.fan_out, &self.delegation, &self.join) {
            (Some(fan_out), Some(delegation), Some(join)) => {
                Ok(Kind::FanOut(fan_out, delegation, join))
            }
            (Some(_), None, _) => Err(InvalidNode::WithoutDelegation),
            (Some(_), Some(_), None) => Err(InvalidNode::WithoutJoin),
            (None, Some(_), _) => Err(InvalidNode::DelegationWithoutFanOut),
            (None, None, _) => present
                .first()
                .map(|(_, kind)| *kind)
                .ok_or(InvalidNode::Empty),
        }
    }
}
