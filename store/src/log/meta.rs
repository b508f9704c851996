//! Facts about the log as a whole: how far the stream was read, and what of the log the stream lost and does not have again yet.

use coppice_messages::{Digest, ids::TenantId};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch};
use serde::{Deserialize, Serialize};

use super::{ReadError, key};
use crate::ranges::Ranges;

const STREAM: &str = "stream";
const LOST: &str = "lost";
const TOTAL: &str = "total";
const RUNS_LISTED: &str = "runs_listed";
const RESTORED: &str = "restored";

/// The log's account of all that was ever written to it; compared with its high-water mark (`mark.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Total {
    /// The last position.
    pub pos: u64,
    /// Writes.
    pub writes: u64,
    /// The sum of the hashes of all commits.
    pub sum: Digest,
    /// Commits that were taken out again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trimmed: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks with a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Writes the account; belongs in every batch.
pub(crate) fn put_total(
    batch: &mut WriteBatch,
    meta: &Keyspace,
    total: &Total,
) -> Result<(), ReadError> {
    let value = rmp_serde::to_vec_named(total)
        .map_err(|_| ReadError::unreadable("the log's account of itself"))?;
    batch.insert(meta, TOTAL, value);
    Ok(())
}

/// The account.
pub(crate) fn total(meta: &Keyspace) -> Result<Total, ReadError> {
    let Some(value) = meta.get(TOTAL)? else {
        return Ok(Total::default());
    };
    rmp_serde::from_slice(&value).map_err(|_| ReadError::unreadable("the log's account of itself"))
}

/// Every run is listed by its tree and, while it has not ended, as unfinished.
pub(super) fn put_runs_listed(batch: &mut WriteBatch, meta: &Keyspace) {
    batch.insert(meta, RUNS_LISTED, []);
}

/// Whether every run is listed.
pub(super) fn are_runs_listed(meta: &Keyspace) -> Result<bool, ReadError> {
    Ok(meta.contains_key(RUNS_LISTED)?)
}

/// Notes that what was done outside after this position may be unknown: the log was restored from a copy that ends there.
pub(crate) fn put_restored(batch: &mut WriteBatch, meta: &Keyspace, pos: u64) {
    batch.insert(meta, RESTORED, pos.to_be_bytes());
}

/// Where the copy ended from which the log was restored, if it was.
pub(crate) fn restored(meta: &Keyspace) -> Result<Option<u64>, ReadError> {
    let value = meta.get(RESTORED)?;
    value
        .map(|value| {
            key::last_number(&value)
                .ok_or_else(|| ReadError::unreadable("where the log was restored"))
        })
        .transpose()
}

/// The last message of the stream whose commits are in the log, and how to know it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// Its number; 0 before the first.
    pub seq: u64,
    /// When the stream was created, in nanoseconds: another stream of the same name has another.
    pub created: i64,
}

/// Writes the position; belongs in the same batch as the commits.
pub(crate) fn put_stream(
    batch: &mut WriteBatch,
    meta: &Keyspace,
    position: &StreamPosition,
) -> Result<(), ReadError> {
    let value = rmp_serde::to_vec_named(position)
        .map_err(|_| ReadError::unreadable("the stream's position"))?;
    batch.insert(meta, STREAM, value);
    Ok(())
}

/// How far the stream was read.
pub(crate) fn stream(meta: &Keyspace) -> Result<Option<StreamPosition>, ReadError> {
    meta.get(STREAM)?
        .map(|value| {
            rmp_serde::from_slice(&value)
                .map_err(|_| ReadError::unreadable("the stream's position"))
        })
        .transpose()
}

/// What of the log the stream lost, until it was read from the stream again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Lost {
    /// Positions of commits.
    pub positions: Ranges,
    /// Blobs, in the order in which the stream first had them.
    pub blobs: Vec<(TenantId, Digest)>,
    /// The last message that the stream had when the loss was noticed: what is first read up to there came before what is put back.
    pub until: u64,
}

impl Lost {
    /// Whether the stream has everything.
    pub fn is_nothing(&self) -> bool {
        self.positions.is_empty() && self.blobs.is_empty()
    }
}

/// Writes what the stream lost.
pub(crate) fn put_lost(
    batch: &mut WriteBatch,
    meta: &Keyspace,
    lost: &Lost,
) -> Result<(), ReadError> {
    let value =
        rmp_serde::to_vec_named(lost).map_err(|_| ReadError::unreadable("what the stream lost"))?;
    batch.insert(meta, LOST, value);
    Ok(())
}

/// The stream has everything again.
pub(crate) fn remove_lost(batch: &mut WriteBatch, meta: &Keyspace) {
    batch.remove(meta, LOST);
}

/// What the stream lost.
pub(crate) fn lost(meta: &Keyspace) -> Result<Option<Lost>, ReadError> {
    meta.get(LOST)?
        .map(|value| {
            rmp_serde::from_slice(&value).map_err(|_| ReadError::unreadable("what the stream lost"))
        })
        .transpose()
}
