//! The log: fjall, one keyspace a key family, each in its own file below `log/`. Only the recorder writes it.
//!
//! A batch is applied to what readers see only after it was fsynced, so nobody reads what could still be lost.

pub(crate) mod blobs;
pub(crate) mod commits;
mod error;
pub(crate) mod heal;
pub(crate) mod key;
pub(crate) mod keys;
pub(crate) mod messages;
pub(crate) mod meta;
mod panicking;
pub(crate) mod positions;
pub(crate) mod quarantine;
pub(crate) mod rows;
pub(crate) mod runs;
pub(crate) mod sleepers;
pub(crate) mod trimmed;
mod unread;
mod values;

use std::{
    fs::{self, File},
    io,
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use coppice_messages::{
    Digest,
    ids::{RunId, TenantId},
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions};

use self::heal::Look;
pub use self::{
    commits::Recorded,
    error::{OpenLogError, ReadError},
    heal::Unusable,
    meta::StreamPosition,
    quarantine::Quarantined,
    rows::{Row, RowEnd, RowFilter, RowState},
    sleepers::{Sleeper, SleepersError},
    trimmed::Tombstone,
    values::TenantBlobs,
};
pub(crate) use self::{
    error::{is_disk_full, system_error},
    unread::Unread,
};
use crate::{
    admission::{Head, Stored},
    data_dir::DataDir,
    limits::{JOURNAL_BYTES, MEMTABLE_BYTES, SEPARATED_BYTES_MIN},
    mark::{self, Shorter},
};

/// The key families.
#[derive(Clone)]
pub(crate) struct Tables {
    pub db: Database,
    pub commits: Keyspace,
    pub positions: Keyspace,
    pub rows: Keyspace,
    pub trees: Keyspace,
    pub open: Keyspace,
    pub blobs: Keyspace,
    pub quarantine: Keyspace,
    pub sleepers: Keyspace,
    pub keys: Keyspace,
    pub messages: Keyspace,
    pub tombstones: Keyspace,
    pub meta: Keyspace,
}

impl Tables {
    /// Opens the log at a path; one that is not there is made beside it and moved there whole. The database does not open again when the
    /// process that made it was killed halfway.
    pub fn open_or_make(path: &Path) -> Result<Self, fjall::Error> {
        if !path.try_exists()? {
            let half = path.with_extension("new");
            match fs::remove_dir_all(&half) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
            drop(Self::open(&half)?);
            fs::rename(&half, path)?;
            if let Some(parent) = path.parent() {
                File::open(parent)?.sync_all()?;
            }
        }
        Self::open(path)
    }

    /// What is kept of a log: every key family but the notes of the host.
    pub fn kept(&self) -> [(&'static str, &Keyspace); 11] {
        [
            ("commits", &self.commits),
            ("positions", &self.positions),
            ("rows", &self.rows),
            ("trees", &self.trees),
            ("open", &self.open),
            ("blobs", &self.blobs),
            ("quarantine", &self.quarantine),
            ("keys", &self.keys),
            ("messages", &self.messages),
            ("tombstones", &self.tombstones),
            ("meta", &self.meta),
        ]
    }

    pub fn open(path: &Path) -> Result<Self, fjall::Error> {
        let db = Database::builder(path)
            .max_journaling_size(JOURNAL_BYTES)
            .open()?;
        let small = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let large = || {
            small().with_kv_separation(Some(
                KvSeparationOptions::default().separation_threshold(SEPARATED_BYTES_MIN),
            ))
        };
        Ok(Self {
            commits: db.keyspace("commits", small)?,
            positions: db.keyspace("positions", small)?,
            rows: db.keyspace("rows", small)?,
            trees: db.keyspace("trees", small)?,
            open: db.keyspace("open", small)?,
            blobs: db.keyspace("blobs", large)?,
            quarantine: db.keyspace("quarantine", large)?,
            sleepers: db.keyspace("sleepers", small)?,
            keys: db.keyspace("keys", small)?,
            messages: db.keyspace("messages", small)?,
            tombstones: db.keyspace("tombstones", small)?,
            meta: db.keyspace("meta", small)?,
            db,
        })
    }
}

/// An opened log with the data directory that it lies in. For commands that read while no host runs; a host opens a
/// [`crate::Store`].
pub struct Log {
    directory: DataDir,
    reader: LogReader,
}

impl Log {
    /// Opens the log of a data directory that is there, and takes the directory's lock. One that is damaged or gone is left as it is, for a host
    /// to read again from the stream.
    ///
    /// # Errors
    /// [`OpenLogError`].
    pub fn open(data: &Path) -> Result<Self, OpenLogError> {
        let directory = DataDir::take_existing(data)?;
        let path = directory.log();
        if !path.exists() {
            let marked = directory
                .was_used()
                .then(|| mark::read(&directory.mark()).map_or(0, |mark| mark.pos));
            return Err(OpenLogError::Missing { path, marked });
        }
        match heal::usable(&path, None, Look::AtEnds) {
            Ok(reader) => Ok(Self { directory, reader }),
            Err(source) => Err(OpenLogError::Unusable { path, source }),
        }
    }

    /// What this log has not that it had: whoever reads on reads an older state.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn lacks(&self) -> Result<Option<Shorter>, ReadError> {
        let mark = mark::read(&self.directory.mark());
        let compared = mark.map(|mark| mark::compare(&self.reader, &mark));
        Ok(compared.transpose()?.and_then(Result::err))
    }

    pub(crate) fn open_in(directory: DataDir) -> Result<Self, OpenLogError> {
        let path = directory.log();
        let tables = match Tables::open_or_make(&path) {
            Ok(tables) => tables,
            Err(source) => return Err(OpenLogError::Database { path, source }),
        };
        runs::list_all(&tables).map_err(|source| OpenLogError::Read { path, source })?;
        Ok(Self::of(directory, tables))
    }

    pub(crate) fn of(directory: DataDir, tables: Tables) -> Self {
        let tables = Arc::new(tables);
        Self {
            directory,
            reader: LogReader::of(tables),
        }
    }

    /// What it holds.
    #[must_use]
    pub fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    /// Closes the log, and keeps the directory that it lies in.
    pub(crate) fn into_directory(self) -> DataDir {
        self.directory
    }

    /// The directory that it lies in.
    #[must_use]
    pub fn directory(&self) -> &DataDir {
        &self.directory
    }
}

/// Reads the log; cheap to clone. Sees each gathered batch wholly or not at all.
#[derive(Clone)]
pub struct LogReader {
    pub(crate) tables: Arc<Tables>,
    unread: Unread,
}

/// One commit in the order of the whole log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Positioned {
    /// Its position.
    pub pos: u64,
    /// Whose run.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// Number of its first event.
    pub seq: u64,
    /// SHA-256 of its bytes, as it was when they were recorded.
    pub hash: Digest,
    /// Its bytes.
    pub bytes: Bytes,
}

