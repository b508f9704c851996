//! One gathered batch: what is admitted goes into one write, together with everything that follows from it.

mod holding;
mod listing;

use std::{collections::HashMap, mem, sync::Arc};

use bytes::Bytes;
use coppice_messages::{
    Commit, Digest, Entry, Event, Header,
    commit::DecodeError,
    event::run,
    ids::{EffectKey, RunId, TenantId},
};
use fjall::{OwnedWriteBatch as WriteBatch, PersistMode};

use super::{
    Admitted, Arrival, Halt, Progress,
    assembly::{Assembly, Took},
};
use crate::{
    admission::{self, Head, Outcome, Reason, Stored, View},
    limits::{DELEGATIONS_CACHED_MAX, HEADS_CACHED_MAX},
    log::{
        Quarantined, ReadError, Row, StreamPosition, Tables, commits, messages, meta, positions,
        quarantine, rows,
    },
    mark,
    open_effects::{self, Held},
    publisher::{Publisher, Verdict, refill::Refill},
    ranges::Ranges,
    recent_ends::RecentEnd,
    subjects::{self, Lane},
    wire::{self, Chunk, DigestOfParts},
};

type RunKey = (TenantId, RunId);

/// Ends of chains in memory: those of the batch that is being gathered, and of earlier ones as a cache.
#[derive(Default)]
pub(super) struct Heads {
    cached: HashMap<RunKey, Head>,
    /// What the batch under way adds to each chain; readers of the log do not see it yet.
    pending: HashMap<RunKey, Vec<Stored>>,
    /// Of some runs the commit that was cited last: many children cite one delegation.
    cited: HashMap<RunKey, Stored>,
    ended: Vec<RunKey>,
}

impl Heads {
    /// The batch is written: what it added is in the log now.
    pub fn settle(&mut self) {
        self.pending.clear();
        for ended in mem::take(&mut self.ended) {
            self.cited.remove(&ended);
            self.cached.remove(&ended);
        }
        if self.cited.len() > DELEGATIONS_CACHED_MAX {
            self.cited.clear();
        }
        if self.cached.len() > HEADS_CACHED_MAX {
            self.cached.clear();
        }
    }
}

struct LogView<'a> {
    tables: &'a Tables,
    heads: &'a mut Heads,
}

impl View for LogView<'_> {
    type Error = ReadError;

    fn head(&mut self, tenant: &TenantId, run: &RunId) -> Result<Option<Head>, ReadError> {
        let key = (tenant.clone(), run.clone());
        if let Some(head) = self.heads.cached.get(&key) {
            return Ok(Some(head.clone()));
        }
        let found = commits::head(&self.tables.commits, tenant, run)?;
        if let Some(head) = &found {
            self.heads.cached.insert(key, head.clone());
        }
        Ok(found)
    }

    fn holding(
        &mut self,
        tenant: &TenantId,
        run: &RunId,
        seq: u64,
    ) -> Result<Option<Stored>, ReadError> {
        let key = (tenant.clone(), run.clone());
        let pending = self.heads.pending.get(&key);
        if let Some(found) = pending.and_then(|p| p.iter().find(|s| s.holds(seq))) {
            return Ok(Some(found.clone()));
        }
        if let Some(cited) = self.heads.cited.get(&key).filter(|s| s.holds(seq)) {
            return Ok(Some(cited.clone()));
        }
        let stored = commits::stored(&self.tables.commits, tenant, run, seq)?;
        let stored = stored.filter(|s| s.holds(seq));
        if let Some(stored) = &stored {
            self.heads.cited.insert(key, stored.clone());
        }
        Ok(stored)
    }
}

