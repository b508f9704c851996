//! Faults as a scenario writes them.

use std::num::NonZeroU32;

use coppice_messages::{Millis, ids::ToolName};
use serde::Deserialize;

/// One fault: where, at which event, when, and what happens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// A pattern over paths in the tree, such as `root/research[2]` or `*`.
    #[serde(rename = "where")]
    pub place: String,
    /// The kind of the event.
    pub event: super::EventKind,
    /// Only events of this tool.
    #[serde(default)]
    pub tool: Option<ToolName>,
    /// The how-manieth such event, from 1.
    #[serde(default = "first")]
    pub nth: NonZeroU32,
    /// Before or after it is recorded.
    #[serde(default)]
    pub when: FaultWhen,
    /// What happens.
    #[serde(rename = "do")]
    pub does: FaultDo,
}

fn first() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// When a fault strikes, seen from the event's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultWhen {
    /// What the event tells of has happened; nothing of it was published.
    Before,
    /// NATS has it, the log has not.
    Acked,
    /// The log has it, nobody was told.
    Synced,
    /// It is recorded; nothing followed from it.
    #[default]
    After,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultDo {
    /// SIGKILL to the host.
    KillHost,
    /// The run's actor is killed.
    KillActor,
    /// The run's actor panics.
    Panic,
    /// Everything of this run waits so long, then goes on.
    Delay(Millis),
}
