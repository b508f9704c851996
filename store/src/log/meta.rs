//! Facts about the log as a whole; so far one: how far the stream was read.

use coppice_messages::Digest;
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch};
use serde::{Deserialize, Serialize};

use super::ReadError;

const STREAM: &str = "stream";

/// The last message of the stream whose commits are in the log, and how to know it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// Its number; 0 before the first.
    pub seq: u64,
    /// SHA-256 of its payload.
    pub digest: Digest,
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
