//! What the verbs answer.

use std::collections::BTreeMap;

use coppice_messages::{
    Account, Cause, Digest, Spent, Timestamp, Value,
    event::run::Reason,
    ids::{EffectKey, HostId, NodeName, RunId, TenantId, TreeId},
};
use coppice_topology::tree::Frame;
use serde::{Deserialize, Serialize};

/// A tree that was started, now or before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Whose.
    pub tenant: TenantId,
    /// The tree; its id is its root run's.
    pub tree: TreeId,
    /// The root run.
    pub run: RunId,
    /// Whether a tree of this key was there already; the request's release and input then changed nothing.
    pub met: bool,
}

/// One run in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// Whose.
    pub tenant: TenantId,
    /// Its tree.
    pub tree: TreeId,
    /// The run.
    pub run: RunId,
    /// The run that delegated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// The readable place in the tree.
    pub path: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The refinement of the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Free labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A page of runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListReply {
    /// By id.
    pub runs: Vec<RunRow>,
    /// What to ask the next page after; absent: this was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<RunId>,
}

/// A page of an ownership tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TreePage {
    /// The picture, with the runs of this page.
    #[serde(flatten)]
    pub frame: Frame,
    /// From which run on to ask for the next page, at the frame's position; absent: this was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// Which of the seven.
    pub reason: Reason,
    /// The refinement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Numbers of the `check.passed` events that prove success.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<u64>,
    /// What it and its children used.
    pub usage: Spent,
    /// Effects whose outcome is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_doubt: Vec<EffectKey>,
}

/// One run, folded from its chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    /// Its row.
    #[serde(flatten)]
    pub row: RunRow,
    /// The release that it is pinned to.
    pub release: Digest,
    /// The fencing token.
    pub epoch: u64,
    /// How many events its chain has.
    pub events: u64,
    /// SHA-256 of its last commit.
    pub head: Digest,
    /// Position of its last commit.
    pub pos: u64,
    /// SHA-256 over its state, to compare within one build.
    pub state: Digest,
    /// What is granted, used and reserved.
    pub account: Account,
    /// How far each node is: waiting, started, done, failed.
    pub nodes: BTreeMap<NodeName, String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// One recorded event, as on the feed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventView {
    /// Position of its commit, the same for all its events.
    pub pos: u64,
    /// Whose run.
    pub tenant: TenantId,
    /// Its tree.
    pub tree: TreeId,
    /// The run.
    pub run: RunId,
    /// Number of the event in its run.
    pub seq: u64,
    /// Epoch of its commit.
    pub epoch: u64,
    /// Time of its commit.
    pub at: Timestamp,
    /// Its kind.
    pub kind: String,
    /// Format version of its body.
    pub v: u16,
    /// What led to it.
    #[serde(default)]
    pub cause: Option<Cause>,
    /// What it says.
    pub body: serde_json::Value,
    /// SHA-256 of its commit's bytes.
    pub commit: Digest,
}

/// A page of events, at most 512 KiB.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TailPage {
    /// In the order of the log.
    pub events: Vec<EventView>,
    /// The `from` of the next page.
    pub next: u64,
    /// Whether the log had nothing beyond this page.
    pub end: bool,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Which rule.
    pub law: Law,
    /// Whose run.
    pub tenant: TenantId,
    /// Which run, when it concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The first position of the log at which it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pos: Option<u64>,
    /// What was expected and what is there.
    pub what: String,
}

/// The rules that verify and audit hold a log against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// Each commit follows on the one before it: number, hash, epoch.
    Chain,
    /// The chain can be folded.
    Fold,
    /// Heads and rows say what the chains say.
    Index,
    /// The host's state is the fold of the log.
    Live,
    /// The stream holds what the log holds.
    Stream,
    /// Granted is used, reserved and left, at every position.
    Conservation,
    /// Nobody has more than who delegated it.
    Envelope,
    /// Success cites its checks.
    Evidence,
    /// In an ended tree every run is ended and settled.
    Ended,
    /// Every effect has an outcome, and a receipt has an intent.
    Effects,
    /// A cited document or payload is there.
    Blob,
}

/// One comparison of verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// It holds for this many.
    Equal(u64),
    /// It does not; see the findings.
    Different,
    /// It was not compared: nothing to compare with is at hand.
    Skipped,
}

/// Whether the log is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Position up to which the log was read.
    pub pos: u64,
    /// Chains.
    pub chains: u64,
    /// Commits.
    pub commits: u64,
    /// Events.
    pub events: u64,
    /// SHA-256 over the state of every chain, in the order of their ids.
    pub state: Digest,
    /// The chains against themselves.
    pub log: Compared,
    /// The host's state against the fold of the log: runs that are awake.
    pub live: Compared,
    /// The stream against the log: commits.
    pub stream: Compared,
    /// Everything that is not as it should be; empty when the log is whole.
    pub findings: Vec<Finding>,
}

/// Whether a tree kept the laws.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditReport {
    /// Which tree.
    pub tree: TreeId,
    /// Runs read.
    pub runs: u64,
    /// Events read.
    pub events: u64,
    /// Everything that is not as it should be; empty when all laws were kept.
    pub findings: Vec<Finding>,
}

/// How the host is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Which host.
    pub host: HostId,
    /// Version of the program.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Since when.
    pub started_at: Timestamp,
    /// The realm.
    pub realm: String,
    /// Why it is degraded; empty when it is not.
    pub degraded: Vec<String>,
    /// The policy set in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<PoliciesReport>,
    /// Whether the bus is connected.
    pub connected: bool,
    /// The log's last position.
    pub pos: u64,
    /// Last message of the stream that is in the log.
    pub stream: u64,
    /// Commits and blobs on their way.
    pub waiting: u64,
    /// Runs with an actor.
    pub awake: u64,
    /// Runs that only wait, without one.
    #[serde(default)]
    pub asleep: u64,
    /// Events dropped from the feed.
    pub dropped: u64,
    /// Commits ever refused.
    pub quarantined: u64,
    /// Fsynced batches since the start.
    pub batches: u64,
}

/// The policy set in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoliciesReport {
    /// Where its files are.
    pub directory: String,
    /// Its version.
    pub version: Digest,
}

/// What became of something that a run was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Which run.
    pub run: RunId,
    /// Whether it is recorded, now or since it was told first.
    pub recorded: bool,
    /// How the run had ended before it could take it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Reason>,
    /// Of a signal that nothing in the run waits for: that, and for what it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What became of a callback. The same callback again has the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    /// The run that made the operation.
    pub run: RunId,
    /// Whether it counts.
    pub outcome: CallOutcome,
    /// Of one that changes nothing: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Whether a callback counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// It is the first of its operation.
    Received,
    /// It changes nothing, and is recorded.
    Absorbed,
}
