//! The simulated log: one batch and one fsync at a time; what was not fsynced is gone after a crash.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use coppice_messages::{
    Blobs, Digest, Header, Value,
    commit::DecodeError,
    ids::{RunId, TenantId},
};
use coppice_store::{
    Lane, Verdict,
    admission::{self, Head, Outcome, Reason, Stored, View},
    follow::Loss,
    log::StreamPosition,
    ranges::Ranges,
    refill::{Refill, Source},
    wire::{self, Chunk},
};

use super::stream::{Message, StoredMessage};

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
    /// What each message of the stream brought.
    messages: BTreeMap<u64, Noted>,
    lost: Lost,
    /// Commits ever refused.
    pub quarantined: u64,
}

/// What one message brought, and how it is known again.
#[derive(Debug, Clone)]
struct Noted {
    digest: Digest,
    positions: Ranges,
    blobs: Vec<(TenantId, Digest)>,
}

/// What of the log the stream lost, until it was read from the stream again.
#[derive(Debug, Clone, Default)]
struct Lost {
    positions: Ranges,
    blobs: Vec<(TenantId, Digest)>,
    until: u64,
}

impl Source for Log {
    fn commit(&self, pos: u64) -> Option<(TenantId, Bytes)> {
        let index = usize::try_from(pos.checked_sub(1)?).ok()?;
        let (key, at) = self.commits.get(index)?;
        let recorded = self.chains.get(key)?.get(*at)?;
        Some((key.0.clone(), recorded.bytes.clone()))
    }

    fn blob(&self, tenant: &TenantId, blob: &Digest) -> Option<Bytes> {
        let whole = self.blobs.get(&(tenant.clone(), *blob))?;
        Some(whole.clone().into())
    }
}

impl Log {
    /// The first message of the stream that it knows.
    #[must_use]
    pub fn oldest_message(&self) -> Option<u64> {
        self.messages.keys().next().copied()
    }

    /// By what the message with this number is known again.
    #[must_use]
    pub fn message_digest(&self, seq: u64) -> Option<Digest> {
        self.messages.get(&seq).map(|noted| noted.digest)
    }

    /// What the stream lost and does not have again yet.
    #[must_use]
    pub fn refill(&self) -> Refill {
        let Lost {
            positions,
            blobs,
            until,
        } = self.lost.clone();
        Refill::new(positions, blobs, until)
    }

    /// The stream went back: the position goes back with it, and what the stream lost is noted, in one write.
    pub fn went_back(&mut self, loss: &Loss) {
        let kept = |seq: u64| (loss.first..=loss.after).contains(&seq);
        let known: BTreeSet<_> = self.lost.blobs.iter().cloned().collect();
        let (lost, messages) = (&mut self.lost, std::mem::take(&mut self.messages));
        lost.until = loss.until;
        for (seq, noted) in messages {
            if kept(seq) {
                self.messages.insert(seq, noted);
                continue;
            }
            lost.positions.insert_all(&noted.positions);
            let new = noted.blobs.into_iter().filter(|blob| !known.contains(blob));
            for blob in new {
                if !lost.blobs.contains(&blob) {
                    lost.blobs.push(blob);
                }
            }
        }
        self.position = Some(StreamPosition {
            seq: loss.after,
            created: loss.created,
        });
    }

    /// How far the stream was read.
    #[must_use]
    pub fn position(&self) -> Option<StreamPosition> {
        self.position
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
            messages: Vec::new(),
            added: Ranges::default(),
            has_everything: false,
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
        self.lost.positions.insert_all(&batch.added);
        if batch.has_everything {
            self.lost = Lost::default();
        }
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
    messages: Vec<(u64, Noted)>,
    /// Positions that the stream must get once more, behind what it lost.
    added: Ranges,
    has_everything: bool,
    quarantined: u64,
    verdicts: Vec<(Digest, Verdict)>,
}

/// What admission sees: the log and the batch under way.
struct Overlay<'a> {
    log: &'a Log,
    batch: &'a Batch,
}

