//! The simulated log: one batch and one fsync at a time; what was not fsynced is gone after a crash.

use std::collections::BTreeMap;

use bytes::Bytes;
use coppice_messages::{
    Blobs, Digest, Header, Value,
    commit::DecodeError,
    ids::{RunId, TenantId},
};
use coppice_store::{
    Lane, Verdict,
    admission::{self, Head, Outcome, Reason, Stored, View},
    log::StreamPosition,
    wire::{self, Chunk},
};

use super::stream::Message;

type RunKey = (TenantId, RunId);

/// A commit in the log.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Its position in the whole log.
    pub pos: u64,
    /// SHA-256 of its bytes.
    pub hash: Digest,
    /// As encoded.
    pub bytes: Bytes,
    header: Header,
}

impl Recorded {
    /// The run whose chain it is in.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.header.run
    }
}

/// The log: what is fsynced.
#[derive(Debug, Clone, Default)]
pub struct Log {
    commits: Vec<(RunKey, usize)>,
    chains: BTreeMap<RunKey, Vec<Recorded>>,
    heads: BTreeMap<RunKey, Head>,
    blobs: BTreeMap<(TenantId, Digest), Vec<u8>>,
    partial: BTreeMap<(TenantId, Digest), (u32, Vec<u8>)>,
    position: Option<StreamPosition>,
    messages: BTreeMap<u64, Digest>,
    /// Commits ever refused.
    pub quarantined: u64,
}

impl Log {
    /// How far the stream was read.
    #[must_use]
    pub fn position(&self) -> Option<StreamPosition> {
        self.position
    }

    /// By what a message that was read is known again.
    #[must_use]
    pub fn message(&self, seq: u64) -> Option<Digest> {
        self.messages.get(&seq).copied()
    }

    /// Commits in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commits.len()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// All commits in the order of the log.
    pub fn all(&self) -> impl Iterator<Item = &Recorded> {
        self.commits
            .iter()
            .filter_map(|(key, at)| self.chains.get(key)?.get(*at))
    }

    /// The commits of one run.
    #[must_use]
    pub fn chain(&self, tenant: &TenantId, run: &RunId) -> &[Recorded] {
        self.chains
            .get(&(tenant.clone(), run.clone()))
            .map_or(&[], Vec::as_slice)
    }

    /// The end of one run's chain.
    #[must_use]
    pub fn head(&self, tenant: &TenantId, run: &RunId) -> Option<&Head> {
        self.heads.get(&(tenant.clone(), run.clone()))
    }

    /// Whether the blob is whole.
    #[must_use]
    pub fn has_blob(&self, tenant: &TenantId, blob: &Digest) -> bool {
        self.blobs.contains_key(&(tenant.clone(), *blob))
    }

    /// The blobs of one tenant.
    #[must_use]
    pub fn blobs_of<'a>(&'a self, tenant: &'a TenantId) -> TenantBlobs<'a> {
        TenantBlobs { log: self, tenant }
    }

    /// Begins a batch. One at a time.
    #[must_use]
    pub fn batch(&self) -> Batch {
        Batch {
            admitted: Vec::new(),
            heads: BTreeMap::new(),
            blobs: Vec::new(),
            partial: self.partial.clone(),
            position: None,
            messages: BTreeMap::new(),
            quarantined: 0,
            verdicts: Vec::new(),
        }
    }

    /// The batch is fsynced: all of it is in the log.
    pub fn sync(&mut self, batch: Batch) -> Synced {
        let mut synced = Synced {
            admitted: Vec::new(),
            verdicts: batch.verdicts,
            blobs: Vec::new(),
        };
        for (key, recorded) in batch.admitted {
            let chain = self.chains.entry(key.clone()).or_default();
            self.commits.push((key, chain.len()));
            synced.admitted.push(recorded.clone());
            chain.push(recorded);
        }
        self.heads.extend(batch.heads);
        for (key, whole) in batch.blobs {
            synced.blobs.push(key.clone());
            self.blobs.insert(key, whole);
        }
        self.partial = batch.partial;
        self.position = batch.position.or(self.position);
        self.messages.extend(batch.messages);
        self.quarantined += batch.quarantined;
        synced
    }
}

/// Blobs of one tenant.
pub struct TenantBlobs<'a> {
    log: &'a Log,
    tenant: &'a TenantId,
}

impl Blobs for TenantBlobs<'_> {
    fn value(&self, digest: &Digest) -> Option<Value> {
        let bytes = self.log.blobs.get(&(self.tenant.clone(), *digest))?;
        Value::parse(bytes).ok()
    }
}

/// What a batch brought.
pub struct Synced {
    /// In the order of the log.
    pub admitted: Vec<Recorded>,
    /// What is to be told about which commit.
    pub verdicts: Vec<(Digest, Verdict)>,
    /// Blobs that are whole now.
    pub blobs: Vec<(TenantId, Digest)>,
}

