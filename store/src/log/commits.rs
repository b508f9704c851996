//! Commits by run: `<tenant> 0 <run> 0 <seq of the first event>` → `<position> <SHA-256 of the bytes> <the commit's bytes>`.
//!
//! The hash stands beside the bytes, so that an altered commit is known by itself, also the last of a chain, which no other cites. The end of
//! a chain is its last commit; there is no second account of it that each commit would have to write.

use std::io::Read as _;

use bytes::Bytes;
use coppice_messages::{
    Digest, Header,
    ids::{RunId, TenantId},
};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch, Slice};

use super::{ReadError, key};
use crate::admission::{Head, Stored};

/// A recorded commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its position in the log.
    pub pos: u64,
    /// Number of its first event.
    pub seq: u64,
    /// SHA-256 of its bytes, as it was when they were recorded.
    pub hash: Digest,
    /// Its bytes.
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
    (pos, hash): (u64, &Digest),
    bytes: &[u8],
) -> Result<Slice, ReadError> {
    let key = Slice::from(full_key(tenant, run, seq));
    let pos = pos.to_be_bytes();
    let mut parts = pos.chain(&hash.0[..]).chain(bytes);
    let value = Slice::from_reader(&mut parts, pos.len() + hash.0.len() + bytes.len())
        .map_err(fjall::Error::from)?;
    batch.insert(commits, key.clone(), value);
    Ok(key)
}

pub(crate) fn read(key: &[u8], value: &[u8]) -> Result<Recorded, ReadError> {
    let parts = || {
        let seq = key::last_number(key)?;
        let (pos, rest) = key::first_number(value)?;
        let (hash, bytes) = rest.split_first_chunk::<32>()?;
        Some(Recorded {
            pos,
            seq,
            hash: Digest(*hash),
            bytes: Bytes::copy_from_slice(bytes),
        })
    };
    parts().ok_or_else(|| ReadError::unreadable("a commit"))
}

/// The commit with this key.
pub(crate) fn at_key(commits: &Keyspace, key: &[u8]) -> Result<Option<Recorded>, ReadError> {
    commits.get(key)?.map(|value| read(key, &value)).transpose()
}

/// A chain's last commit that begins at or before event number `seq`.
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

/// Whether a chain has a first commit.
pub(crate) fn begins(
    commits: &Keyspace,
    tenant: &TenantId,
    run: &RunId,
) -> Result<bool, ReadError> {
    Ok(commits.contains_key(full_key(tenant, run, 1))?)
}

/// A chain's last commit, whatever its bytes are.
pub(crate) fn last(
    commits: &Keyspace,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<Recorded>, ReadError> {
    at_or_before(commits, tenant, run, u64::MAX)
}

/// The same, as admission sees it.
pub(crate) fn stored(
    commits: &Keyspace,
    tenant: &TenantId,
    run: &RunId,
    seq: u64,
) -> Result<Option<Stored>, ReadError> {
    let Some(found) = at_or_before(commits, tenant, run, seq)? else {
        return Ok(None);
    };
    let header =
        Header::decode(&found.bytes).map_err(|_| ReadError::unreadable("a commit of a chain"))?;
    Ok(Some(Stored {
        pos: found.pos,
        hash: found.hash,
        seq: found.seq,
        kinds: header.events.into_iter().map(|e| e.kind).collect(),
    }))
}

/// The end of a run's chain.
pub(crate) fn head(
    commits: &Keyspace,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<Head>, ReadError> {
    // Most who ask for a run that is not there are about to make it: a look-up by key costs them less than a range.
    if !begins(commits, tenant, run)? {
        return Ok(None);
    }
    let Some(last) = last(commits, tenant, run)? else {
        return Ok(None);
    };
    let header = Header::decode(&last.bytes)
        .map_err(|_| ReadError::unreadable("the last commit of a chain"))?;
    Ok(Some(Head {
        next_seq: header.next_seq(),
        tree: header.tree,
        seq: last.seq,
        epoch: header.epoch,
        hash: last.hash,
        pos: last.pos,
    }))
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
