//! The life of a run: opened, claimed, ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    budget::Spent,
    delegation::Delegation,
    digest::Digest,
    ids::{AgentName, EffectKey, HostId, RunId, SlotName, ToolName},
    payload::Payload,
    units::Millis,
};

/// What happened to the run as a whole.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It exists.
    Opened(Box<Opened>),
    /// A new incarnation drives it.
    Claimed(Claimed),
    /// Somebody wants it stopped.
    CancelRequested(CancelRequested),
    /// What became of everything below it: recorded where the cancel began, just before the end.
    CancelSettled(CancelSettled),
    /// It is over.
    Ended(Ended),
    /// Something came after the end; inert.
    Late(Late),
}

/// First event of every run's chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Digest of the contract document.
    pub contract: Digest,
    /// Digest of the topology document.
    pub topology: Digest,
    /// Digest of the release manifest, which lists every document by digest.
    pub release: Digest,
    /// Digests of the tool contracts that the run may call.
    pub tools: BTreeMap<ToolName, Digest>,
    /// What the run does.
    pub program: Program,
    /// The readable place in the tree: `root/research[2]`.
    pub path: String,
    /// What it may do.
    pub envelope: Delegation,
    /// What it works on: the tree's input for a root, the item for a child.
    pub input: Payload,
    /// Root run id of the first attempt: stable over linked retries, part of every key.
    pub lineage: RunId,
    /// Free labels, for looking up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// What a run does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// The nodes of the topology.
    Topology {
        /// Its name, for people.
        name: String,
    },
    /// One agent's loop, as a child.
    Agent {
        /// Which agent of the topology.
        agent: AgentName,
        /// The slot it fills in its parent.
        slot: SlotName,
        /// As which number, over all visits.
        ordinal: u32,
    },
}

/// First event of a commit that raises the epoch by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The host that drives the run from here on.
    pub owner: HostId,
    /// Why a new incarnation was needed.
    pub why: ClaimReason,
}

/// Why a run was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimReason {
    /// The host was started.
    Start,
    /// The run's actor died and was started again.
    Restart,
    /// Another host was lost.
    Failover,
}

/// Somebody wants the run stopped. Repeating it changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequested {
    /// Who asked: a principal, or the parent.
    pub by: String,
    /// Why.
    pub why: String,
    /// The ancestor from which it came down; absent where it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<RunId>,
}

/// The cancel receipt (`spec/delegation.md` 6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CancelSettled {
    /// Descendants that recorded the cancel themselves.
    pub acknowledged: u32,
    /// Descendants that their supervisor closed.
    pub killed: u32,
    /// Descendants whose chain could not be extended.
    pub unreachable: u32,
    /// Descendants that had ended before the cancel reached them.
    pub ended_before: u32,
    /// Effects of the subtree that landed after the request.
    pub effects_landed: u32,
    /// Effects of the subtree that were not sent.
    pub effects_not_sent: u32,
    /// Effects of the subtree whose outcome nobody knows.
    pub effects_in_doubt: u32,
    /// From the request to the last event of a descendant.
    pub quiet_after: Millis,
    /// Steps spent in the subtree after the request.
    pub steps_after: u64,
    /// Tokens spent in the subtree after the request.
    pub tokens_after: u64,
    /// Every descendant with what became of it: a list of `{run, path, fate}`.
    pub descendants: Payload,
}

/// Something came after the end. It moves no budget and starts nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Late {
    /// The effect in doubt that it settles.
    pub key: EffectKey,
    /// Whether the effect happened.
    pub happened: bool,
    /// The proof or result, when it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Payload>,
}

/// The terminal event; a chain has at most one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Which of the seven.
    pub reason: Reason,
    /// Open set of refinements: `crashed`, `result_invalid`, `deadline`, a dimension, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The result, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Payload>,
    /// Sequence numbers of the `check.passed` events that prove success.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<u64>,
    /// What it and its children used.
    pub usage: Spent,
    /// Effects whose outcome is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_doubt: Vec<EffectKey>,
}

/// Terminal reasons: a closed set, part of the API (`spec/run.md` 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Done, with its evidence.
    Succeeded,
    /// Repeated failure, no progress, invalid result, restarts exceeded.
    Failed,
    /// Contract or policy refuse the task itself.
    Refused,
    /// Somebody asked for it.
    Cancelled,
    /// Deadline or wall clock.
    TimedOut,
    /// Any other budget.
    BudgetExhausted,
    /// A doubt that only a person can settle.
    NeedsHuman,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::BudgetExhausted => "budget_exhausted",
            Self::NeedsHuman => "needs_human",
        })
    }
}
