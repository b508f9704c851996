//! Blobs by tenant and digest. Chunks: `<tenant> 0 <digest> 1 <index>` → bytes. A whole blob has beside them
//! `<tenant> 0 <digest> 0` → `<size> <number of chunks>`; without that entry its chunks are not yet a blob.
//!
//! By tenant, although content-addressed: who knows a digest of another tenant must not get the bytes.

use bytes::{Bytes, BytesMut};
use coppice_messages::{Digest, ids::TenantId};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch};

use super::{ReadError, key};

fn whole_key(tenant: &TenantId, blob: &Digest) -> Vec<u8> {
    let mut key = key::of_tenant(tenant);
    key.extend_from_slice(&blob.0);
    key.push(0);
    key
}

fn chunk_key(tenant: &TenantId, blob: &Digest, index: u32) -> Vec<u8> {
    let mut key = key::of_tenant(tenant);
    key.extend_from_slice(&blob.0);
    key.push(1);
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// Adds a chunk.
pub(crate) fn put_chunk(
    batch: &mut WriteBatch,
    blobs: &Keyspace,
    (tenant, blob, index): (&TenantId, &Digest, u32),
    data: &[u8],
) {
    batch.insert(blobs, chunk_key(tenant, blob, index), data);
}

/// Takes a chunk away.
pub(crate) fn remove_chunk(
    batch: &mut WriteBatch,
    blobs: &Keyspace,
    (tenant, blob, index): (&TenantId, &Digest, u32),
) {
    batch.remove(blobs, chunk_key(tenant, blob, index));
}

/// Says that all chunks of a blob are there.
pub(crate) fn complete(
    batch: &mut WriteBatch,
    blobs: &Keyspace,
    tenant: &TenantId,
    blob: &Digest,
    (bytes, chunks): (u64, u32),
) {
    let mut value = bytes.to_be_bytes().to_vec();
    value.extend_from_slice(&u64::from(chunks).to_be_bytes());
    batch.insert(blobs, whole_key(tenant, blob), value);
}

/// Size and number of chunks of a whole blob.
pub(crate) fn size(
    blobs: &Keyspace,
    tenant: &TenantId,
    blob: &Digest,
) -> Result<Option<(u64, u32)>, ReadError> {
    let Some(value) = blobs.get(whole_key(tenant, blob))? else {
        return Ok(None);
    };
    read_size(&value)
        .map(Some)
        .ok_or_else(|| ReadError::unreadable("a blob's size"))
}

/// Size and number of chunks, as they are written.
pub(crate) fn read_size(value: &[u8]) -> Option<(u64, u32)> {
    let (bytes, rest) = key::first_number(value)?;
    let (chunks, _) = key::first_number(rest)?;
    Some((bytes, u32::try_from(chunks).ok()?))
}

/// Whose blob a key belongs to, and which chunk of it; none is the whole.
pub(crate) fn read_key(key: &[u8]) -> Option<(TenantId, Digest, Option<u32>)> {
    let (tenant, rest) = key::read_tenant(key)?;
    let (digest, kind) = rest.split_first_chunk::<32>()?;
    let index = match kind {
        [0] => None,
        [1, index @ ..] => Some(u32::from_be_bytes(index.try_into().ok()?)),
        _ => return None,
    };
    Some((tenant, Digest(*digest), index))
}

/// One chunk.
pub(crate) fn chunk(
    blobs: &Keyspace,
    tenant: &TenantId,
    blob: &Digest,
    index: u32,
) -> Result<Option<fjall::UserValue>, ReadError> {
    Ok(blobs.get(chunk_key(tenant, blob, index))?)
}

/// A whole blob's bytes, compared with its digest.
pub(crate) fn get(
    blobs: &Keyspace,
    tenant: &TenantId,
    blob: &Digest,
) -> Result<Option<Bytes>, ReadError> {
    let Some((bytes, chunks)) = size(blobs, tenant, blob)? else {
        return Ok(None);
    };
    let mut whole = BytesMut::with_capacity(usize::try_from(bytes).unwrap_or_default());
    for index in 0..chunks {
        let chunk = chunk(blobs, tenant, blob, index)?
            .ok_or_else(|| ReadError::unreadable("a blob, of which a chunk is missing"))?;
        whole.extend_from_slice(&chunk);
    }
    if Digest::of(&whole) == *blob {
        Ok(Some(whole.freeze()))
    } else {
        Err(ReadError::unreadable(
            "a blob, whose bytes do not have its digest",
        ))
    }
}

/// Every whole blob.
pub(crate) fn all(
    blobs: &Keyspace,
) -> impl Iterator<Item = Result<(TenantId, Digest), ReadError>> + Send + 'static {
    blobs.iter().filter_map(|found| {
        let key = match found.key() {
            Ok(key) => key,
            Err(error) => return Some(Err(error.into())),
        };
        let (tenant, digest, chunk) = read_key(&key)?;
        chunk.is_none().then_some(Ok((tenant, digest)))
    })
}
