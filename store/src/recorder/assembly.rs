//! Blobs that arrive in chunks. Each chunk goes into the log as it comes; the blob counts once all are there and have its digest.

use std::collections::HashMap;

use coppice_messages::{Digest, ids::TenantId};
use fjall::OwnedWriteBatch as WriteBatch;
use sha2::Digest as _;

use crate::{
    log::{ReadError, Tables, blobs},
    wire::Chunk,
};

/// Blobs of which some chunks have come.
#[derive(Default)]
pub(super) struct Assembly {
    partial: HashMap<(TenantId, Digest), Partial>,
}

struct Partial {
    next: u32,
    hasher: sha2::Sha256,
}

/// What became of a chunk.
pub(super) enum Took {
    /// The blob is not whole yet, or the chunk was there already.
    Part,
    /// The blob is whole.
    Whole(Digest),
    /// The chunks together do not have the blob's digest.
    Nothing,
}

impl Assembly {
    /// Takes one chunk in.
    pub fn take(
        &mut self,
        tables: &Tables,
        write: &mut WriteBatch,
        tenant: &TenantId,
        chunk: &Chunk<'_>,
    ) -> Result<Took, ReadError> {
        if blobs::size(&tables.blobs, tenant, &chunk.blob)?.is_some() {
            return Ok(Took::Whole(chunk.blob));
        }
        let key = (tenant.clone(), chunk.blob);
        if !self.partial.contains_key(&key) {
            let found = resume(tables, tenant, &chunk.blob)?;
            self.partial.insert(key.clone(), found);
        }
        let Some(partial) = self.partial.get_mut(&key) else {
            return Ok(Took::Part);
        };
        // Chunks come in order, and again from the first after a reconnection.
        if chunk.index != partial.next {
            return Ok(Took::Part);
        }
        partial.next += 1;
        partial.hasher.update(chunk.data);
        let place = (tenant, &chunk.blob, chunk.index);
        blobs::put_chunk(write, &tables.blobs, place, chunk.data);
        if !chunk.is_last() {
            return Ok(Took::Part);
        }
        let Some(whole) = self.partial.remove(&key) else {
            return Ok(Took::Part);
        };
        if Digest(whole.hasher.finalize().into()) != chunk.blob {
            for index in 0..whole.next {
                blobs::remove_chunk(write, &tables.blobs, (tenant, &chunk.blob, index));
            }
            return Ok(Took::Nothing);
        }
        let size = (chunk.bytes, whole.next);
        blobs::complete(write, &tables.blobs, tenant, &chunk.blob, size);
        Ok(Took::Whole(chunk.blob))
    }
}

/// Takes up the chunks that an earlier host recorded.
fn resume(tables: &Tables, tenant: &TenantId, blob: &Digest) -> Result<Partial, ReadError> {
    let mut partial = Partial {
        next: 0,
        hasher: sha2::Sha256::new(),
    };
    while let Some(chunk) = blobs::chunk(&tables.blobs, tenant, blob, partial.next)? {
        partial.hasher.update(&chunk);
        partial.next += 1;
    }
    Ok(partial)
}

#[cfg(test)]
mod tests;
