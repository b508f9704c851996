//! The agent execution contract: the ten fields that are fixed before anything runs (`spec/run.md` 1).
//!
//! A contract that misses a field does not parse; the error names the field. Its digest is in `run.opened`; any change is a
//! new release.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    ids::ToolName,
    scope::{Access, Operation, Resources},
    units::{Bytes, MicroUsd, Millis},
};

/// All that an agent may be asked, may do, and must prove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The name by which topologies cite it.
    pub contract: String,
    /// Raised by hand with each change.
    pub version: u32,
    /// What is accepted and what is not.
    pub task_boundary: TaskBoundary,
    /// What proves success.
    pub success_evidence: SuccessEvidence,
    /// How many operations of each class; a class that is absent is not allowed.
    pub allowed_operations: BTreeMap<Operation, u64>,
    /// On whose behalf, with which tools and scope.
    pub authority: Authority,
    /// What may be read and what may leave.
    pub data_boundary: DataBoundary,
    /// Limits.
    pub budget: ContractBudget,
    /// Who must be asked before which operation.
    pub human_control: BTreeMap<Operation, HumanControl>,
    /// When to stop without success.
    pub termination: Termination,
    /// How to go on after a failure.
    pub recovery: Recovery,
    /// What to go back to.
    pub rollback: Rollback,
}

/// What is accepted and what is not. A goal sentence alone is not a boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskBoundary {
    /// Requests that are accepted.
    pub accepts: Vec<String>,
    /// Uses that are excluded.
    pub excludes: Vec<String>,
    /// Systems that may be touched.
    pub systems: Vec<String>,
    /// Environments in which it may run.
    pub environments: Vec<String>,
    /// What one run handles.
    pub unit_of_work: String,
    /// When a person must take over.
    pub person_takes_over: String,
}

/// What proves success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuccessEvidence {
    /// What the final answer must show.
    pub answer: String,
    /// What the outside world must show at the end.
    pub world: Vec<String>,
    /// Artifacts that must exist.
    pub artifacts: Vec<String>,
    /// How doubt is handled.
    pub uncertainty: String,
}

/// On whose behalf, with which tools and scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authority {
    /// Tools that the root may call.
    pub tools: BTreeSet<ToolName>,
    /// Tools that it may only pass on.
    #[serde(default)]
    pub may_delegate: BTreeSet<ToolName>,
    /// None, reads or writes.
    pub access: Access,
    /// Which resources.
    #[serde(default)]
    pub resources: Resources,
    /// From the start of the root.
    pub valid_for: Millis,
}

/// What may be read and what may leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataBoundary {
    /// Inputs that model and tools may read.
    pub may_read: Vec<String>,
    /// What may leave, and to where.
    pub may_leave: Vec<String>,
    /// How long data are kept.
    pub keep_for: Millis,
    /// Fields that are masked.
    pub redact: Vec<String>,
}

/// Limits of the root run and, through it, of the whole tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContractBudget {
    /// Model calls and tool calls.
    pub steps: u64,
    /// Tokens.
    pub tokens: u64,
    /// Money.
    pub cost: MicroUsd,
    /// From the start of the root.
    pub wall_clock: Millis,
    /// Live children at one time.
    pub concurrency: u64,
    /// Bytes of artifacts held.
    pub storage: Bytes,
    /// Bytes to and from tools.
    pub network: Bytes,
    /// Levels of delegation below the root.
    pub depth: u32,
    /// Children of one run.
    pub children: u32,
    /// Children that one run may make within a minute.
    pub spawn_per_minute: u32,
    /// Time that the root keeps for its own synthesis.
    pub join_reserve: Millis,
}

/// Who must be asked before an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HumanControl {
    /// Nobody.
    None,
    /// Shown before, can be stopped.
    Preview,
    /// One person approves the exact action.
    Approve,
    /// Two people approve the exact action.
    TwoPerson,
    /// Never, whoever approves.
    Forbidden,
}

/// When to stop without success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Termination {
    /// Failures of one agent loop in a row.
    pub consecutive_failures: u32,
    /// Equal actions with equal arguments in a row.
    pub no_progress: u32,
}

/// How to go on after a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// Tries of one operation whose outcome says that it may be tried again.
    pub attempts: u32,
    /// Before the second try; doubles with each further one.
    pub backoff: Millis,
}

/// What to go back to: names of the last known good parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// Version of the controller.
    pub controller: String,
    /// Tool list.
    pub tools: String,
    /// Policy.
    pub policy: String,
    /// Sandbox image.
    pub sandbox_image: String,
    /// Model route.
    pub route: String,
}
