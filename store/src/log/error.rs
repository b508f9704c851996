//! Why a log does not open, and why something in it cannot be read.

use std::{io, path::PathBuf};

use super::Unusable;
use crate::data_dir::DataDirError;

/// Why the log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenLogError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DataDirError),
    /// fjall cannot open it.
    #[error("the log at {path} does not open")]
    Database {
        /// Where.
        path: PathBuf,
        /// What fjall says.
        #[source]
        source: fjall::Error,
    },
    /// It is not there.
    #[error("there is no log at {path}, {}", had_come_to(*marked))]
    Missing {
        /// Where it should be.
        path: PathBuf,
        /// How far it had come, as far as that is known; none when nothing shows that there ever was one.
        marked: Option<u64>,
    },
    /// It is there, and cannot be read.
    #[error("the log at {path} cannot be used")]
    Unusable {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: Unusable,
    },
    /// It cannot be used, and cannot be put out of the way.
    #[error(
        "the log at {path} cannot be used, and cannot be renamed either: look at the rights of its directory"
    )]
    SetAside {
        /// Where.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// What it says about itself cannot be read.
    #[error("the log at {path} cannot be read")]
    Read {
        /// Where.
        path: PathBuf,
        /// What cannot be read.
        #[source]
        source: ReadError,
    },
}

fn had_come_to(marked: Option<u64>) -> String {
    match marked {
        None => "nor any sign that there ever was one: no host came up there yet".to_owned(),
        Some(0) => "which had nothing as far as its mark says".to_owned(),
        Some(marked) => format!("which had come to position {marked}"),
    }
}

/// Why something in the log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// fjall refuses.
    #[error("the log's database refuses")]
    Database(
        #[from]
        #[source]
        fjall::Error,
    ),
    /// What it gives makes no sense.
    #[error("the log holds something unreadable where {what} should be")]
    Unreadable {
        /// What was expected.
        what: &'static str,
    },
}

impl ReadError {
    pub(crate) fn unreadable(what: &'static str) -> Self {
        Self::Unreadable { what }
    }

    /// Whether the disk is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Database(e) if is_disk_full(e))
    }
}

/// Whether fjall failed because the disk is full.
pub(crate) fn is_disk_full(error: &fjall::Error) -> bool {
    system_error(error).is_some_and(|e| e.kind() == io::ErrorKind::StorageFull)
}

/// What the system said, where it is the system that failed.
pub(crate) fn system_error(error: &fjall::Error) -> Option<&io::Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}
