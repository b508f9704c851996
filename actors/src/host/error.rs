//! Why a host does not start, and whose fault that is.

use std::net::SocketAddr;

use coppice_messages::ids::InvalidId;
use coppice_store::{Fatal, InvalidRealm, OpenError, OpenLogError, ReadError, SystemEventError};
use ractor::SpawnErr;

use crate::{
    broker::BrokerError, callback::SecretsError, endpoint::EndpointError, faults::BookError,
    policy::PolicyError, token::TokenKeyError,
};

/// Why a host does not start. Each is a fault of the environment unless [`HostError::is_bad_input`] says that it is one of the options.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Faults were asked for and are not allowed.
    #[error("faults are injected only by a host that is told so: {count} were asked for")]
    FaultsNotAllowed {
        /// How many.
        count: usize,
    },
    /// The realm cannot be used.
    #[error(transparent)]
    Realm(#[from] InvalidRealm),
    /// No id can be made for this process.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// Which program this is cannot be found out.
    #[error("the system does not say which program this is")]
    Program(#[source] std::io::Error),
    /// The runtime.
    #[error("the system gives no threads or signals")]
    Runtime(#[source] std::io::Error),
    /// The store.
    #[error("the store does not open")]
    Store(
        #[from]
        #[source]
        Box<OpenError>,
    ),
    /// The log cannot be read.
    #[error(
        "the log cannot be read: start again, and it is looked through and, if it is damaged, read again from the stream"
    )]
    Log(
        #[from]
        #[source]
        ReadError,
    ),
    /// The broker.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The policy set.
    #[error(transparent)]
    Policies(#[from] PolicyError),
    /// The key that signs the tokens of requests to tools.
    #[error(transparent)]
    Token(#[from] TokenKeyError),
    /// The book of injected faults.
    #[error(transparent)]
    Faults(#[from] BookError),
    /// The host's own facts cannot be recorded.
    #[error("the start of the host cannot be recorded")]
    Record(
        #[from]
        #[source]
        SystemEventError,
    ),
    /// The supervisor of the roots, or the one of the orphans.
    #[error("the supervisor of the runs does not start")]
    Supervisor(
        #[from]
        #[source]
        SpawnErr,
    ),
    /// The API.
    #[error("the API cannot be offered: {said}")]
    Api {
        /// What the client says.
        said: String,
    },
    /// The secrets for callbacks.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The HTTP port.
    #[error(
        "the host cannot listen for callbacks on {address}: choose another address with --http"
    )]
    Http {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// `endpoint.json`.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The store stopped.
    #[error("the store stopped")]
    Fatal(#[source] Fatal),
}

impl HostError {
    /// Whether the options are at fault and not the environment.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::FaultsNotAllowed { .. } | Self::Realm(_) | Self::Policies(_) => true,
            // The data directory belongs to another process, or to a newer build: nothing that waiting would change.
            Self::Store(error) => {
                matches!(&**error, OpenError::Log(OpenLogError::Directory(error)) if error.is_bad_input())
            }
            Self::Id(_)
            | Self::Program(_)
            | Self::Runtime(_)
            | Self::Log(_)
            | Self::Broker(_)
            | Self::Token(_)
            | Self::Faults(_)
            | Self::Record(_)
            | Self::Supervisor(_)
            | Self::Api { .. }
            | Self::Secrets(_)
            | Self::Http { .. }
            | Self::Endpoint(_)
            | Self::Fatal(_) => false,
        }
    }

    /// The process's exit code: 2 for bad input, 3 for the environment.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.is_bad_input() { 2 } else { 3 }
    }
}
