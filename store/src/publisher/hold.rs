//! What the publisher holds: commits and blobs on their way, each until the recorder has spoken about it. No I/O and no clock in here.
//!
//! Lanes (a tenant's commits, a tenant's blob chunks) take turns, one message each, so that neither a busy tenant nor a large blob holds up others.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    mem,
};

use bytes::Bytes;
use coppice_messages::{Digest, ids::TenantId};

use super::{BlobWaiter, Verdict, Waiter};
use crate::{
    limits::{MESSAGE_COMMITS_MAX, MESSAGE_ENTRY_OVERHEAD},
    subjects::Lane,
    wire::{self, Chunk},
};

struct HeldCommit {
    tenant: TenantId,
    bytes: Bytes,
    first: Waiter,
    // Who submits the same commit again waits with the first.
    more: Vec<Waiter>,
}

struct HeldBlob {
    whole: Bytes,
    waiters: Vec<BlobWaiter>,
}

/// One message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Whose.
    pub tenant: TenantId,
    /// On which of the tenant's subjects.
    pub lane: Lane,
    /// Its bytes.
    pub payload: Bytes,
}

/// Everything held, and what of it is still to be sent.
#[derive(Default)]
pub struct Hold {
    last_ticket: u64,
    commits: BTreeMap<u64, HeldCommit>,
    tickets: HashMap<Digest, u64>,
    blobs: BTreeMap<(TenantId, Digest), HeldBlob>,
    unsent_commits: BTreeMap<TenantId, VecDeque<u64>>,
    unsent_chunks: BTreeMap<TenantId, VecDeque<(Digest, u32)>>,
    turns: VecDeque<(TenantId, Lane)>,
}

