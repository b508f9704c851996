//! `endpoint.json`: how a client finds the host of a data directory. Written whole, for its owner's eyes only, and removed when the host stops.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use coppice_messages::{Timestamp, ids::HostId};
use coppice_store::{DataDir, ServerAddress};
use serde::{Deserialize, Serialize};

/// Name of the file in the data directory.
pub const FILE: &str = "endpoint.json";

/// How one role connects.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Access {
    /// The user's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// A NATS credentials file, instead of user and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_file: Option<PathBuf>,
    /// Prefix of the client's inboxes: the only subjects on which it may get answers.
    pub inbox_prefix: String,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("user", &self.user)
            .field("credentials_file", &self.credentials_file)
            .finish_non_exhaustive()
    }
}

/// A living host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The NATS server.
    pub nats_url: ServerAddress,
    /// Where it takes what comes over HTTP, such as `http://127.0.0.1:7717`.
    pub http_url: String,
    /// The realm; all subjects begin with `coppice.v1.<realm>.`.
    pub realm: String,
    /// The host.
    pub host: HostId,
    /// Its process id.
    pub pid: u32,
    /// Since when.
    pub started_at: Timestamp,
    /// By role: `operator`, `watcher`.
    pub roles: BTreeMap<String, Access>,
}

/// The role that starts and asks.
pub const OPERATOR: &str = "operator";
/// The role that only looks on.
pub const WATCHER: &str = "watcher";

/// Why a host cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// No host runs for this directory.
    #[error("no host runs for the data directory {data}")]
    NoHost {
        /// The directory.
        data: PathBuf,
    },
    /// The file is there and cannot be read or written.
    #[error("{path} cannot be used")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file is there and says nothing usable.
    #[error("{path} is not an endpoint: a host of this build writes it anew when it is started")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the decoder says.
        #[source]
        source: serde_json::Error,
    },
}

impl Endpoint {
    /// Reads the endpoint of a data directory.
    ///
    /// # Errors
    /// [`EndpointError`]. A host that was killed leaves its file behind: who cannot connect treats it as absent.
    pub fn read(data: &Path) -> Result<Self, EndpointError> {
        let path = data.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(EndpointError::NoHost {
                    data: data.to_owned(),
                });
            }
            Err(source) => return Err(EndpointError::Io { path, source }),
        };
        serde_json::from_slice(&text).map_err(|source| EndpointError::Malformed { path, source })
    }

    /// The endpoint of the host that lives in a data directory: the one that owns it. A copy of a directory has the file of its original.
    ///
    /// # Errors
    /// [`EndpointError`].
    pub fn of_living(data: &Path) -> Result<Self, EndpointError> {
        let found = Self::read(data)?;
        if DataDir::owner(data) == Some(found.pid) {
            return Ok(found);
        }
        let data = data.to_owned();
        Err(EndpointError::NoHost { data })
    }

    /// Writes it: who reads sees the whole old one or the whole new one.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn write(&self, data: &Path) -> Result<(), EndpointError> {
        let path = data.join(FILE);
        let fresh = data.join(format!("{FILE}.new"));
        self.write_new(&fresh)
            .and_then(|()| fs::rename(&fresh, &path))
            .map_err(|source| EndpointError::Io { path, source })
    }

    fn write_new(&self, path: &Path) -> io::Result<()> {
        use io::Write as _;
        // A file that is there would keep its mode.
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            Ok(()) | Err(_) => {}
        }
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_data()
    }

    /// Removes the file, if it is still this host's.
    pub fn remove(&self, data: &Path) {
        if Self::read(data).is_ok_and(|found| found.host == self.host)
            && let Err(error) = fs::remove_file(data.join(FILE))
        {
            tracing::warn!(%error, "endpoint.json cannot be removed");
        }
    }
}
