//! Identifiers, each its own type, so that a tree cannot be passed where a tenant is meant.
//!
//! A given id matches `[A-Za-z0-9_-]{1,64}` and does not begin with `_`; anything else is refused before it reaches a NATS
//! subject (an id with `>`, `*`, `.` or a space would change the meaning of the subject). The ids that begin with `_` are
//! Coppice's own: [`TenantId::host`], [`RunId::system`].

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::{Digest, InvalidDigest, LengthPrefixed};

/// Greatest length of a given id, in bytes.
pub const ID_BYTES_MAX: usize = 64;
/// Greatest length of a slot's name, in bytes: a child's id is slot, ordinal and 20 hex digits, and must itself be an id.
pub const SLOT_BYTES_MAX: usize = 32;

/// An id that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {given:?} is not usable: {reason}")]
pub struct InvalidId {
    /// Which kind of id was expected.
    pub what: &'static str,
    /// What was given.
    pub given: String,
    /// What is wrong with it and what would be right.
    pub reason: &'static str,
}

fn check_plain(what: &'static str, given: &str, longest: usize) -> Result<(), InvalidId> {
    let refuse = |reason| {
        Err(InvalidId {
            what,
            given: given.chars().take(80).collect(),
            reason,
        })
    };
    if given.is_empty() {
        return refuse("it is empty");
    }
    if given.len() > longest {
        return refuse(if longest == SLOT_BYTES_MAX {
            "it has more than 32 characters"
        } else {
            "it has more than 64 characters"
        });
    }
    if given.starts_with('_') {
        return refuse("ids that begin with _ are reserved");
    }
    if !given
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    {
        return refuse("only the characters A-Z a-z 0-9 _ - are allowed");
    }
    Ok(())
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $longest:expr, reserved: [$($reserved:literal),*]) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id's text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(given: &str) -> Result<Self, InvalidId> {
                check_plain($what, given, $longest)?;
                Ok(Self(given.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                let reserved: &[&str] = &[$($reserved),*];
                if reserved.contains(&&*text) {
                    return Ok(Self(text.as_ref().into()));
                }
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id_type!(
    /// Who owns runs, data and keys. `default` unless said otherwise.
    TenantId, "tenant", ID_BYTES_MAX, reserved: ["_host"]
);
id_type!(
    /// One run: one actor, one hash chain.
    RunId, "run id", ID_BYTES_MAX, reserved: ["_sys"]
);
id_type!(
    /// One supervised tree; its id is its root run's.
    TreeId, "tree id", ID_BYTES_MAX, reserved: ["_sys"]
);
id_type!(
    /// A node of a topology.
    NodeName, "node name", ID_BYTES_MAX, reserved: []
);
id_type!(
    /// The slot that the children of one fan-out fill.
    SlotName, "slot name", SLOT_BYTES_MAX, reserved: []
);
id_type!(
    /// A tool.
    ToolName, "tool name", ID_BYTES_MAX, reserved: []
);
id_type!(
    /// An agent declared in a topology.
    AgentName, "agent name", ID_BYTES_MAX, reserved: []
);
id_type!(
    /// A JSON Schema known by name.
    SchemaName, "schema name", ID_BYTES_MAX, reserved: []
);
id_type!(
    /// One host process; a new one at each start.
    HostId, "host id", ID_BYTES_MAX, reserved: []
);
id_type!(
    /// The key by which a client makes the start of a tree idempotent.
    ClientKey, "client key", ID_BYTES_MAX, reserved: []
);

impl TenantId {
    /// The tenant of everything that names none.
    #[must_use]
    pub fn default_tenant() -> Self {
        Self("default".into())
    }

    /// The tenant of facts about the host itself.
    #[must_use]
    pub fn host() -> Self {
        Self("_host".into())
    }
}

impl RunId {
    /// A tenant's system chain (`spec/events.md`).
    #[must_use]
    pub fn system() -> Self {
        Self("_sys".into())
    }

    /// Whether this is a system chain and no run.
    #[must_use]
    pub fn is_system(&self) -> bool {
        &*self.0 == "_sys"
    }

    /// The id of a root run: derived from the client's key, so that starting again meets the same run.
    #[must_use]
    pub fn root(tenant: &TenantId, key: &ClientKey) -> Self {
        let digest = LengthPrefixed::new()
            .part(tenant.as_str().as_bytes())
            .part(key.as_str().as_bytes())
            .finish();
        let short: String = key.as_str().chars().take(24).collect();
        Self(format!("{short}-{}", digest.hex_prefix(20)).into())
    }

    /// The id of the child that fills `slot` as number `ordinal`: spawning again after a crash meets the same run.
    #[must_use]
    pub fn child(parent: &RunId, slot: &SlotName, ordinal: u32) -> Self {
        let digest = LengthPrefixed::new()
            .part(parent.as_str().as_bytes())
            .part(slot.as_str().as_bytes())
            .part(&ordinal.to_be_bytes())
            .finish();
        Self(format!("{slot}-{ordinal}-{}", digest.hex_prefix(20)).into())
    }
}

impl TreeId {
    /// The run at the root of this tree.
    #[must_use]
    pub fn root(&self) -> RunId {
        RunId(self.0.clone())
    }

    /// The tree whose root is `run`.
    #[must_use]
    pub fn of_root(run: &RunId) -> Self {
        Self(run.0.clone())
    }
}

/// The idempotency key of one outside operation: stable over attempts, restarts, linked retries and rewording.
///
/// `H(tenant, tool, lineage, operation)`, `spec/effects.md` 3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectKey(pub Digest);

impl EffectKey {
    /// Derives the key. `operation` is the business key's canonical form or the path of plan nodes, slots and steps.
    #[must_use]
    pub fn derive(tenant: &TenantId, tool: &ToolName, lineage: &RunId, operation: &str) -> Self {
        Self(
            LengthPrefixed::new()
                .part(tenant.as_str().as_bytes())
                .part(tool.as_str().as_bytes())
                .part(lineage.as_str().as_bytes())
                .part(operation.as_bytes())
                .finish(),
        )
    }

    /// The form that is sent to the outside and shown to people: 64 hex digits.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.hex_prefix(64)
    }
}

/// Reads the form that is sent to the outside, and that of an event's body (`sha256:` before it).
impl FromStr for EffectKey {
    type Err = InvalidDigest;
    fn from_str(given: &str) -> Result<Self, InvalidDigest> {
        let hex = given.strip_prefix("sha256:").unwrap_or(given);
        let digest = format!("sha256:{hex}").parse();
        digest.map(Self).map_err(|_| InvalidDigest {
            given: given.chars().take(100).collect(),
        })
    }
}

impl fmt::Debug for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.hex_prefix(12))
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}
