//! The desk's durable rows: JSON values under text keys, written in atomic batches.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use serde::{Serialize, de::DeserializeOwned};

/// What went wrong below the desk.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused.
    #[error("the desk's database refused")]
    Database(#[from] fjall::Error),
    /// A row is not what this version of the desk writes.
    #[error(
        "the desk's row `{row}` cannot be read: the directory belongs to something else, or to another version"
    )]
    Row {
        /// Key of the row.
        row: String,
        /// What JSON said.
        source: serde_json::Error,
    },
}

/// How durable a batch is before it counts as written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Durable {
    /// In the operating system's hands: survives the death of the process. Enough for counting reads.
    Process,
    /// On the disk: everything else.
    Disk,
}

/// Rows to be written together or not at all.
#[derive(Default)]
pub(super) struct Rows(Vec<(String, Vec<u8>)>);

impl Rows {
    /// Adds a row.
    pub(super) fn put<T: Serialize>(&mut self, row: String, value: &T) -> Result<(), StoreError> {
        match serde_json::to_vec(value) {
            Ok(bytes) => {
                self.0.push((row, bytes));
                Ok(())
            }
            Err(source) => Err(StoreError::Row { row, source }),
        }
    }
}

/// The database of one desk.
pub(super) struct Store {
    database: Database,
    rows: Keyspace,
}

impl Store {
    /// Opens, or makes, the database in a directory.
    pub(super) fn open(dir: &Path) -> Result<Self, StoreError> {
        let database = Database::builder(dir).open()?;
        let rows = database.keyspace("desk", KeyspaceCreateOptions::default)?;
        Ok(Self { database, rows })
    }

    /// One row.
    pub(super) fn get<T: DeserializeOwned>(&self, row: &str) -> Result<Option<T>, StoreError> {
        self.rows
            .get(row)?
            .map(|bytes| decode(row, &bytes))
            .transpose()
    }

    /// Every row whose key begins so, in key order.
    pub(super) fn scan<T: DeserializeOwned>(&self, prefix: &str) -> Result<Vec<T>, StoreError> {
        self.rows
            .prefix(prefix)
            .map(|item| {
                let (row, bytes) = item.into_inner()?;
                decode(&String::from_utf8_lossy(&row), &bytes)
            })
            .collect()
    }

    /// How many rows begin so.
    pub(super) fn count(&self, prefix: &str) -> Result<u64, StoreError> {
        self.rows.prefix(prefix).try_fold(0, |sum, item| {
            item.key()?;
            Ok(sum + 1)
        })
    }

    /// Writes rows, and returns when they are as durable as asked.
    pub(super) fn write(&self, rows: Rows, durable: Durable) -> Result<(), StoreError> {
        let mode = match durable {
            Durable::Process => PersistMode::Buffer,
            Durable::Disk => PersistMode::SyncData,
        };
        let mut batch = self.database.batch().durability(Some(mode));
        for (row, bytes) in rows.0 {
            batch.insert(&self.rows, row, bytes);
        }
        Ok(batch.commit()?)
    }
}

fn decode<T: DeserializeOwned>(row: &str, bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|source| StoreError::Row {
        row: row.to_owned(),
        source,
    })
}
