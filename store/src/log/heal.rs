//! Opening the log of a host: one that does not open, or is shorter than its high-water mark, is set aside and read again from the stream.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Log, LogReader, OpenLogError, ReadError, Tables, meta::Total, panicking, runs};
use crate::{
    clock,
    data_dir::DataDir,
    mark::{self, Shorter},
    suspect,
};

/// A log that is being read again from the stream, or for the first time.
pub(crate) struct Healing {
    /// Where the log lies that could not be used, if there was one.
    aside: Option<PathBuf>,
    log: PathBuf,
    mark: Total,
    /// The last position of the log that was set aside, where it only ended too early.
    older: Option<u64>,
}

/// Opens the log, or begins a new one in its place.
pub(crate) fn open(directory: DataDir) -> Result<(Log, Option<Healing>), OpenLogError> {
    let mark = mark::read(&directory.mark());
    let path = directory.log();
    if !path.exists() {
        let log = Log::open_in(directory)?;
        let healing = Healing {
            aside: None,
            log: path,
            mark: mark.unwrap_or_default(),
            older: None,
        };
        return Ok((log, Some(healing)));
    }
    let note = directory.suspect();
    let look = if suspect::is_noted(&note) {
        tracing::warn!("something of the log could not be read: it is looked through");
        Look::AtAll
    } else {
        Look::AtEnds
    };
    let why = match usable(&path, mark.as_ref(), look) {
        Ok(reader) => {
            suspect::forget(&note);
            return Ok((Log { directory, reader }, None));
        }
        // Space, rights or a lock are no damage: the log is as good as it was.
        Err(Unusable::Database(source)) if is_of_the_system(&source) => {
            return Err(OpenLogError::Database { path, source });
        }
        Err(why) => why,
    };
    let aside = directory.set_aside(clock::now());
    fs::rename(&path, &aside).map_err(|source| OpenLogError::SetAside {
        path: path.clone(),
        source,
    })?;
    tracing::error!(
        %why,
        cause = std::error::Error::source(&why),
        aside = %aside.display(),
        "the log is set aside and read again from the stream"
    );
    let log = Log::open_in(directory)?;
    let mark = mark.unwrap_or_default();
    let older = why.ends_at();
    Ok((
        log,
        Some(Healing {
            aside: Some(aside),
            log: path,
            mark,
            older,
        }),
    ))
}

/// Why a log that is there cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// Its database does not open, or refuses to be read.
    #[error("its database refuses")]
    Database(#[source] fjall::Error),
    /// Its database gives up on what it finds in its files.
    #[error("its database cannot make sense of its files")]
    Senseless,
    /// Something in it makes no sense.
    #[error(transparent)]
    Read(ReadError),
    /// It has less than it had.
    #[error(transparent)]
    Shorter(Shorter),
}

impl Unusable {
    /// The last position of a log that has nothing wrong but that it ends there.
    pub fn ends_at(&self) -> Option<u64> {
        match self {
            Self::Shorter(Shorter::Ends { found, .. }) => Some(*found),
            _ => None,
        }
    }
}

impl From<ReadError> for Unusable {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Database(source) => Self::Database(source),
            error @ ReadError::Unreadable { .. } => Self::Read(error),
        }
    }
}

/// How much of a log is read before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// What opening needs, and what came after the mark.
    AtEnds,
    /// Every entry.
    AtAll,
}

/// Opens a log that is there, and holds it against its mark.
pub(super) fn usable(path: &Path, mark: Option<&Total>, look: Look) -> Result<LogReader, Unusable> {
    let opened = || {
        let tables = Tables::open(path).map_err(Unusable::Database)?;
        runs::list_all(&tables)?;
        if look == Look::AtAll {
            read_all(&tables)?;
        }
        let reader = LogReader::of(Arc::new(tables));
        at_start(&reader)?;
        match mark.map(|mark| mark::compare(&reader, mark)).transpose()? {
            Some(Err(shorter)) => Err(Unusable::Shorter(shorter)),
            Some(Ok(())) | None => Ok(reader),
        }
    };
    // fjall asserts what it reads of its own files; a flipped bit must not be a panic of the host.
    panicking::answered(opened).unwrap_or_else(|said| {
        tracing::warn!(said, "the database panicked over its files");
        Err(Unusable::Senseless)
    })
}

/// Reads what a store reads before it has caught up: what of that is damaged is known while the log can still be set aside.
fn at_start(reader: &LogReader) -> Result<(), ReadError> {
    reader.total()?;
    reader.lost()?;
    reader.quarantined()?;
    reader.first_message()?;
    if let Some(position) = reader.stream_position()? {
        reader.message_digest(position.seq)?;
    }
    Ok(())
}

/// The last position of a log that is there and has nothing wrong but that it ends before its mark.
pub(crate) fn ends_at(path: &Path, mark: Option<&Total>) -> Option<u64> {
    let looked = path.exists().then(|| usable(path, mark, Look::AtEnds));
    looked?.err()?.ends_at()
}

/// Reads every entry; fjall checks each block and value on the way.
fn read_all(tables: &Tables) -> Result<(), Unusable> {
    for (_, table) in tables.kept() {
        for entry in table.iter() {
            entry.into_inner().map_err(Unusable::Database)?;
        }
    }
    Ok(())
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
    /// Where the log lies that could not be used; where it was, once this is [undone](Self::undo).
    pub fn aside(&self) -> Option<&PathBuf> {
        self.aside.as_ref()
    }

    /// How many commits the log had, if anything says so.
    pub fn had(&self) -> Option<u64> {
        let had = self.mark.pos.saturating_sub(self.mark.trimmed);
        (had > 0).then_some(had)
    }

    /// The last position of the log that was set aside, where it only ended too early.
    pub fn older(&self) -> Option<u64> {
        self.older
    }

    /// What is in neither log nor stream, now that the stream was read: the first and last position, as counts of commits.
    pub fn missing(&self, reader: &LogReader) -> Option<(u64, u64)> {
        let older = self.older.map(|pos| pos.saturating_sub(self.mark.trimmed));
        let found = reader.position().unwrap_or_default();
        let found = found.max(older.unwrap_or_default());
        // What was taken out of the log is in no stream either.
        let expected = self.had().unwrap_or_default();
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