/// A batch that is being gathered or fsynced.
#[derive(Debug)]
pub struct Batch {
    admitted: Vec<(RunKey, Recorded)>,
    heads: BTreeMap<RunKey, Head>,
    blobs: Vec<((TenantId, Digest), Vec<u8>)>,
    partial: BTreeMap<(TenantId, Digest), (u32, Vec<u8>)>,
    position: Option<StreamPosition>,
    messages: BTreeMap<u64, Digest>,
    quarantined: u64,
    verdicts: Vec<(Digest, Verdict)>,
}

/// What admission sees: the log and the batch under way.
struct Overlay<'a> {
    log: &'a Log,
    batch: &'a Batch,
}

impl View for Overlay<'_> {
    type Error = std::convert::Infallible;

    fn head(&mut self, tenant: &TenantId, run: &RunId) -> Result<Option<Head>, Self::Error> {
        let key = (tenant.clone(), run.clone());
        let found = self.batch.heads.get(&key);
        Ok(found.or_else(|| self.log.heads.get(&key)).cloned())
    }

    fn holding(
        &mut self,
        tenant: &TenantId,
        run: &RunId,
        seq: u64,
    ) -> Result<Option<Stored>, Self::Error> {
        let key = (tenant.clone(), run.clone());
        let pending = self.batch.admitted.iter().filter(|(of, _)| *of == key);
        let mut all = pending
            .map(|(_, recorded)| recorded)
            .chain(self.log.chains.get(&key).into_iter().flatten());
        let found =
            all.find(|recorded| (recorded.header.seq..recorded.header.next_seq()).contains(&seq));
        Ok(found.map(|recorded| Stored {
            pos: recorded.pos,
            hash: recorded.hash,
            seq: recorded.header.seq,
            kinds: recorded
                .header
                .events
                .iter()
                .map(|e| e.kind.clone())
                .collect(),
        }))
    }
}

impl Batch {
    /// Takes in one message of the stream. As the recorder does: admission for commits, assembly for chunks.
    pub fn take(&mut self, log: &Log, seq: u64, created: i64, message: &Message) {
        match message.lane {
            Lane::Commits => match wire::decode_commits(&message.payload) {
                Ok(commits) => {
                    for bytes in commits {
                        self.take_commit(log, &message.tenant, bytes);
                    }
                }
                Err(_) => self.quarantined += 1,
            },
            Lane::Chunks => self.take_chunk(log, message),
        }
        let digest = wire::message_digest(Some(message.lane), &message.payload);
        self.messages.insert(seq, digest);
        self.position = Some(StreamPosition { seq, created });
    }

    fn take_commit(&mut self, log: &Log, tenant: &TenantId, bytes: Bytes) {
        let hash = Digest::of(&bytes);
        let header = match Header::decode(&bytes) {
            Ok(header) => header,
            Err(
                DecodeError::NewerFormat { .. }
                | DecodeError::Malformed { .. }
                | DecodeError::TrailingBytes { .. },
            ) => return self.refuse(hash, Reason::Malformed),
        };
        let mut view = Overlay { log, batch: self };
        let Ok(outcome) = admission::admit(&mut view, tenant, &bytes, hash, &header);
        match outcome {
            Outcome::Admitted(mut head) => {
                let pos = (log.commits.len() + self.admitted.len()) as u64 + 1;
                head.pos = pos;
                let key = (header.tenant.clone(), header.run.clone());
                self.heads.insert(key.clone(), head);
                self.admitted.push((
                    key,
                    Recorded {
                        pos,
                        hash,
                        bytes,
                        header,
                    },
                ));
                self.verdicts.push((hash, Verdict::Admitted { pos }));
            }
            Outcome::Duplicate { pos } => {
                self.verdicts.push((hash, Verdict::Admitted { pos }));
            }
            Outcome::Stop { .. } => self.refuse(hash, Reason::Malformed),
            Outcome::Quarantined(reason) => self.refuse(hash, reason),
        }
    }

    fn refuse(&mut self, hash: Digest, reason: Reason) {
        self.quarantined += 1;
        self.verdicts.push((hash, Verdict::Refused(reason)));
    }

    fn take_chunk(&mut self, log: &Log, message: &Message) {
        let Ok(chunk) = Chunk::decode(&message.payload) else {
            self.quarantined += 1;
            return;
        };
        let key = (message.tenant.clone(), chunk.blob);
        if log.blobs.contains_key(&key) || self.blobs.iter().any(|(of, _)| *of == key) {
            // Told again, as the recorder does.
            let whole = self.blobs.iter().find(|(of, _)| *of == key);
            let whole = whole
                .map(|(_, whole)| whole)
                .or_else(|| log.blobs.get(&key));
            let whole = whole.cloned().unwrap_or_default();
            self.blobs.push((key, whole));
            return;
        }
        let (next, whole) = self.partial.entry(key.clone()).or_default();
        if chunk.index != *next {
            return;
        }
        *next += 1;
        whole.extend_from_slice(chunk.data);
        if !chunk.is_last() {
            return;
        }
        let whole = std::mem::take(whole);
        self.partial.remove(&key);
        if Digest::of(&whole) == key.1 {
            self.blobs.push((key, whole));
        } else {
            self.quarantined += 1;
        }
    }

    /// How many commits it admits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.admitted.len()
    }

    /// Whether it admits none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.admitted.is_empty()
    }
}
