//! The order of the whole log: `<position>` → key of the commit. Positions begin at 1 and have no gaps.

use fjall::{Keyspace, OwnedWriteBatch as WriteBatch, Slice};

use super::{ReadError, key};

/// Gives a commit its position.
pub(crate) fn put(batch: &mut WriteBatch, positions: &Keyspace, pos: u64, commit_key: Slice) {
    batch.insert(positions, pos.to_be_bytes(), commit_key);
}

/// The last position, 0 in an empty log.
pub(crate) fn last(positions: &Keyspace) -> Result<u64, ReadError> {
    let Some(last) = positions.last_key_value() else {
        return Ok(0);
    };
    key::last_number(&last.key()?).ok_or_else(|| ReadError::unreadable("a position"))
}

/// Positions from `from` on, each with its commit's key.
pub(crate) fn from(
    positions: &Keyspace,
    from: u64,
) -> impl Iterator<Item = Result<(u64, fjall::UserKey), ReadError>> + Send + 'static {
    positions.range(from.to_be_bytes()..).map(|found| {
        let (pos, commit_key) = found.into_inner()?;
        let pos = key::last_number(&pos).ok_or_else(|| ReadError::unreadable("a position"))?;
        Ok((pos, commit_key))
    })
}
