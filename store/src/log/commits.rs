//! Commits by run: `<tenant> 0 <run> 0 <seq of the first event>` → `<position> <the commit's bytes>`.

use bytes::Bytes;
use coppice_messages::ids::{RunId, TenantId};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch};

use super::{ReadError, key};

/// A recorded commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its position in the log.
    pub pos: u64,
    /// Number of its first event.
    pub seq: u64,
    /// Its bytes, over which its hash is made.
    pub bytes: Bytes,
}

fn full_key(tenant: &TenantId, run: &RunId, seq: u64) -> Vec<u8> {
    let mut key = key::of_run(tenant, run);
    key.extend_from_slice(&seq.to_be_bytes());
    key
}

/// Adds a commit and returns its key.
pub(crate) fn put(
    batch: &mut WriteBatch,
    commits: &Keyspace,
    (tenant, run, seq): (&TenantId, &RunId, u64),
    pos: u64,
    bytes: &[u8],
) -> Vec<u8> {
    let key = full_key(tenant, run, seq);
    let mut value = Vec::with_capacity(8 + bytes.len());
    value.extend_from_slice(&pos.to_be_bytes());
    value.extend_from_slice(bytes);
    batch.insert(commits, key.as_slice(), value);
    key
}

fn read(key: &[u8], value: &[u8]) -> Result<Recorded, ReadError> {
    let seq = key::last_number(key).ok_or_else(|| ReadError::unreadable("a commit's key"))?;
    let (pos, bytes) =
        key::first_number(value).ok_or_else(|| ReadError::unreadable("a commit's position"))?;
    Ok(Recorded {
        pos,
        seq,
        bytes: Bytes::copy_from_slice(bytes),
    })
}

/// The commit with this key.
pub(crate) fn at_key(commits: &Keyspace, key: &[u8]) -> Result<Option<Recorded>, ReadError> {
    commits.get(key)?.map(|value| read(key, &value)).transpose()
}

/// The commit that holds event number `seq`, if the chain reaches that far or ends before it: its last commit that begins at or before `seq`.
pub(crate) fn at_or_before(
    commits: &Keyspace,
    tenant: &TenantId,
    run: &RunId,
    seq: u64,
) -> Result<Option<Recorded>, ReadError> {
    let range = full_key(tenant, run, 0)..=full_key(tenant, run, seq);
    let Some(found) = commits.range(range).next_back() else {
        return Ok(None);
    };
    let (key, value) = found.into_inner()?;
    read(&key, &value).map(Some)
}

/// A run's commits, from the one that begins at or after `from`.
pub(crate) fn chain(
    commits: &Keyspace,
    tenant: &TenantId,
    run: &RunId,
    from: u64,
) -> impl Iterator<Item = Result<Recorded, ReadError>> + Send + 'static {
    commits
        .range(full_key(tenant, run, from)..=full_key(tenant, run, u64::MAX))
        .map(|found| {
            let (key, value) = found.into_inner()?;
            read(&key, &value)
        })
}

/// Every commit, by tenant, run and number.
pub(crate) fn all(
    commits: &Keyspace,
) -> impl Iterator<Item = Result<(TenantId, RunId, Recorded), ReadError>> + Send + 'static {
    commits.iter().map(|found| {
        let (key, value) = found.into_inner()?;
        let (tenant, run) =
            key::read_run(&key).ok_or_else(|| ReadError::unreadable("a commit's key"))?;
        Ok((tenant, run, read(&key, &value)?))
    })
}