impl Hold {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty() && self.blobs.is_empty()
    }

    /// Commits and blobs held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commits.len() + self.blobs.len()
    }

    /// Holds a commit until the recorder speaks about it. `hash` is the SHA-256 of `bytes`.
    pub fn add_commit(&mut self, tenant: TenantId, bytes: Bytes, hash: Digest, waiter: Waiter) {
        if let Some(held) = self
            .tickets
            .get(&hash)
            .and_then(|ticket| self.commits.get_mut(ticket))
        {
            held.more.push(waiter);
            return;
        }
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.tickets.insert(hash, ticket);
        self.queue_commit(&tenant, ticket);
        self.commits.insert(
            ticket,
            HeldCommit {
                tenant,
                bytes,
                first: waiter,
                more: Vec::new(),
            },
        );
    }

    /// Holds a blob until the recorder has it.
    pub fn add_blob(&mut self, tenant: TenantId, blob: Digest, whole: Bytes, waiter: BlobWaiter) {
        let key = (tenant, blob);
        if let Some(held) = self.blobs.get_mut(&key) {
            held.waiters.push(waiter);
            return;
        }
        self.queue_chunks(&key.0, blob, whole.len());
        self.blobs.insert(
            key,
            HeldBlob {
                whole,
                waiters: vec![waiter],
            },
        );
    }

    fn queue_commit(&mut self, tenant: &TenantId, ticket: u64) {
        if let Some(queue) = self.unsent_commits.get_mut(tenant) {
            if queue.is_empty() {
                self.turns.push_back((tenant.clone(), Lane::Commits));
            }
            queue.push_back(ticket);
        } else {
            self.turns.push_back((tenant.clone(), Lane::Commits));
            self.unsent_commits
                .insert(tenant.clone(), VecDeque::from([ticket]));
        }
    }

    fn queue_chunks(&mut self, tenant: &TenantId, blob: Digest, bytes: usize) {
        let queue = self.unsent_chunks.entry(tenant.clone()).or_default();
        if queue.is_empty() {
            self.turns.push_back((tenant.clone(), Lane::Chunks));
        }
        queue.extend((0..Chunk::count(bytes)).map(|index| (blob, index)));
    }

    /// The next message, of at most `bytes_max` bytes, if anything is unsent.
    pub fn next_message(&mut self, bytes_max: usize) -> Option<Outgoing> {
        while let Some((tenant, lane)) = self.turns.pop_front() {
            let (payload, left) = match lane {
                Lane::Commits => self.next_commits(&tenant, bytes_max),
                Lane::Chunks => self.next_chunk(&tenant),
            };
            if left {
                self.turns.push_back((tenant.clone(), lane));
            }
            if let Some(payload) = payload {
                return Some(Outgoing {
                    tenant,
                    lane,
                    payload,
                });
            }
        }
        None
    }

    /// A message of commits, if there is one, and whether commits are left.
    fn next_commits(&mut self, tenant: &TenantId, bytes_max: usize) -> (Option<Bytes>, bool) {
        let Some(queue) = self.unsent_commits.get_mut(tenant) else {
            return (None, false);
        };
        let mut taken = Vec::new();
        let mut size = MESSAGE_ENTRY_OVERHEAD;
        while let Some(ticket) = queue.front() {
            // What the recorder spoke about in the meantime (sent before a reconnection, say) is not held any more.
            if let Some(held) = self.commits.get(ticket) {
                let more = held.bytes.len() + MESSAGE_ENTRY_OVERHEAD;
                let full = size + more > bytes_max || taken.len() == MESSAGE_COMMITS_MAX;
                if full && !taken.is_empty() {
                    break;
                }
                size += more;
                taken.push(held.bytes.clone());
            }
            queue.pop_front();
        }
        let payload = (!taken.is_empty()).then(|| wire::encode_commits(&taken));
        (payload, !queue.is_empty())
    }

    /// A message of one chunk, if there is one, and whether chunks are left.
    fn next_chunk(&mut self, tenant: &TenantId) -> (Option<Bytes>, bool) {
        let Some(queue) = self.unsent_chunks.get_mut(tenant) else {
            return (None, false);
        };
        while let Some((blob, index)) = queue.pop_front() {
            if let Some(held) = self.blobs.get(&(tenant.clone(), blob)) {
                let payload = Chunk::of(blob, &held.whole, index).encode();
                return (Some(payload), !queue.is_empty());
            }
        }
        (None, false)
    }

    /// Everything held is to be sent again, unchanged and in the order in which it came.
    pub fn send_again(&mut self) {
        self.unsent_commits.clear();
        self.unsent_chunks.clear();
        self.turns.clear();
        let commits: Vec<_> = self
            .commits
            .iter()
            .map(|(ticket, held)| (held.tenant.clone(), *ticket))
            .collect();
        for (tenant, ticket) in commits {
            self.queue_commit(&tenant, ticket);
        }
        let blobs: Vec<_> = self
            .blobs
            .iter()
            .map(|((tenant, blob), held)| (tenant.clone(), *blob, held.whole.len()))
            .collect();
        for (tenant, blob, bytes) in blobs {
            self.queue_chunks(&tenant, blob, bytes);
        }
    }

    /// The recorder spoke about a commit: who waits for it is returned, to be told outside of any lock.
    pub fn release_commit(
        &mut self,
        hash: &Digest,
        told: &mut Vec<(Waiter, Verdict)>,
        verdict: &Verdict,
    ) {
        let Some(ticket) = self.tickets.remove(hash) else {
            return;
        };
        if let Some(held) = self.commits.remove(&ticket) {
            told.push((held.first, verdict.clone()));
            told.extend(held.more.into_iter().map(|w| (w, verdict.clone())));
        }
    }

    /// The recorder spoke about a blob.
    pub fn release_blob(&mut self, tenant: &TenantId, blob: Digest) -> Vec<BlobWaiter> {
        self.blobs
            .remove(&(tenant.clone(), blob))
            .map(|held| held.waiters)
            .unwrap_or_default()
    }

    /// Lets go of everything.
    pub fn abandon(&mut self) -> (Vec<Waiter>, Vec<BlobWaiter>) {
        let held = mem::take(self);
        let mut waiters = Vec::new();
        for commit in held.commits.into_values() {
            waiters.push(commit.first);
            waiters.extend(commit.more);
        }
        let blobs = held.blobs.into_values().flat_map(|b| b.waiters).collect();
        (waiters, blobs)
    }
}

#[cfg(test)]
mod tests;
