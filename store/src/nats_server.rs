//! The private nats-server: found, configured with one user a role, started under a guard, started again when it dies.
//!
//! It is the real nats-server, on loopback only, with its store below the data directory. The guard (`guard.rs`) ends it when this process
//! ends, in whatever way.

mod config;
mod credentials;
mod find;
pub(crate) mod guard;
mod managed;

pub(crate) use self::managed::{ManagedServer, Restarter};
pub use self::{
    credentials::{Role, RoleCredentials},
    find::{NotFound, find},
    guard::guard_main,
    managed::GuardCommand,
};

use crate::limits::SERVER_START_WAIT;

/// Why the private nats-server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// There is none.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// Its directory cannot be prepared.
    #[error("{path}, which the private nats-server needs, cannot be written")]
    Directory {
        /// Which file or directory.
        path: std::path::PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The guard cannot be started.
    #[error("the guard of nats-server, {program}, cannot be started")]
    Guard {
        /// Which program.
        program: std::path::PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// It does not run, and its disk is full.
    #[error(
        "nats-server ({server}) does not come up, and the disk of {directory} is full: make space and start again"
    )]
    DiskFull {
        /// Which program.
        server: std::path::PathBuf,
        /// Where it stores.
        directory: std::path::PathBuf,
    },
    /// It runs and does not answer.
    #[error(
        "nats-server ({server}) does not answer within {} s of its start: {said}", SERVER_START_WAIT.as_secs()
    )]
    Silent {
        /// Which program.
        server: std::path::PathBuf,
        /// Last words of its log.
        said: String,
    },
    /// It ended by itself.
    #[error("nats-server ({server}) does not come up: {said}")]
    NotUp {
        /// Which program.
        server: std::path::PathBuf,
        /// Last words of its log.
        said: String,
    },
}