/// What a batch came to.
pub(super) struct Done {
    pub write: WriteBatch,
    pub admitted: Vec<Admitted>,
    pub verdicts: Vec<(Digest, Verdict)>,
    pub effects: Vec<(u64, Arc<Commit>)>,
    pub ends: Vec<RecentEnd>,
    /// Intents under a key that another run holds.
    pub held: Vec<Held>,
    pub blobs: Vec<(TenantId, Digest)>,
    pub chunks: bool,
    /// The stream has everything again that it had lost.
    pub has_everything: bool,
    pub progress: Progress,
}

/// What one message brought.
#[derive(Default)]
struct Taken {
    parts: DigestOfParts,
    positions: Ranges,
    blobs: Vec<(TenantId, Digest)>,
}

/// A batch that is being gathered.
pub(super) struct Batch<'a> {
    view: LogView<'a>,
    assembly: &'a mut Assembly,
    publisher: &'a Publisher,
    rows: HashMap<RunKey, Row>,
    /// Who came to hold a key in this batch.
    holders: HashMap<(TenantId, EffectKey), RunId>,
    /// Of the message that is being taken.
    message: Taken,
    /// Whether the stream lacked something before this batch.
    lost: bool,
    /// Whether more has come to it.
    lost_changed: bool,
    bytes: usize,
    taken: usize,
    done: Done,
}

