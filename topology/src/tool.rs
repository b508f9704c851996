//! Tool contracts: what a tool takes, gives and does, and how an unclear outcome of it is resolved (`spec/effects.md` 1).

mod credential;
mod data;
mod schema;
mod transport;
mod world;
mod written;

use std::collections::BTreeSet;

use coppice_messages::{Bytes, Millis, Operation, ids::ToolName};
use serde::{Deserialize, Serialize};

pub use self::{
    credential::{Credential, CredentialSource},
    data::{Data, DataClass, origin},
    schema::Schema,
    transport::{
        ErrorRow, Http, HttpRequest, InProcess, InProcessLookup, Lookup, Meaning, Method,
        OnUnknown, ReceiptPointers, Transport,
    },
    world::{Probe, Resource, VersionRead},
};
use crate::expr::Reference;

/// One tool's contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "written::Written", into = "written::Written")]
pub struct Tool {
    /// Its name.
    pub tool: ToolName,
    /// Which system it belongs to.
    pub namespace: String,
    /// Who answers for it.
    pub owner: String,
    /// Raised by hand with each change.
    pub version: u32,
    /// What it does to the outside.
    pub operation: Operation,
    /// How much harm a wrong call can do.
    pub effect: EffectClass,
    /// JSON Schema of the arguments.
    pub input: Schema,
    /// Arguments that a model may word freely: outside the action digest.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub annotations: BTreeSet<String>,
    /// JSON Schema of the result.
    pub output: Schema,
    /// How it is called.
    pub transport: Transport,
    /// The resource that it touches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    /// What the world must show at the moment of use; else nothing is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precondition: Option<Probe>,
    /// What the world shows when it was done, whatever the tool says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postcondition: Option<Probe>,
    /// Business key and repeats.
    #[serde(default)]
    pub idempotency: Idempotency,
    /// Rate and concurrency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Which data it handles, and where they may go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
}

/// How much harm a wrong call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// None.
    Read,
    /// Can be undone.
    ReversibleWrite,
    /// Cannot be undone.
    IrreversibleWrite,
    /// Somebody reads it.
    Communication,
    /// Money moves.
    Payment,
    /// Code runs.
    CodeExecution,
}

impl EffectClass {
    /// Its word in contracts and policies.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReversibleWrite => "reversible_write",
            Self::IrreversibleWrite => "irreversible_write",
            Self::Communication => "communication",
            Self::Payment => "payment",
            Self::CodeExecution => "code_execution",
        }
    }
}

/// Business key and repeats.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Idempotency {
    /// What makes two operations one: references to input and item only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub business_key: Vec<Reference>,
    /// Whether it may be sent again by itself.
    pub attempts: Attempts,
}

/// Whether an effect may be sent again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempts {
    /// Never; lost work is reported as lost.
    #[default]
    AtMostOnce,
    /// When it provably did not happen, or the tool deduplicates by key.
    AtLeastOnce,
}

/// Rate and concurrency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Calls a minute over the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_minute: Option<u32>,
    /// Calls at one time over the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

impl Tool {
    /// The base URLs that its addresses name, and that the host is told: `{desk}`.
    #[must_use]
    pub fn endpoints(&self) -> BTreeSet<&str> {
        let places = self
            .addresses()
            .into_iter()
            .flat_map(|address| address.split('{').skip(1));
        places
            .filter_map(|behind| behind.split_once('}'))
            .map(|(place, _)| place)
            .filter(|place| *place != "key" && !place.contains('.'))
            .collect()
    }

    /// Every address that it names: of the call, its look-up, and what is read around it.
    #[must_use]
    pub fn addresses(&self) -> Vec<&str> {
        let (call, lookup) = match &self.transport {
            Transport::Http(http) => (
                Some(http.request.url.as_str()),
                http.lookup_by_key.as_ref().map(|lookup| &*lookup.url),
            ),
            Transport::InProcess(_) => (None, None),
        };
        let version = self
            .resource
            .as_ref()
            .and_then(|resource| resource.version.as_ref());
        let probes = [&self.precondition, &self.postcondition];
        let around = version
            .map(|read| &*read.url)
            .into_iter()
            .chain(probes.into_iter().flatten().map(|probe| &*probe.url));
        call.into_iter().chain(lookup).chain(around).collect()
    }

    /// Where its credential is.
    #[must_use]
    pub fn credential(&self) -> Option<&Credential> {
        match &self.transport {
            Transport::Http(http) => http.credential.as_ref(),
            Transport::InProcess(_) => None,
        }
    }

    /// Whether a call changes nothing outside.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.operation == Operation::Read
    }

    /// How long one call may take.
    #[must_use]
    pub fn timeout(&self) -> Millis {
        match &self.transport {
            Transport::Http(http) => http.request.timeout,
            Transport::InProcess(function) => function.timeout,
        }
    }

    /// Greatest size of a result.
    #[must_use]
    pub fn result_bytes_max(&self) -> Bytes {
        match &self.transport {
            Transport::Http(http) => http.request.max_bytes,
            Transport::InProcess(function) => function.max_bytes,
        }
    }

    /// The most that one call can bring over the network.
    #[must_use]
    pub fn network_bytes_max(&self) -> Bytes {
        match &self.transport {
            Transport::Http(http) => http.request.max_bytes,
            Transport::InProcess(_) => Bytes(0),
        }
    }

    /// Where the proof stands in a result.
    #[must_use]
    pub fn receipt(&self) -> &ReceiptPointers {
        match &self.transport {
            Transport::Http(http) => &http.receipt,
            Transport::InProcess(function) => &function.receipt,
        }
    }

    /// What happens with an unclear outcome.
    #[must_use]
    pub fn on_unknown(&self) -> OnUnknown {
        match &self.transport {
            Transport::Http(http) => http.on_unknown,
            Transport::InProcess(function) => function.on_unknown,
        }
    }

    /// Whether a second call with the same key does nothing.
    #[must_use]
    pub fn deduplicates(&self) -> bool {
        match &self.transport {
            Transport::Http(http) => http.request.key_header.is_some(),
            Transport::InProcess(function) => function.deduplicates,
        }
    }

    /// What it means that a look-up by key does not show an effect; none without a look-up.
    #[must_use]
    pub fn absence(&self) -> Option<Absence> {
        match &self.transport {
            Transport::Http(http) => http.lookup_by_key.as_ref().map(|lookup| Absence {
                is_final: lookup.absent_is_final,
                settles_within: lookup.settles_within,
            }),
            Transport::InProcess(function) => {
                let lookup = function.lookup_by_key.as_ref();
                lookup.map(|lookup| Absence {
                    is_final: lookup.absent_is_final,
                    settles_within: lookup.settles_within,
                })
            }
        }
    }
}

/// What it means that a look-up by key does not show an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absence {
    /// Whether it proves that the effect will not happen, once it is old enough.
    pub is_final: bool,
    /// Longest time from the end of a call until the look-up shows what it did.
    pub settles_within: Millis,
}