impl Overlay<'_> {
    /// Positions of the commits that this one cites.
    fn follows(&mut self, header: &Header) -> Vec<u64> {
        let Ok(before) = self.head(&header.tenant, &header.run);
        let mut follows: Vec<u64> = before.map(|head| head.pos).into_iter().collect();
        if let Some(parent) = &header.parent {
            let Ok(cited) = self.holding(&header.tenant, &parent.run, parent.seq);
            follows.extend(cited.map(|stored| stored.pos));
        }
        follows
    }
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
    /// Takes in one message of the stream. As the recorder does: admission for commits, assembly for chunks; and `refill` is told what the
    /// stream has again.
    pub fn take(
        &mut self,
        log: &Log,
        refill: &mut Refill,
        (seq, created): (u64, i64),
        stored: &StoredMessage,
    ) {
        let StoredMessage { at, message } = stored;
        let mut noted = Noted {
            digest: wire::message_digest(Some(message.lane), *at, &message.payload),
            positions: Ranges::default(),
            blobs: Vec::new(),
        };
        match message.lane {
            Lane::Commits => match wire::decode_commits(&message.payload) {
                Ok(commits) => {
                    for bytes in commits {
                        let carried = self.take_commit(log, &message.tenant, bytes);
                        if let Some((pos, follows)) = carried {
                            noted.positions.insert(pos);
                            if refill.read_commit(seq, pos, &follows) {
                                self.added.insert(pos);
                            }
                        }
                    }
                }
                Err(_) => self.quarantined += 1,
            },
            Lane::Chunks => {
                if let Some((key, is_last)) = self.take_chunk(log, message) {
                    if is_last {
                        refill.read_blob(seq, &key);
                    }
                    noted.blobs.push(key);
                }
            }
        }
        self.has_everything = refill.is_empty();
        self.messages.push((seq, noted));
        self.position = Some(StreamPosition { seq, created });
    }

    /// Where the commit is in the log, and what it follows from when it is new there.
    fn take_commit(
        &mut self,
        log: &Log,
        tenant: &TenantId,
        bytes: Bytes,
    ) -> Option<(u64, Vec<u64>)> {
        let hash = Digest::of(&bytes);
        let header = match Header::decode(&bytes) {
            Ok(header) => header,
            Err(
                DecodeError::NewerFormat { .. }
                | DecodeError::Malformed { .. }
                | DecodeError::TrailingBytes { .. },
            ) => {
                self.refuse(hash, Reason::Malformed);
                return None;
            }
        };
        let mut view = Overlay { log, batch: self };
        let follows = view.follows(&header);
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
                Some((pos, follows))
            }
            Outcome::Duplicate { pos } => {
                self.verdicts.push((hash, Verdict::Admitted { pos }));
                Some((pos, Vec::new()))
            }
            Outcome::Stop { .. } => {
                self.refuse(hash, Reason::Malformed);
                None
            }
            Outcome::Quarantined(reason) => {
                self.refuse(hash, reason);
                None
            }
        }
    }

    fn refuse(&mut self, hash: Digest, reason: Reason) {
        self.quarantined += 1;
        self.verdicts.push((hash, Verdict::Refused(reason)));
    }

    /// The blob that is whole with or before this chunk, and whether this is its last.
    fn take_chunk(&mut self, log: &Log, message: &Message) -> Option<((TenantId, Digest), bool)> {
        let Ok(chunk) = Chunk::decode(&message.payload) else {
            self.quarantined += 1;
            return None;
        };
        let key = (message.tenant.clone(), chunk.blob);
        if log.blobs.contains_key(&key) || self.blobs.iter().any(|(of, _)| *of == key) {
            // Told again, as the recorder does.
            let whole = self.blobs.iter().find(|(of, _)| *of == key);
            let whole = whole
                .map(|(_, whole)| whole)
                .or_else(|| log.blobs.get(&key));
            let whole = whole.cloned().unwrap_or_default();
            self.blobs.push((key.clone(), whole));
            return Some((key, chunk.is_last()));
        }
        let (next, whole) = self.partial.entry(key.clone()).or_default();
        if chunk.index != *next {
            return None;
        }
        *next += 1;
        whole.extend_from_slice(chunk.data);
        if !chunk.is_last() {
            return None;
        }
        let whole = std::mem::take(whole);
        self.partial.remove(&key);
        if Digest::of(&whole) != key.1 {
            self.quarantined += 1;
            return None;
        }
        self.blobs.push((key.clone(), whole));
        Some((key, true))
    }

    /// How many commits it admits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.admitted.len()
    }

    /// Runs that the batch cancels.
    pub fn cancelled(&self) -> impl Iterator<Item = RunId> {
        let cancels = |recorded: &Recorded| {
            let kinds = &recorded.header.events;
            kinds.iter().any(|e| e.kind == "run.cancel_requested")
        };
        self.admitted
            .iter()
            .filter(move |(_, recorded)| cancels(recorded))
            .map(|((_, run), _)| run.clone())
    }

    /// Whether it admits none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.admitted.is_empty()
    }
}
