//! The file that a failing seed leaves, and its repetition.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use coppice_store::given;
use serde::{Deserialize, Serialize};

use super::report::Failure;

/// Version of the file and of the worlds that seeds stand for.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Document {
    coppice_sim: u32,
    #[serde(flatten)]
    failure: Failure,
}

/// A file that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("the file {path} cannot be read", path = path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is no file of a failing seed.
    #[error("{path} is not what a failing seed left (coppice sim run writes such files)", path = path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What the decoder says.
        source: serde_json::Error,
    },
    /// Another build's.
    #[error("{path} has format {found}, this build reads {FORMAT}: use the build that wrote it", path = path.display())]
    OtherFormat {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// What a repetition came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// What the file says.
    pub expected: Failure,
    /// What was seen now; none when every law held.
    pub seen: Option<Failure>,
}

impl Replayed {
    /// Whether the same law was broken by the same history.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| {
            seen.law == self.expected.law && seen.history == self.expected.history
        })
    }
}

/// Runs the seed of a file again.
///
/// # Errors
/// [`FileError`].
pub fn replay(path: &Path) -> Result<Replayed, FileError> {
    let path = || path.to_owned();
    let bytes = given::read(&path()).map_err(|source| FileError::Unreadable {
        path: path(),
        source,
    })?;
    let document: Document =
        serde_json::from_slice(&bytes).map_err(|source| FileError::Malformed {
            path: path(),
            source,
        })?;
    if document.coppice_sim != FORMAT {
        return Err(FileError::OtherFormat {
            path: path(),
            found: document.coppice_sim,
        });
    }
    let seen = super::history(document.failure.seed).failure;
    Ok(Replayed {
        expected: document.failure,
        seen,
    })
}

pub(super) fn write(directory: &Path, failure: &Failure) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let path = directory.join(format!("seed-{}.json", failure.seed));
    let document = Document {
        coppice_sim: FORMAT,
        failure: failure.clone(),
    };
    let text = serde_json::to_string_pretty(&document).map_err(io::Error::other)?;
    fs::write(&path, text)?;
    Ok(path)
}
