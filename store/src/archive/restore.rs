//! Restoring a log from the archive of a whole one. The archive is verified before anything is written; then the log is made beside its place
//! and verified there; only then it gets its name. Until all of it is on the disk it is marked as unfinished, so that nobody takes what a killed
//! restore left for a log; the next restore removes that.
//!
//! The stream is not restored: it is refilled from the log when a host opens it, as after any other loss.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use fjall::{Keyspace, PersistMode};

use super::{Entry, ReadArchiveError, Reader, Record, WholeError, check, whole::named};
use crate::{
    data_dir::{DataDir, DataDirError, remove_marked, sync},
    limits::BATCH_BYTES_MAX,
    log::{Log, ReadError, Tables, meta, runs},
    mark::{self, Shorter},
    verify::{self, Verified},
};

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The last position.
    pub pos: u64,
    /// What verification counted.
    pub verified: Verified,
}

/// Why a log is not restored. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The archive is not good.
    #[error(transparent)]
    Archive(#[from] WholeError),
    /// There is something where the data directory would be.
    #[error("{path} is there already and not empty: restore into a new data directory")]
    Taken {
        /// Where.
        path: PathBuf,
    },
    /// The data directory cannot be made.
    #[error(transparent)]
    Directory(#[from] DataDirError),
    /// The system refuses.
    #[error("{path} cannot be made")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The log cannot be written.
    #[error("the log cannot be written")]
    Write(#[source] fjall::Error),
    /// The log cannot be read back.
    #[error("the log cannot be read back")]
    Read(
        #[from]
        #[source]
        ReadError,
    ),
    /// It does not have what it says of itself.
    #[error("the log in it is not whole: {0}")]
    Shorter(Shorter),
}

impl From<ReadArchiveError> for RestoreError {
    fn from(error: ReadArchiveError) -> Self {
        Self::Archive(error.into())
    }
}

/// Removes what was begun, unless it is finished.
struct UnderWay {
    path: Option<PathBuf>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Some(path) = self.path.take() else {
            return;
        };
        match remove_marked(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %path.display(), "what was begun is not removed");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// Makes the data directory `data` from an archive of a whole log; `open` opens it from its beginning. With `lost_since` writes of the trees
/// in it are first looked up by key: they may have been done by the log that the copy was taken from, after it was taken. `beside` puts into the
/// directory what belongs there besides the log.
///
/// # Errors
/// [`RestoreError`]; `data` is as it was.
pub fn restore<R: Read>(
    open: impl Fn() -> Result<Reader<R>, ReadArchiveError>,
    data: &Path,
    lost_since: bool,
    beside: impl FnOnce(&Path) -> io::Result<()>,
    mut seen: impl FnMut(u64),
) -> Result<Restored, RestoreError> {
    let place = place_beside(data);
    if DataDir::is_unfinished(data) {
        DataDir::discard(data)?;
    }
    for path in [data, &place] {
        check_free(path)?;
    }
    check(&mut open()?, &mut seen)?;
    DataDir::discard(&place)?;
    let directory = DataDir::begin(&place)?;
    let mut under_way = UnderWay {
        path: Some(place.clone()),
    };
    // The lock outlasts the renaming: nobody else begins here meanwhile.
    let (restored, directory) = fill(&mut open()?, directory, lost_since, seen)?;
    beside(&place).map_err(io_at(&place))?;
    if data.exists() {
        fs::remove_dir(data).map_err(io_at(data))?;
    }
    fs::rename(&place, data).map_err(io_at(data))?;
    under_way.path = Some(data.to_owned());
    let parent = data.parent().filter(|path| !path.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    sync(parent).map_err(io_at(parent))?;
    DataDir::finish(data)?;
    under_way.path = None;
    drop(directory);
    Ok(restored)
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> RestoreError + '_ {
    move |source| RestoreError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Where the directory is made: beside its place, under a name that the next restore knows.
fn place_beside(data: &Path) -> PathBuf {
    // Without a slash at the end, behind which it would lie inside.
    let mut beside: OsString = data.components().as_path().as_os_str().to_owned();
    beside.push(".restoring");
    beside.into()
}

/// Refuses a directory with anything in it, but for what an unfinished restore left.
fn check_free(path: &Path) -> Result<(), RestoreError> {
    let is_taken = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some() && !DataDir::is_unfinished(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(io_at(path)(error)),
    };
    if is_taken {
        let path = path.to_owned();
        return Err(RestoreError::Taken { path });
    }
    Ok(())
}

/// The whole log, closed again.
fn fill<R: Read>(
    archive: &mut Reader<R>,
    directory: DataDir,
    lost_since: bool,
    mut seen: impl FnMut(u64),
) -> Result<(Restored, DataDir), RestoreError> {
    let tables = Tables::open(&directory.log()).map_err(RestoreError::Write)?;
    let mut write = tables.db.batch();
    let mut bytes = 0;
    while let Some(record) = archive.next() {
        let Record::Entry(Entry { table, key, value }) = record? else {
            return Err(WholeError::OtherKind.into());
        };
        let place = place_of(&tables, &table).ok_or(WholeError::Unreadable { table })?;
        bytes += key.len() + value.len();
        write.insert(place, key.as_ref(), value.as_ref());
        if bytes >= BATCH_BYTES_MAX {
            let full = std::mem::replace(&mut write, tables.db.batch());
            full.commit().map_err(RestoreError::Write)?;
            bytes = 0;
        }
        seen(archive.bytes_read());
    }
    let pos = archive.header().pos;
    if lost_since {
        meta::put_restored(&mut write, &tables.meta, pos);
    }
    write.commit().map_err(RestoreError::Write)?;
    tables
        .db
        .persist(PersistMode::SyncAll)
        .map_err(RestoreError::Write)?;
    // A copy that an older build made may not list its runs.
    runs::list_all(&tables)?;
    let log = Log::of(directory, tables);
    let reader = log.reader();
    let verified = verify::log(&reader)?;
    named(&verified.faults)?;
    let total = reader.total()?;
    mark::compare(&reader, &total)?.map_err(RestoreError::Shorter)?;
    let mark = log.directory().mark();
    mark::write(&mark, &total).map_err(|source| RestoreError::Io { path: mark, source })?;
    drop(reader);
    Ok((Restored { pos, verified }, log.into_directory()))
}

fn place_of<'a>(tables: &'a Tables, name: &str) -> Option<&'a Keyspace> {
    let kept = tables.kept().into_iter();
    kept.filter(|(known, _)| *known == name)
        .map(|(_, table)| table)
        .next()
}