impl LogReader {
    pub(crate) fn of(tables: Arc<Tables>) -> Self {
        let unread = Unread::default();
        Self { tables, unread }
    }

    /// The same, which tells when something cannot be read.
    pub(crate) fn telling(mut self, unread: Unread) -> Self {
        self.unread = unread;
        self
    }

    /// The same, which tells nobody: for whoever only looks, and names what it cannot read.
    #[must_use]
    pub fn untold(&self) -> Self {
        Self::of(Arc::clone(&self.tables))
    }

    /// A run's commits, in order.
    pub fn chain(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> impl Iterator<Item = Result<Recorded, ReadError>> + Send + 'static {
        self.unread
            .each(commits::chain(&self.tables.commits, tenant, run, 0))
    }

    /// A run's commits that begin at or after event number `seq`.
    pub fn chain_from(
        &self,
        tenant: &TenantId,
        run: &RunId,
        seq: u64,
    ) -> impl Iterator<Item = Result<Recorded, ReadError>> + Send + 'static {
        self.unread
            .each(commits::chain(&self.tables.commits, tenant, run, seq))
    }

    /// Every commit from a position on, in the order of the log.
    pub fn commits_from(
        &self,
        pos: u64,
    ) -> impl Iterator<Item = Result<Positioned, ReadError>> + Send + 'static {
        let table = self.tables.commits.clone();
        let all = positions::from(&self.tables.positions, pos).map(move |found| {
            let (pos, commit_key) = found?;
            let missing = || ReadError::unreadable("the commit of a position");
            let recorded = commits::at_key(&table, &commit_key)?.ok_or_else(missing)?;
            let (tenant, run) = key::read_run(&commit_key).ok_or_else(missing)?;
            Ok(Positioned {
                pos,
                tenant,
                run,
                seq: recorded.seq,
                hash: recorded.hash,
                bytes: recorded.bytes,
            })
        });
        self.unread.each(all)
    }

    /// The commit of a run that holds event number `seq`, or the chain's last when it ends before.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn commit_at(
        &self,
        tenant: &TenantId,
        run: &RunId,
        seq: u64,
    ) -> Result<Option<Recorded>, ReadError> {
        self.unread.seen(commits::at_or_before(
            &self.tables.commits,
            tenant,
            run,
            seq,
        ))
    }

    /// Whether anything of a run is recorded.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn has_chain(&self, tenant: &TenantId, run: &RunId) -> Result<bool, ReadError> {
        self.unread
            .seen(commits::begins(&self.tables.commits, tenant, run))
    }

    /// The same, as admission sees it.
    pub(crate) fn stored(
        &self,
        tenant: &TenantId,
        run: &RunId,
        seq: u64,
    ) -> Result<Option<Stored>, ReadError> {
        self.unread
            .seen(commits::stored(&self.tables.commits, tenant, run, seq))
    }

    /// The end of a run's chain.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn head(&self, tenant: &TenantId, run: &RunId) -> Result<Option<Head>, ReadError> {
        self.unread
            .seen(commits::head(&self.tables.commits, tenant, run))
    }

    /// A run's row.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn row(&self, tenant: &TenantId, run: &RunId) -> Result<Option<Row>, ReadError> {
        self.unread.seen(rows::get(&self.tables.rows, tenant, run))
    }

    /// The rows that a filter takes, by tenant and run.
    pub fn rows(
        &self,
        filter: RowFilter,
    ) -> impl Iterator<Item = Result<Row, ReadError>> + Send + 'static {
        self.unread.each(rows::all(&self.tables, filter))
    }

    /// A tenant's blob.
    ///
    /// # Errors
    /// [`ReadError`]; bytes that do not have the digest are one.
    pub fn blob(&self, tenant: &TenantId, digest: &Digest) -> Result<Option<Bytes>, ReadError> {
        self.unread
            .seen(blobs::get(&self.tables.blobs, tenant, digest))
    }

    /// Size of a tenant's blob, if it is wholly in the log.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn blob_size(&self, tenant: &TenantId, digest: &Digest) -> Result<Option<u64>, ReadError> {
        let size = self
            .unread
            .seen(blobs::size(&self.tables.blobs, tenant, digest))?;
        Ok(size.map(|(bytes, _)| bytes))
    }

    /// The last position; 0 in an empty log.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn position(&self) -> Result<u64, ReadError> {
        self.unread.seen(trimmed::last_position(&self.tables))
    }

    /// How far the stream was read into this log.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn stream_position(&self) -> Result<Option<StreamPosition>, ReadError> {
        self.unread.seen(meta::stream(&self.tables.meta))
    }

    /// The digest of a message of the stream that was read (`wire::message_digest`).
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn message_digest(&self, seq: u64) -> Result<Option<Digest>, ReadError> {
        let message = self
            .unread
            .seen(messages::get(&self.tables.messages, seq))?;
        Ok(message.map(|message| message.digest))
    }

    /// The first message of the stream that this log knows.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn first_message(&self) -> Result<Option<u64>, ReadError> {
        self.unread.seen(messages::first(&self.tables.messages))
    }

    /// How many commits and blobs the stream lost and does not have again yet.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn lost(&self) -> Result<u64, ReadError> {
        let lost = meta::lost(&self.tables.meta)?.unwrap_or_default();
        Ok(lost.positions.count() + lost.blobs.len() as u64)
    }

    /// The commit at a position.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn commit_at_position(&self, pos: u64) -> Result<Option<Positioned>, ReadError> {
        let found = self.commits_from(pos).next().transpose()?;
        Ok(found.filter(|commit| commit.pos == pos))
    }

    pub(crate) fn total(&self) -> Result<meta::Total, ReadError> {
        meta::total(&self.tables.meta)
    }

    /// What is left of a tree that was trimmed.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn tombstone(
        &self,
        tenant: &TenantId,
        root: &RunId,
    ) -> Result<Option<Tombstone>, ReadError> {
        self.unread
            .seen(trimmed::tombstone(&self.tables.tombstones, tenant, root))
    }

    /// Refused commits that are kept, oldest first.
    pub fn quarantine(
        &self,
    ) -> impl Iterator<Item = Result<Quarantined, ReadError>> + Send + 'static {
        self.unread.each(quarantine::all(&self.tables.quarantine))
    }

    /// How many commits were ever refused.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn quarantined(&self) -> Result<u64, ReadError> {
        self.unread.seen(quarantine::count(&self.tables.quarantine))
    }

    /// Bytes on disk.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn disk_bytes(&self) -> Result<u64, ReadError> {
        Ok(self.tables.db.disk_space()?)
    }
}
