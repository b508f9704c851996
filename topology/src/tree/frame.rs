//! What the tree shows of each run, as data: the API's answer, and what the text picture is drawn from.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::{
    Access, Account, Spent, Timestamp,
    event::run::Reason,
    ids::{AgentName, EffectKey, NodeName, RunId, SlotName, TenantId, ToolName, TreeId},
};
use serde::{Deserialize, Serialize};

/// The whole tree at one position of the log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Frame {
    /// Whose tree; absent while nothing of it is recorded.
    pub tenant: Option<TenantId>,
    /// Its id.
    pub tree: Option<TreeId>,
    /// Position of the last commit that is in the picture.
    pub position: u64,
    /// Time of the last commit that is in the picture.
    pub at: Option<Timestamp>,
    /// Events of kinds that this build does not know: not in the picture.
    pub skipped: u64,
    /// Every run, a parent before its children, children in the order of their slots.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub run: RunId,
    /// Who delegated it; absent for the root.
    pub parent: Option<RunId>,
    /// Levels above it.
    pub depth: u32,
    /// Its place: `root/research[2]`.
    pub path: String,
    /// The slot it fills in its parent.
    pub slot: Option<SlotName>,
    /// As which number.
    pub ordinal: Option<u32>,
    /// Name of its topology, for a root.
    pub topology: Option<String>,
    /// Which agent does the work, for a child.
    pub agent: Option<AgentName>,
    /// What is to be achieved.
    pub objective: String,
    /// What it may do.
    pub authority: Authority,
    /// What it was granted, has used, has reserved.
    pub budget: Account,
    /// What may still be reserved.
    pub left: Spent,
    /// Used by this run itself.
    pub own: Spent,
    /// Used by this run and everything below it so far.
    pub subtree: Spent,
    /// Until when.
    pub deadline: Option<Timestamp>,
    /// Where it stands.
    pub state: State,
    /// What it is doing now, in words; empty when it has ended.
    pub doing: String,
    /// Why it is not done and who can unblock it, while it waits.
    pub waiting: Option<Waiting>,
    /// Signals and callbacks that it waits for at the same time in other branches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Waiting>,
    /// What it asked for and was refused, newest last.
    pub refused: Vec<Refused>,
    /// The last thing that happened.
    pub last: Option<Last>,
    /// The fencing token.
    pub epoch: u64,
    /// The how-manieth incarnation drives it, from 1.
    pub attempt: u64,
    /// Effects of which nobody knows whether they happened.
    pub in_doubt: Vec<Doubt>,
    /// How it ended.
    pub ended: Option<Ended>,
    /// Its plan's nodes that have begun.
    pub nodes: BTreeMap<NodeName, NodeState>,
}

/// What a run may do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Authority {
    /// Tools that it may call.
    pub tools: BTreeSet<ToolName>,
    /// Tools that it may only pass on.
    pub may_delegate: BTreeSet<ToolName>,
    /// None, reads or writes.
    pub access: Access,
    /// Tools that its parent has and it has not.
    pub withheld: BTreeSet<ToolName>,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its parent delegated it; of its own nothing is recorded.
    Delegated,
    /// It exists and has done nothing.
    Opened,
    /// It is at work.
    Running,
    /// It can go on only when something else happens.
    Waiting,
    /// It is over.
    Ended,
}

/// Why a run is not done, and who can unblock it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// For what.
    pub what: WaitingFor,
    /// Runs, a tool, a time or people, in words.
    pub who: String,
    /// Since when, as far as its chain tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Until when at the latest, if it goes on then without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// For what a run waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    /// Children that are not settled.
    Child,
    /// A time.
    Timer,
    /// A signal, which `coppice signal` sends.
    Signal,
    /// A callback about an effect.
    Callback,
    /// A look-up of an unclear outcome.
    Reconciliation,
    /// Somebody who finds out.
    Person,
    /// Its supervisor, which starts it again or closes it.
    Supervisor,
}

/// A proposal that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The field of the envelope, or the place in the proposal.
    pub path: String,
    /// Why, and what would be right.
    pub why: String,
}

/// The last thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// Position of its commit in the log.
    pub position: u64,
    /// Number of its event in the run.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Which kind.
    pub kind: String,
    /// What it says.
    pub fact: String,
}

/// An effect of which nobody knows whether it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Which.
    pub key: EffectKey,
    /// Of which tool.
    pub tool: ToolName,
    /// What was seen.
    pub why: String,
    /// Whether only a person can find out.
    pub for_a_person: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Which of the seven.
    pub reason: Reason,
    /// Refinement.
    pub class: Option<String>,
    /// One sentence for people.
    pub message: String,
    /// Why its parent did not take its answer.
    pub rejected: Option<String>,
}

/// Where a node of a run's plan stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// At work.
    Started,
    /// It did what it is for.
    Done,
    /// It did not.
    Failed,
    /// A branch did not take it.
    Skipped,
}
