//! Facts that belong to no run: they are events of a tenant's system chain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    digest::Digest,
    ids::{EffectKey, HostId, RunId, TenantId},
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
    /// A callback that belongs to no run was refused.
    CallbackRefused(CallbackRefused),
    /// Another policy set is in force.
    PolicyChanged(PolicyChanged),
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

/// A callback that belongs to no run was refused: unsigned, about an operation that the tenant does not have, not usable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackRefused {
    /// The tenant whom it was for.
    pub tenant: TenantId,
    /// The key that it names, as far as it can be read; nobody vouches for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<EffectKey>,
    /// The id that it gives itself, as far as it can be read; nobody vouches for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The code of the answer, such as `unsigned`.
    pub code: String,
    /// Why, in one sentence.
    pub why: String,
    /// How many further ones were turned away before it without a record of their own, because too many came at one time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unrecorded: u64,
}

/// Another policy set is in force from here on, or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChanged {
    /// Version before; none when there was no set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Digest>,
    /// Version now; none when there is no set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Digest>,
    /// Its files with their digests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Digest>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
