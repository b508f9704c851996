//! What ends a host: faults after which the store must not go on. The first one stands.

use std::{path::PathBuf, sync::Arc};

use coppice_messages::ids::HostId;
use tokio::sync::watch;

use crate::{
    follow::Trimmed,
    gone::{self, Gone},
    limits::SERVER_RESTARTS_MAX,
    log::ReadError,
};

/// Why the store stopped. The host exits; what was not spoken about is known by the log at its next start.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fatal {
    /// The disk of the log is full.
    #[error("the disk of the log is full: make space and start again")]
    DiskFull,
    /// The disk of the private server's stream is full.
    #[error("the disk on which nats-server keeps the stream is full: make space and start again")]
    StreamDiskFull,
    /// The private server stores nothing, whatever was tried.
    #[error(
        "nats-server stores nothing although its disk has room, also after it was started again {SERVER_RESTARTS_MAX} times: see nats/nats-server.log below the data directory; it says: {said}"
    )]
    ServerStuck {
        /// What was said about the last message.
        said: String,
    },
    /// Writing or fsyncing the log failed. What is on the disk now is known only after reopening.
    #[error(
        "the log cannot be written, and after a failed write or fsync it is not tried again: look at the disk, then start again; nothing that was said to be recorded depends on that write: {said}"
    )]
    LogWrite {
        /// What the system says.
        said: String,
    },
    /// Reading the log failed.
    #[error(
        "something of the log cannot be read: start again, and the log is looked through and, if it is damaged, set aside and read again from the stream; what the stream does not have either is named: {said}"
    )]
    LogRead {
        /// What the system says.
        said: String,
    },
    /// The stream has a commit of a newer format.
    #[error(
        "the stream has a commit of format {format}, which this build does not know: start a newer build"
    )]
    NewerCommit {
        /// Its format.
        format: u16,
    },
    /// The stream lost messages that were never read.
    #[error(transparent)]
    StreamTrimmed(Trimmed),
    /// Messages of the stream that were never read into this log cannot be read.
    #[error(
        "{gone}. The log is left as it was found; put back a copy of the data directory, taken while no host ran, that has them, or a backup (coppice restore){}",
        kept(.aside)
    )]
    StreamGone {
        /// Which, and what they held.
        gone: Gone,
        /// Logs that were set aside before, in which it may be.
        aside: Vec<PathBuf>,
    },
    /// The log was read again from the stream, and the stream does not have everything either.
    #[error(
        "{} in neither log nor stream: put back a copy of the data directory, taken while no host ran, that has them, or a backup (coppice restore)",
        gone::positions(*.first, *.last)
    )]
    InNeither {
        /// The first position that is missing.
        first: u64,
        /// The last.
        last: u64,
    },
    /// Another host took the realm.
    #[error(
        "the host {next} was started in this realm after this one, which ends so that one host acts: it was stopped or cut off for a while, or both were started at the same moment"
    )]
    OtherHost {
        /// The other one.
        next: HostId,
    },
    /// A part of the store ended that never should.
    #[error("the {part} of the store ended unexpectedly")]
    PartEnded {
        /// Which part.
        part: &'static str,
    },
}

/// Where else it may be.
fn kept(aside: &[PathBuf]) -> String {
    let shown: Vec<String> = aside
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    format!(
        "; what was set aside before may have it too: {}",
        shown.join(", ")
    )
}

impl Fatal {
    /// The log does not give what was asked of it.
    pub(crate) fn log_read(error: &ReadError) -> Self {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        Self::LogRead {
            said: format!("{error}{}", cause.unwrap_or_default()),
        }
    }

    /// Whether space is all that is missing.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull | Self::StreamDiskFull)
    }
}

/// Holds the first fatal error.
#[derive(Clone)]
pub(crate) struct FatalCell {
    set: Arc<watch::Sender<Option<Fatal>>>,
}

impl FatalCell {
    pub fn new() -> Self {
        Self {
            set: Arc::new(watch::Sender::new(None)),
        }
    }

    pub fn set(&self, fatal: Fatal) {
        self.set.send_if_modified(|held| {
            let first = held.is_none();
            if first {
                tracing::error!(error = %fatal, "the store stops");
                *held = Some(fatal);
            }
            first
        });
    }

    pub fn get(&self) -> Option<Fatal> {
        self.set.borrow().clone()
    }

    /// Resolves when there is one; never otherwise.
    pub async fn wait(&self) -> Fatal {
        let mut seen = self.set.subscribe();
        let found = seen.wait_for(Option::is_some).await;
        match found {
            Ok(fatal) => fatal.clone().unwrap_or(Fatal::PartEnded { part: "store" }),
            // Not reached while self holds the sender.
            Err(_) => Fatal::PartEnded { part: "store" },
        }
    }
}
