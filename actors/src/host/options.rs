//! How a host is started. Plain data, so that a parent process can hand it to the host that it starts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    path::PathBuf,
};

use coppice_messages::{Bytes, Millis};
use coppice_store::{ServerAddress, limits::DISK_BYTES_RESERVED};
use coppice_topology::tool::CredentialSource;
use serde::{Deserialize, Serialize};

use crate::faults::Fault;

/// Which NATS server.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BusChoice {
    /// A private one below the data directory; realm `local`.
    #[default]
    Private,
    /// One that runs already, with a realm that must be named.
    Shared {
        /// Where.
        url: ServerAddress,
        /// The realm.
        realm: String,
        /// A user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// Its secret.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<String>,
        /// A NATS credentials file, instead of user and password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credentials_file: Option<PathBuf>,
    },
}

impl fmt::Debug for BusChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Private => f.write_str("Private"),
            Self::Shared {
                url, realm, user, ..
            } => f
                .debug_struct("Shared")
                .field("url", url)
                .field("realm", realm)
                .field("user", user)
                .finish_non_exhaustive(),
        }
    }
}

/// Where a host listens for what comes over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpChoice {
    /// A free port of this machine alone: for hosts that live as long as a run.
    #[default]
    Free,
    /// The usual port of this machine alone, else a free one.
    Usual,
    /// This address, or the host does not start.
    At(SocketAddr),
}

/// How a host is started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostOptions {
    /// The data directory.
    pub data: PathBuf,
    /// Which NATS server.
    #[serde(default)]
    pub bus: BusChoice,
    /// Where it listens for callbacks.
    #[serde(default)]
    pub http: HttpChoice,
    /// Base URLs that tools name in braces: `desk` for `{desk}/tickets`.
    #[serde(default)]
    pub endpoints: BTreeMap<String, String>,
    /// The directory of the policy set; none: what envelopes and contracts allow is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<PathBuf>,
    /// Where credentials of tools may be taken from: a contract that names another place is refused.
    #[serde(default)]
    pub credentials: BTreeSet<CredentialSource>,
    /// Faults on purpose. Refused unless `allow_faults` is set.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Whether faults on purpose may be injected: only where nothing real is at stake.
    #[serde(default)]
    pub allow_faults: bool,
    /// Whether recorded events are published for subscribers.
    #[serde(default = "yes")]
    pub feed: bool,
    /// Runs that wait longer than this have no actor.
    #[serde(default = "a_minute")]
    pub sleep_after: Millis,
    /// Bytes kept free on the disks of log and stream; below it new trees are refused.
    #[serde(default = "disk_reserve")]
    pub disk_reserve: Bytes,
    /// Whether the host stops when its standard input closes, so that it does not outlive who started it.
    #[serde(default)]
    pub stop_with_stdin: bool,
}

fn a_minute() -> Millis {
    Millis(60_000)
}

fn disk_reserve() -> Bytes {
    Bytes(DISK_BYTES_RESERVED)
}

fn yes() -> bool {
    true
}

impl HostOptions {
    /// The usual options.
    #[must_use]
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            bus: BusChoice::Private,
            http: HttpChoice::Free,
            endpoints: BTreeMap::new(),
            policies: None,
            credentials: BTreeSet::new(),
            faults: Vec::new(),
            allow_faults: false,
            feed: true,
            sleep_after: a_minute(),
            disk_reserve: disk_reserve(),
            stop_with_stdin: false,
        }
    }
}