impl<'a> Batch<'a> {
    pub fn new(
        tables: &'a Tables,
        heads: &'a mut Heads,
        assembly: &'a mut Assembly,
        (publisher, lost): (&'a Publisher, bool),
        progress: Progress,
    ) -> Self {
        Self {
            done: Done {
                write: tables.db.batch().durability(Some(PersistMode::SyncData)),
                admitted: Vec::new(),
                verdicts: Vec::new(),
                effects: Vec::new(),
                ends: Vec::new(),
                held: Vec::new(),
                blobs: Vec::new(),
                chunks: false,
                has_everything: false,
                progress,
            },
            view: LogView { tables, heads },
            assembly,
            publisher,
            rows: HashMap::new(),
            holders: HashMap::new(),
            message: Taken::default(),
            lost,
            lost_changed: false,
            bytes: 0,
            taken: 0,
        }
    }

    pub fn commits(&self) -> usize {
        self.taken
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes one message in.
    pub fn take(&mut self, arrival: &Arrival) -> Result<(), Halt> {
        self.bytes += arrival.payload.len();
        self.take_parts(arrival)?;
        let taken = mem::take(&mut self.message);
        let message = messages::Message {
            digest: taken.parts.finish(arrival.at),
            positions: taken.positions,
            blobs: taken.blobs,
        };
        let table = &self.view.tables.messages;
        Ok(messages::put(
            &mut self.done.write,
            table,
            arrival.seq,
            &message,
        )?)
    }

    fn take_parts(&mut self, arrival: &Arrival) -> Result<(), Halt> {
        let Some((lane, tenant)) = subjects::parse_stream_subject(&arrival.subject) else {
            self.message.parts.other(&arrival.payload);
            return self.refuse(arrival, 0, &arrival.payload, Reason::OtherTenant);
        };
        match lane {
            Lane::Commits => {
                if let Ok(commits) = wire::decode_commits(&arrival.payload) {
                    self.taken += commits.len();
                    for (index, bytes) in (0..).zip(commits) {
                        self.take_commit(arrival, &tenant, index, bytes)?;
                    }
                    return Ok(());
                }
            }
            Lane::Chunks => {
                self.done.chunks = true;
                if let Ok(chunk) = Chunk::decode(&arrival.payload) {
                    return self.take_chunk(arrival, tenant, &chunk);
                }
            }
        }
        self.message.parts.other(&arrival.payload);
        self.refuse(arrival, 0, &arrival.payload, Reason::Malformed)
    }

    fn take_chunk(
        &mut self,
        arrival: &Arrival,
        tenant: TenantId,
        chunk: &Chunk<'_>,
    ) -> Result<(), Halt> {
        self.message.parts.chunk(chunk);
        let tables = self.view.tables;
        let write = &mut self.done.write;
        match self.assembly.take(tables, write, &tenant, chunk)? {
            Took::Part => Ok(()),
            Took::Whole(blob) => {
                let key = (tenant, blob);
                if chunk.is_last() {
                    let read = |refill: &mut Refill| refill.read_blob(arrival.seq, &key);
                    self.publisher.with_refill(read);
                }
                self.message.blobs.push(key.clone());
                self.done.blobs.push(key);
                Ok(())
            }
            Took::Nothing => self.refuse(arrival, 0, &arrival.payload, Reason::Malformed),
        }
    }

    /// A commit of the message under way is in the log: since before, or now, behind those that it follows.
    fn carried(&mut self, arrival: &Arrival, pos: u64, follows: &[u64]) {
        self.message.positions.insert(pos);
        let read = |refill: &mut Refill| refill.read_commit(arrival.seq, pos, follows);
        self.lost_changed |= self.publisher.with_refill(read);
    }

    fn take_commit(
        &mut self,
        arrival: &Arrival,
        tenant: &TenantId,
        index: u32,
        bytes: Bytes,
    ) -> Result<(), Halt> {
        let hash = Digest::of(&bytes);
        self.message.parts.commit(&hash);
        let (header, commit) = match read(&bytes) {
            Ok(read) => read,
            Err(DecodeError::NewerFormat { found }) => return Err(Halt::NewerCommit(found)),
            Err(DecodeError::Malformed { .. } | DecodeError::TrailingBytes { .. }) => {
                self.tell(hash, Verdict::Refused(Reason::Malformed));
                return self.refuse(arrival, index, &bytes, Reason::Malformed);
            }
        };
        let follows = self.follows(&header)?;
        match admission::admit(&mut self.view, tenant, &bytes, hash, &header)? {
            Outcome::Admitted(head) => {
                let pos = self.admit(header, commit, head, &bytes)?;
                self.carried(arrival, pos, &follows);
                Ok(())
            }
            Outcome::Duplicate { pos } => {
                self.carried(arrival, pos, &[]);
                self.tell(hash, Verdict::Admitted { pos });
                Ok(())
            }
            Outcome::Stop { format } => Err(Halt::NewerCommit(format)),
            Outcome::Quarantined(reason) => {
                self.tell(hash, Verdict::Refused(reason.clone()));
                self.refuse(arrival, index, &bytes, reason)
            }
        }
    }

    /// Positions of the commits that this one cites, while the stream lacks some.
    fn follows(&mut self, header: &Header) -> Result<Vec<u64>, Halt> {
        if !self.lost {
            return Ok(Vec::new());
        }
        let before = self.view.head(&header.tenant, &header.run)?;
        let mut follows: Vec<u64> = before.map(|head| head.pos).into_iter().collect();
        if let Some(parent) = &header.parent {
            let cited = self.view.holding(&header.tenant, &parent.run, parent.seq)?;
            follows.extend(cited.map(|stored| stored.pos));
        }
        Ok(follows)
    }

    fn tell(&mut self, hash: Digest, verdict: Verdict) {
        self.done.verdicts.push((hash, verdict));
    }

    fn admit(
        &mut self,
        header: Header,
        commit: Option<Arc<Commit>>,
        mut head: Head,
        bytes: &[u8],
    ) -> Result<u64, Halt> {
        let tables = self.view.tables;
        self.done.progress.pos += 1;
        let pos = self.done.progress.pos;
        head.pos = pos;
        let hash = head.hash;
        let total = &mut self.done.progress.total;
        total.pos = pos;
        total.sum = mark::plus(&total.sum, &hash);
        let write = &mut self.done.write;
        let place = (&header.tenant, &header.run, header.seq);
        let commit_key = commits::put(write, &tables.commits, place, (pos, &hash), bytes)?;
        positions::put(write, &tables.positions, pos, commit_key);
        match &commit {
            Some(commit) => self.follow_from(commit, pos, hash)?,
            // Its kinds are right and it extends its chain; that its body cannot be read is for whoever folds the chain to say.
            None => {
                tracing::warn!(tenant = %header.tenant, run = %header.run, pos, "a recorded commit cannot be decoded")
            }
        }
        let key = (header.tenant, header.run);
        let kinds: Vec<_> = header.events.into_iter().map(|e| e.kind).collect();
        self.done.admitted.push(Admitted {
            pos,
            hash,
            events: kinds.len(),
            commit,
        });
        let stored = Stored {
            pos,
            hash,
            seq: header.seq,
            kinds,
        };
        self.view
            .heads
            .pending
            .entry(key.clone())
            .or_default()
            .push(stored);
        self.view.heads.cached.insert(key, head);
        self.tell(hash, Verdict::Admitted { pos });
        Ok(pos)
    }

    /// Row, open effects and recent ends.
    fn follow_from(&mut self, commit: &Arc<Commit>, pos: u64, hash: Digest) -> Result<(), Halt> {
        let has = |is: fn(&run::Event) -> bool| {
            let runs = |entry: &Entry| matches!(&entry.event, Event::Run(event) if is(event));
            commit.events.iter().any(runs)
        };
        let ends = has(|event| matches!(event, run::Event::Ended(_)));
        if ends || has(|event| matches!(event, run::Event::Opened(_) | run::Event::Late(_))) {
            self.update_row(commit)?;
        }
        if ends {
            let key = (commit.tenant.clone(), commit.run.clone());
            self.view.heads.ended.push(key);
            let commit = commit.clone();
            self.done.ends.push(RecentEnd { commit, hash });
        }
        if open_effects::concerns(commit) {
            self.hold_keys(commit)?;
            self.done.effects.push((pos, commit.clone()));
        }
        Ok(())
    }

    fn refuse(
        &mut self,
        arrival: &Arrival,
        index: u32,
        bytes: &[u8],
        reason: Reason,
    ) -> Result<(), Halt> {
        tracing::warn!(message = arrival.seq, index, %reason, "a commit is refused");
        self.done.progress.quarantined += 1;
        let refused = Quarantined {
            subject: arrival.subject.clone(),
            message: arrival.seq,
            index,
            reason,
            bytes: bytes.to_vec(),
        };
        let number = self.done.progress.quarantined;
        let table = &self.view.tables.quarantine;
        Ok(quarantine::put(
            &mut self.done.write,
            table,
            number,
            &refused,
        )?)
    }

    /// The batch is complete: rows and the stream's position go in last.
    pub fn finish(mut self, position: &StreamPosition) -> Result<Done, Halt> {
        let tables = self.view.tables;
        let write = &mut self.done.write;
        for row in self.rows.values() {
            rows::put(write, tables, row)?;
        }
        meta::put_stream(write, &tables.meta, position)?;
        self.done.progress.total.writes += 1;
        meta::put_total(write, &tables.meta, &self.done.progress.total)?;
        if self.lost {
            if self.publisher.refilling() == 0 {
                self.done.has_everything = true;
                meta::remove_lost(write, &tables.meta);
            } else if self.lost_changed {
                let left = self.publisher.with_refill(|refill| refill.lost());
                meta::put_lost(write, &tables.meta, &left)?;
            }
        }
        self.done.progress.stream = position.seq;
        self.done.progress.batches += 1;
        Ok(self.done)
    }
}

/// Reads a commit whole, once for everybody. One whose body cannot be read is still admitted by its header.
fn read(bytes: &[u8]) -> Result<(Header, Option<Arc<Commit>>), DecodeError> {
    match Commit::decode(bytes) {
        Ok(commit) => Ok((Header::of(&commit), Some(Arc::new(commit)))),
        Err(DecodeError::Malformed { .. }) => Ok((Header::decode(bytes)?, None)),
        Err(error) => Err(error),
    }
}
