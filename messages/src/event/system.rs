//! Facts that belong to no run: they are events of a tenant's system chain.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{HostId, RunId},
    units::Timestamp,
};

/// What happened to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A host process opened its data directory.
    HostStarted(HostStarted),
    /// It closed it in order.
    HostStopped(HostStopped),
    /// A fault was injected on purpose.
    FaultInjected(FaultInjected),
}

/// A host process opened its data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStarted {
    /// Which.
    pub host: HostId,
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
}

/// A host closed its data directory in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStopped {
    /// Which.
    pub host: HostId,
}

/// A fault was injected on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultInjected {
    /// The fault's address as it was given.
    pub address: String,
    /// The run it struck, when it struck one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// When it was noted, before it struck.
    pub noted_at: Timestamp,
}
