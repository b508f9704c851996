//! What was taken out of the log on purpose: which positions, so that a gap that was made is told from a loss; and of each tree a tombstone, so that
//! its key does not begin it anew without a word: `<tenant> 0 <root> 0` → a MessagePack map.

use coppice_messages::{
    Digest, Timestamp,
    event::run::Reason,
    ids::{RunId, TenantId},
};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch};
use serde::{Deserialize, Serialize};

use super::{ReadError, Tables, key, positions};
use crate::ranges::Ranges;

const TRIMMED: &str = "trimmed";

/// The commits that were taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trimmed {
    /// Their positions.
    pub positions: Ranges,
    /// The sum of their hashes.
    pub sum: Digest,
}

impl Default for Trimmed {
    fn default() -> Self {
        Self {
            positions: Ranges::default(),
            sum: Digest::ZERO,
        }
    }
}

/// What is left of a tree that was taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// Whose tree.
    pub tenant: TenantId,
    /// Its root.
    pub root: RunId,
    /// How the root ended.
    pub reason: Reason,
    /// When the last of its runs ended.
    pub ended: Timestamp,
    /// When it was taken out.
    pub trimmed: Timestamp,
}

/// Writes what was taken out.
pub(crate) fn put(
    batch: &mut WriteBatch,
    meta: &Keyspace,
    trimmed: &Trimmed,
) -> Result<(), ReadError> {
    let value =
        rmp_serde::to_vec_named(trimmed).map_err(|_| ReadError::unreadable("what was trimmed"))?;
    batch.insert(meta, TRIMMED, value);
    Ok(())
}

/// What was taken out.
pub(crate) fn get(meta: &Keyspace) -> Result<Trimmed, ReadError> {
    let found = meta.get(TRIMMED)?.map(|value| read(&value));
    Ok(found.transpose()?.unwrap_or_default())
}

/// The same, as it is written.
pub(crate) fn read(value: &[u8]) -> Result<Trimmed, ReadError> {
    rmp_serde::from_slice(value).map_err(|_| ReadError::unreadable("what was trimmed"))
}

/// The last position that the log had come to, whether its commit is still there or not.
pub(crate) fn last_position(tables: &Tables) -> Result<u64, ReadError> {
    let trimmed = get(&tables.meta)?.positions.last();
    Ok(positions::last(&tables.positions)?.max(trimmed.unwrap_or_default()))
}

/// Writes a tombstone.
pub(crate) fn put_tombstone(
    batch: &mut WriteBatch,
    tombstones: &Keyspace,
    tombstone: &Tombstone,
) -> Result<(), ReadError> {
    let value =
        rmp_serde::to_vec_named(tombstone).map_err(|_| ReadError::unreadable("a tombstone"))?;
    batch.insert(
        tombstones,
        key::of_run(&tombstone.tenant, &tombstone.root),
        value,
    );
    Ok(())
}

/// The tombstone of a tree.
pub(crate) fn tombstone(
    tombstones: &Keyspace,
    tenant: &TenantId,
    root: &RunId,
) -> Result<Option<Tombstone>, ReadError> {
    let found = tombstones.get(key::of_run(tenant, root))?;
    found
        .map(|value| {
            rmp_serde::from_slice(&value).map_err(|_| ReadError::unreadable("a tombstone"))
        })
        .transpose()
}
