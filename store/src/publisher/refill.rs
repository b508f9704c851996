//! What a stream that went back must get again: commits of the log by position, and blobs; sent before anything new. No I/O and no clock in
//! here: what is sent is asked of a [`Source`].
//!
//! All blobs go first, so that each is there before the commits that cite it; then the commits in the log's order. Like what the publisher
//! holds, each is kept until the recorder has read it from the stream; an acknowledgement frees nothing.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use coppice_messages::{Digest, ids::TenantId};

use super::hold::Outgoing;
use crate::{
    limits::{MESSAGE_COMMITS_MAX, MESSAGE_ENTRY_OVERHEAD},
    log::meta::Lost,
    ranges::Ranges,
    subjects::Lane,
    wire::{self, Chunk},
};

/// Where the bytes are.
pub trait Source {
    /// The commit at a position.
    fn commit(&self, pos: u64) -> Option<(TenantId, Bytes)>;
    /// A whole blob.
    fn blob(&self, tenant: &TenantId, blob: &Digest) -> Option<Bytes>;
}

/// What is still to be read from the stream again, and how far it was sent.
#[derive(Debug, Default)]
pub struct Refill {
    positions: Ranges,
    blobs: BTreeMap<u64, (TenantId, Digest)>,
    places: HashMap<(TenantId, Digest), u64>,
    until: u64,
    /// The next blob to send, and the next chunk of it.
    next_blob: u64,
    next_chunk: u32,
    /// The blob of which chunks are being sent.
    whole: Option<(u64, Bytes)>,
    /// The next commit to send.
    next_pos: u64,
    /// From this position on the log is only about to have the commits.
    unwritten: Option<u64>,
    /// Of the positions and of the blobs those that could not be read.
    unreadable: Ranges,
    unreadable_blobs: Ranges,
}

impl Refill {
    /// What a stream lost, to be sent from its beginning.
    #[must_use]
    pub fn new(positions: Ranges, blobs: Vec<(TenantId, Digest)>, until: u64) -> Self {
        let blobs: BTreeMap<_, _> = (0..).zip(blobs).collect();
        let places = blobs.iter().map(|(n, key)| (key.clone(), *n)).collect();
        Self {
            positions,
            blobs,
            places,
            until,
            ..Self::default()
        }
    }

    pub(crate) fn of(lost: Lost) -> Self {
        Self::new(lost.positions, lost.blobs, lost.until)
    }

    pub(crate) fn lost(&self) -> Lost {
        Lost {
            positions: self.positions.clone(),
            blobs: self.blobs.values().cloned().collect(),
            until: self.until,
        }
    }

    /// Whether the stream has everything again.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.blobs.is_empty()
    }

    /// Whether nothing new is sent yet: what others publish until the stream has everything may have to be sent once more, and something new in
    /// front of that could take its place in its chain. What cannot be read holds nothing up.
    #[must_use]
    pub fn holds_up(&self) -> bool {
        self.positions.count() > self.unreadable.count()
            || self
                .blobs
                .keys()
                .any(|place| !self.unreadable_blobs.contains(*place))
    }

    /// Commits and blobs that the stream does not have again yet.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.positions.count() + self.blobs.len() as u64
    }

    /// A commit was read from message `message` and is in the log at `pos`. One that is new there follows from those at `follows`. If it lies
    /// in the stream in front of what it follows from, because it was published before the loss was noticed or by somebody else, it is sent
    /// once more, behind it. Says whether it was added.
    pub fn read_commit(&mut self, message: u64, pos: u64, follows: &[u64]) -> bool {
        let lost = follows.iter().any(|pos| self.positions.contains(*pos));
        if lost {
            self.positions.insert(pos);
            self.unwritten.get_or_insert(pos);
        } else if message > self.until {
            self.positions.remove(pos);
            self.unreadable.remove(pos);
        }
        lost
    }

    /// The log has what was read.
    pub fn written(&mut self) {
        self.unwritten = None;
    }

    /// The last chunk of a whole blob was read from message `message`.
    pub fn read_blob(&mut self, message: u64, key: &(TenantId, Digest)) {
        if message > self.until
            && let Some(place) = self.places.remove(key)
        {
            self.blobs.remove(&place);
        }
    }

    /// What is left is to be sent again from its beginning.
    pub fn send_again(&mut self) {
        self.next_blob = 0;
        self.next_chunk = 0;
        self.whole = None;
        self.next_pos = 0;
    }

    /// The next message, of at most `bytes_max` bytes, if anything is unsent.
    pub fn next_message(&mut self, source: &impl Source, bytes_max: usize) -> Option<Outgoing> {
        self.next_blob(source)
            .or_else(|| self.next_commits(source, bytes_max))
    }

    fn next_blob(&mut self, source: &impl Source) -> Option<Outgoing> {
        loop {
            let (place, (tenant, blob)) = self.blobs.range(self.next_blob..).next()?;
            let place = *place;
            if self.whole.as_ref().is_none_or(|(of, _)| *of != place) {
                self.next_chunk = 0;
                self.whole = source.blob(tenant, blob).map(|bytes| (place, bytes));
                if self.whole.is_none() {
                    self.unreadable_blobs.insert(place);
                }
            }
            let chunk = self.whole.as_ref().and_then(|(_, bytes)| {
                (self.next_chunk < Chunk::count(bytes.len()))
                    .then(|| Chunk::of(*blob, bytes, self.next_chunk))
            });
            let Some(chunk) = chunk else {
                // It is sent to its end, or cannot be read: a damaged blob is for whoever reads it to name.
                self.next_blob = place + 1;
                self.whole = None;
                continue;
            };
            let message = Outgoing {
                tenant: tenant.clone(),
                lane: Lane::Chunks,
                payload: chunk.encode(),
            };
            self.next_chunk += 1;
            return Some(message);
        }
    }

    /// As many commits of one tenant as follow each other.
    fn next_commits(&mut self, source: &impl Source, bytes_max: usize) -> Option<Outgoing> {
        let mut of: Option<TenantId> = None;
        let mut taken = Vec::new();
        let mut size = MESSAGE_ENTRY_OVERHEAD;
        while let Some(pos) = self.positions.next_from(self.next_pos) {
            if self.unwritten.is_some_and(|unwritten| pos >= unwritten) {
                break;
            }
            let Some((tenant, bytes)) = source.commit(pos) else {
                self.unreadable.insert(pos);
                self.next_pos = pos + 1;
                continue;
            };
            let more = bytes.len() + MESSAGE_ENTRY_OVERHEAD;
            let full = size + more > bytes_max || taken.len() == MESSAGE_COMMITS_MAX;
            if !taken.is_empty() && (full || of.as_ref() != Some(&tenant)) {
                break;
            }
            size += more;
            taken.push(bytes);
            of = Some(tenant);
            self.next_pos = pos + 1;
        }
        of.map(|tenant| Outgoing {
            tenant,
            lane: Lane::Commits,
            payload: wire::encode_commits(&taken),
        })
    }
}

#[cfg(test)]
mod tests;
