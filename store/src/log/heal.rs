//! Opening the log of a host: one that does not open, or is shorter than its high-water mark, is set aside and read again from the stream.

use std::{
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
};

use super::{Log, LogReader, ReadError, Tables, meta::Total, runs};
use crate::{
    clock,
    data_dir::{DataDir, DataDirError},
    mark::{self, Shorter},
};

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
    /// fjall stumbled over what it read of its own files.
    #[error("the log at {path} is damaged")]
    Damaged {
        /// Where.
        path: PathBuf,
    },
    /// It is not there, and the mark beside it says that it was.
    #[error("the log at {path} is gone: it had come to position {marked}")]
    Gone {
        /// Where.
        path: PathBuf,
        /// The mark's position.
        marked: u64,
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

/// A log that is being read again from the stream.
pub(crate) struct Healing {
    /// Where the log lies that could not be used, if there was one.
    aside: Option<PathBuf>,
    log: PathBuf,
    mark: Total,
}

/// Opens the log, or begins a new one in its place.
pub(crate) fn open(directory: DataDir) -> Result<(Log, Option<Healing>), OpenLogError> {
    let mark = mark::read(&directory.mark());
    let path = directory.log();
    if !path.exists() {
        let log = Log::open_in(directory)?;
        let healing = mark.map(|mark| Healing {
            aside: None,
            log: path,
            mark,
        });
        return Ok((log, healing));
    }
    // fjall asserts what it reads of its own files; a flipped bit must not be a panic of the host.
    let opened = catch_unwind(AssertUnwindSafe(|| Tables::open(&path)));
    let why = match opened {
        Ok(Ok(tables)) => {
            let log = Log::of(directory, tables);
            match fault(&log.reader, mark.as_ref()) {
                Ok(None) => return Ok((log, None)),
                Ok(Some(shorter)) => (log.directory, shorter.to_string()),
                Err(ReadError::Database(source)) if is_of_the_system(&source) => {
                    return Err(OpenLogError::Database { path, source });
                }
                Err(error) => (log.directory, format!("it cannot be read: {error}")),
            }
        }
        // Space, rights or a lock are no damage: the log is as good as it was.
        Ok(Err(source)) if is_of_the_system(&source) => {
            return Err(OpenLogError::Database { path, source });
        }
        Ok(Err(source)) => (directory, format!("it does not open: {source}")),
        Err(_) => (directory, "it does not open".to_owned()),
    };
    let (directory, why) = why;
    let aside = directory.set_aside(clock::now());
    fs::rename(&path, &aside).map_err(|source| OpenLogError::SetAside {
        path: path.clone(),
        source,
    })?;
    tracing::error!(
        why,
        aside = %aside.display(),
        "the log is set aside and read again from the stream"
    );
    let log = Log::open_in(directory)?;
    let mark = mark.unwrap_or_default();
    Ok((
        log,
        Some(Healing {
            aside: Some(aside),
            log: path,
            mark,
        }),
    ))
}

/// Opens the log for whoever only reads: what a host would mend is refused.
pub(super) fn open_as_it_is(directory: DataDir) -> Result<Log, OpenLogError> {
    let path = directory.log();
    let mark = mark::read(&directory.mark());
    if let Some(mark) = mark.filter(|mark| mark.pos > 0 && !path.exists()) {
        let marked = mark.pos;
        return Err(OpenLogError::Gone { path, marked });
    }
    // As for a host: damage is told, and no panic.
    let opened = catch_unwind(AssertUnwindSafe(|| Log::open_in(directory)));
    opened.unwrap_or(Err(OpenLogError::Damaged { path }))
}

/// Why a log that opens cannot be used.
fn fault(reader: &LogReader, mark: Option<&Total>) -> Result<Option<Shorter>, ReadError> {
    runs::list_all(&reader.tables)?;
    let compared = mark.map(|mark| mark::compare(reader, mark));
    Ok(compared.transpose()?.and_then(Result::err))
}

/// Errors of the system that say nothing about what the files hold.
fn is_of_the_system(error: &fjall::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    if matches!(error, fjall::Error::Locked) {
        return true;
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|e| {
            matches!(
                e.kind(),
                StorageFull | PermissionDenied | ReadOnlyFilesystem
            )
        }) {
            return true;
        }
        cause = error.source();
    }
    false
}

impl Healing {
    /// What is in neither log nor stream, now that the stream was read: the first and last position, as counts of commits.
    pub fn missing(&self, reader: &LogReader) -> Option<(u64, u64)> {
        let found = reader.position().unwrap_or_default();
        // What was taken out of the log is in no stream either.
        let expected = self.mark.pos.saturating_sub(self.mark.trimmed);
        (found < expected).then_some((found + 1, expected))
    }

    /// The stream does not have everything: the log that was set aside lies again where it was, so that the next start finds what this one found.
    pub fn undo(self) {
        let undone = fs::remove_dir_all(&self.log).and_then(|()| match &self.aside {
            Some(aside) => fs::rename(aside, &self.log),
            None => Ok(()),
        });
        if let Err(error) = undone {
            tracing::error!(%error, "the log that was set aside stays aside");
        }
    }
}
