//! Taking whole trees out of a log that no host uses.
//!
//! What stays is written into a log of its own, verified, and put in the place of the old one in a single step. The stream is given up before that,
//! not after: a stream that is gone is filled again from whichever log lies there, while an old one would bring the trees back. So a crash at
//! any moment leaves the old log or the new one, whole, and trimming once more finishes it.

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use coppice_messages::{
    Digest, Timestamp,
    ids::{RunId, TenantId, TreeId},
};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch, PersistMode};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::{
    archive::cites::mentioned,
    data_dir::{DataDir, DataDirError},
    limits::BATCH_BYTES_MAX,
    log::{
        Log, LogReader, OpenLogError, ReadError, RowFilter, StreamPosition, Tables, Tombstone,
        blobs, commits, key,
        meta::{self, Lost},
        rows, trimmed,
    },
    mark, verify,
};

/// How far trimming has come; each step is on the disk when it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The log without the trees is written beside the old one, and verified.
    Written,
    /// The stream is given up.
    StreamGone,
    /// The new log lies in the place of the old one.
    Swapped,
    /// The high-water mark is that of the new log.
    Marked,
}

/// What was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Commits.
    pub commits: u64,
    /// Blobs that nothing mentions that is left.
    pub blobs: u64,
}

/// Why nothing was taken out, or not everything finished.
#[derive(Debug, thiserror::Error)]
pub enum TrimError {
    /// The log does not open.
    #[error(transparent)]
    Open(#[from] OpenLogError),
    /// It cannot be read.
    #[error("the log cannot be read")]
    Read(
        #[from]
        #[source]
        ReadError,
    ),
    /// The log without the trees cannot be written.
    #[error("the log cannot be written")]
    Write(
        #[from]
        #[source]
        fjall::Error,
    ),
    /// The system refuses.
    #[error("{path} cannot be changed")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The log that would stay is damaged.
    #[error("the log is damaged and is left as it is: {first}")]
    Damaged {
        /// The first fault.
        first: String,
    },
    /// Somebody wrote the log between the choice of the trees and now.
    #[error("the log went on from position {expected} to {found} meanwhile: trim again")]
    WentOn {
        /// Where it was.
        expected: u64,
        /// Where it is.
        found: u64,
    },
    /// Whoever asked wanted no further step.
    #[error("stopped after a step")]
    Stopped,
}

impl From<DataDirError> for TrimError {
    fn from(error: DataDirError) -> Self {
        Self::Open(error.into())
    }
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> TrimError + '_ {
    move |source| TrimError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Takes trees out of the log of a data directory, which must stand at position `pos`. `go_on` is asked after each step.
///
/// # Errors
/// [`TrimError`].
pub fn trim(
    data: &Path,
    trees: &[(TenantId, TreeId)],
    (pos, now): (u64, Timestamp),
    mut go_on: impl FnMut(Step) -> bool,
) -> Result<Report, TrimError> {
    let mut said = |step| {
        if go_on(step) {
            Ok(())
        } else {
            Err(TrimError::Stopped)
        }
    };
    let log = Log::open(data)?;
    let found = log.reader().position()?;
    if found != pos {
        return Err(TrimError::WentOn {
            expected: pos,
            found,
        });
    }
    let place = log.directory().log();
    let fresh = place_beside(log.directory());
    remove(&fresh)?;
    let tables = Tables::open(&fresh)?;
    let report = write(&log.reader(), tables.clone(), trees, now)?;
    let total = meta::total(&tables.meta)?;
    tables.db.persist(PersistMode::SyncAll)?;
    let kept = LogReader::of(tables.into());
    if let Some(fault) = verify::log(&kept)?.faults.first() {
        return Err(TrimError::Damaged {
            first: fault.to_string(),
        });
    }
    drop(kept);
    said(Step::Written)?;
    // Both logs are closed; the directory stays taken.
    let directory: DataDir = log.into_directory();
    remove(&directory.nats().join("store"))?;
    said(Step::StreamGone)?;
    renameat_with(CWD, &fresh, CWD, &place, RenameFlags::EXCHANGE)
        .map_err(|error| io_at(&place)(error.into()))?;
    let root = directory.root();
    File::open(root)
        .and_then(|root| root.sync_all())
        .map_err(io_at(root))?;
    said(Step::Swapped)?;
    let mark = directory.mark();
    mark::write(&mark, &total).map_err(io_at(&mark))?;
    said(Step::Marked)?;
    remove(&fresh)?;
    Ok(report)
}

/// Removes what a trim has left that was killed: the log that it had begun, or the one that it had replaced. Either lies beside the log, and the log
/// is whole without it.
///
/// # Errors
/// [`TrimError`].
pub fn clear(data: &Path) -> Result<(), TrimError> {
    let directory = DataDir::take_existing(data)?;
    remove(&place_beside(&directory))
}

/// Where a trim has the log that is not in use.
fn place_beside(directory: &DataDir) -> PathBuf {
    directory.log().with_extension("trimming")
}

fn remove(path: &Path) -> Result<(), TrimError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_at(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Entries on their way into the new log.
struct Filling {
    to: Tables,
    batch: WriteBatch,
    bytes: usize,
}

impl Filling {
    fn insert(&mut self, table: &Keyspace, key: &[u8], value: &[u8]) -> Result<(), TrimError> {
        self.bytes += key.len() + value.len();
        self.batch.insert(table, key, value);
        if self.bytes >= BATCH_BYTES_MAX {
            self.bytes = 0;
            std::mem::replace(&mut self.batch, self.to.db.batch()).commit()?;
        }
        Ok(())
    }

    /// Copies the entries of a table that are wanted.
    fn copy(
        &mut self,
        (from, to): (&Keyspace, &Keyspace),
        mut wanted: impl FnMut(&[u8], &[u8]) -> Result<bool, ReadError>,
    ) -> Result<(), TrimError> {
        for entry in from.iter() {
            let (key, value) = entry.into_inner()?;
            if wanted(&key, &value)? {
                self.insert(to, &key, &value)?;
            }
        }
        Ok(())
    }
}

/// Writes what stays.
fn write(
    log: &LogReader,
    to: Tables,
    trees: &[(TenantId, TreeId)],
    now: Timestamp,
) -> Result<Report, TrimError> {
    let from = &log.tables;
    let mut gone = trimmed::get(&from.meta)?;
    let before = gone.positions.count();
    let mut filling = Filling {
        batch: to.db.batch(),
        to: to.clone(),
        bytes: 0,
    };
    filling.copy((&from.tombstones, &to.tombstones), |_, _| Ok(true))?;
    let runs = bury(log, (&mut filling.batch, &to.tombstones), trees, now)?;
    let is_gone = |key: &[u8]| key::read_run(key).is_some_and(|run| runs.contains(&run));
    let mut kept_positions = crate::ranges::Ranges::default();
    let mut cited: HashSet<(TenantId, Digest)> = HashSet::new();
    filling.copy((&from.commits, &to.commits), |key, value| {
        let recorded = commits::read(key, value)?;
        if is_gone(key) {
            gone.positions.insert(recorded.pos);
            gone.sum = mark::plus(&gone.sum, &recorded.hash);
            return Ok(false);
        }
        let (tenant, _) =
            key::read_run(key).ok_or_else(|| ReadError::unreadable("a commit's key"))?;
        cited.extend(mentioned(&recorded.bytes).map(|blob| (tenant.clone(), blob)));
        kept_positions.insert(recorded.pos);
        Ok(true)
    })?;
    filling.copy((&from.positions, &to.positions), |_, commit| {
        Ok(!is_gone(commit))
    })?;
    filling.copy((&from.rows, &to.rows), |key, _| Ok(!is_gone(key)))?;
    // Of an effect it is still known who did it, should another tree come to its key.
    for (from, to) in [(&from.keys, &to.keys), (&from.quarantine, &to.quarantine)] {
        filling.copy((from, to), |_, _| Ok(true))?;
    }
    let blobs = closure(log, cited)?;
    let mut dropped = 0;
    filling.copy((&from.blobs, &to.blobs), |key, _| {
        let (tenant, blob, chunk) =
            blobs::read_key(key).ok_or_else(|| ReadError::unreadable("a blob's key"))?;
        let stays = blobs.contains(&(tenant, blob));
        dropped += u64::from(!stays && chunk.is_none());
        Ok(stays)
    })?;
    let commits = gone.positions.count() - before;
    let batch = &mut filling.batch;
    let mut total = log.total()?;
    total.writes += 1;
    total.trimmed = gone.positions.count();
    meta::put_total(batch, &to.meta, &total)?;
    trimmed::put(batch, &to.meta, &gone)?;
    if let Some(pos) = meta::restored(&from.meta)? {
        meta::put_restored(batch, &to.meta, pos);
    }
    // Another stream, which has nothing yet.
    meta::put_stream(batch, &to.meta, &StreamPosition { seq: 0, created: 0 })?;
    let lost = Lost {
        positions: kept_positions,
        blobs: blobs.into_iter().collect(),
        until: 0,
    };
    meta::put_lost(batch, &to.meta, &lost)?;
    filling.batch.commit()?;
    crate::log::runs::list_all(&to)?;
    Ok(Report {
        commits,
        blobs: dropped,
    })
}

/// Writes the tombstones of the trees, and says which runs go with them.
fn bury(
    log: &LogReader,
    (batch, tombstones): (&mut WriteBatch, &Keyspace),
    trees: &[(TenantId, TreeId)],
    now: Timestamp,
) -> Result<HashSet<(TenantId, RunId)>, TrimError> {
    let mut runs = HashSet::new();
    for (tenant, tree) in trees {
        let of_tree = RowFilter {
            tenant: Some(tenant.clone()),
            tree: Some(tree.clone()),
            state: None,
        };
        let root = tree.root();
        let (mut reason, mut ended) = (None, Timestamp(i64::MIN));
        for row in rows::all(&log.tables, of_tree) {
            let row = row?;
            let end = row
                .ended
                .ok_or_else(|| ReadError::unreadable("the end of a tree that is to be trimmed"))?;
            ended = ended.max(end.at);
            if row.run == root {
                reason = Some(end.reason);
            }
            runs.insert((tenant.clone(), row.run));
        }
        if let Some(reason) = reason {
            let (tenant, trimmed) = (tenant.clone(), now);
            let tombstone = Tombstone {
                tenant,
                root,
                reason,
                ended,
                trimmed,
            };
            trimmed::put_tombstone(batch, tombstones, &tombstone)?;
        }
    }
    Ok(runs)
}

/// The whole blobs among these, and those that they mention in turn.
fn closure(
    log: &LogReader,
    cited: HashSet<(TenantId, Digest)>,
) -> Result<HashSet<(TenantId, Digest)>, TrimError> {
    let mut open: Vec<_> = cited.into_iter().collect();
    let mut kept = HashSet::new();
    while let Some((tenant, blob)) = open.pop() {
        if kept.contains(&(tenant.clone(), blob)) || log.blob_size(&tenant, &blob)?.is_none() {
            continue;
        }
        let whole = log.blob(&tenant, &blob)?;
        let bytes = whole.unwrap_or_default();
        open.extend(mentioned(&bytes).map(|blob| (tenant.clone(), blob)));
        kept.insert((tenant, blob));
    }
    Ok(kept)
}
