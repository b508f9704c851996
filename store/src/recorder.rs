//! The recorder: reads the stream from its own position, admits, and writes the log; the only writer of it.
//!
//! It has a thread of its own, because an fsync blocks. What arrives while one fsync runs is gathered into the next batch. In this order:
//! admission, one batch with fsync (commits, positions, heads, rows, blobs and the stream's position together), the index of open effects,
//! the waiters, the feed. So nobody hears of anything that could still be lost.

mod assembly;
mod batch;
pub(crate) mod feed;
pub(crate) mod reader;

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use coppice_messages::{Commit, Digest};
use tokio::sync::{mpsc, oneshot, watch};

use self::{
    assembly::Assembly,
    batch::{Batch, Heads},
    feed::Feed,
};
use crate::{
    fatal::{Fatal, FatalCell},
    faults::FaultHooks,
    follow::Loss,
    health::LogDisk,
    limits::{BATCH_BYTES_MAX, BATCH_COMMITS_MAX},
    log::{
        self, ReadError, StreamPosition, Tables, messages,
        meta::{self, Total},
        quarantine, trimmed,
    },
    open_effects::OpenEffects,
    publisher::Publisher,
    recent_ends::RecentEnds,
};

/// One message of the stream.
pub(crate) struct Arrival {
    pub seq: u64,
    pub created: i64,
    /// When the stream stored it, in nanoseconds.
    pub at: i64,
    pub subject: String,
    pub payload: Bytes,
}

/// What the reader hands over, in order.
pub(crate) enum Fed {
    /// A message.
    Message(Arrival),
    /// The stream went back; the sender is told when the log knows.
    WentBack(Loss, oneshot::Sender<()>),
}

/// How far the recorder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// Last message of the stream that is in the log.
    pub stream: u64,
    /// Last position of the log.
    pub pos: u64,
    /// Commits ever refused.
    pub quarantined: u64,
    /// Batches written, each with one fsync.
    pub batches: u64,
    /// The log's account of itself.
    pub total: Total,
}

/// What the recorder keeps in memory of what is recorded, for whoever asks often; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Indexes {
    pub open_effects: OpenEffects,
    pub recent_ends: RecentEnds,
}

/// What the recorder tells, and whom.
pub(crate) struct Audience {
    pub publisher: Publisher,
    pub indexes: Indexes,
    pub feed: Option<Feed>,
    pub hooks: Arc<dyn FaultHooks>,
    pub progress: watch::Sender<Progress>,
    pub fatal: FatalCell,
    pub log: LogDisk,
}

/// The thread's state.
pub(crate) struct Recorder {
    tables: Arc<Tables>,
    heads: Heads,
    assembly: Assembly,
    /// Whether the stream lost something that it does not have again yet.
    lost: bool,
    audience: Audience,
}

/// Why a batch is not written.
enum Halt {
    Read(ReadError),
    Write(fjall::Error),
    NewerCommit(u16),
}

impl From<ReadError> for Halt {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl Recorder {
    pub fn new(tables: Arc<Tables>, audience: Audience) -> Result<Self, ReadError> {
        let progress = Progress {
            stream: log::meta::stream(&tables.meta)?.map_or(0, |p| p.seq),
            pos: trimmed::last_position(&tables)?,
            quarantined: quarantine::count(&tables.quarantine)?,
            batches: 0,
            total: meta::total(&tables.meta)?,
        };
        audience.progress.send_replace(progress);
        audience.publisher.recorder_read(progress.stream);
        let lost = meta::lost(&tables.meta)?;
        let is_lost = lost.is_some();
        audience.publisher.refill(lost.unwrap_or_default());
        Ok(Self {
            lost: is_lost,
            tables,
            heads: Heads::default(),
            assembly: Assembly::default(),
            audience,
        })
    }

    /// Records until the reader ends.
    pub fn run(mut self, mut fed: mpsc::Receiver<Fed>) {
        while let Some(first) = fed.blocking_recv() {
            if let Err(halt) = self.take(first, &mut fed) {
                self.audience.fatal.set(match halt {
                    Halt::Write(error) => self.audience.log.fault(&error),
                    Halt::Read(error) => Fatal::log_read(&error),
                    Halt::NewerCommit(format) => Fatal::NewerCommit { format },
                });
                return;
            }
        }
    }

    fn take(&mut self, first: Fed, fed: &mut mpsc::Receiver<Fed>) -> Result<(), Halt> {
        let mut next = Some(first);
        while let Some(taken) = next.take() {
            match taken {
                Fed::Message(arrival) => next = self.record(arrival, fed)?,
                Fed::WentBack(loss, known) => {
                    self.went_back(&loss)?;
                    // Who waits for it may have been ended.
                    let _ = known.send(());
                }
            }
        }
        Ok(())
    }

    /// Takes the position in the stream back, and notes what of the log the stream does not have, in one write.
    fn went_back(&mut self, loss: &Loss) -> Result<(), Halt> {
        let tables = &self.tables;
        let mut write = tables
            .db
            .batch()
            .durability(Some(fjall::PersistMode::SyncData));
        let mut lost = meta::lost(&tables.meta)?.unwrap_or_default();
        let mut known: HashSet<_> = lost.blobs.iter().cloned().collect();
        lost.until = loss.until;
        for message in messages::outside(&tables.messages, loss.first, loss.after) {
            let (seq, message) = message?;
            messages::remove(&mut write, &tables.messages, seq);
            lost.positions.insert_all(&message.positions);
            let new = message
                .blobs
                .into_iter()
                .filter(|b| known.insert(b.clone()));
            lost.blobs.extend(new);
        }
        let position = StreamPosition {
            seq: loss.after,
            created: loss.created,
        };
        meta::put_stream(&mut write, &tables.meta, &position)?;
        self.lost = !lost.is_nothing();
        if self.lost {
            meta::put_lost(&mut write, &tables.meta, &lost)?;
        }
        let mut total = self.audience.progress.borrow().total;
        total.writes += 1;
        meta::put_total(&mut write, &tables.meta, &total)?;
        write.commit().map_err(Halt::Write)?;
        tracing::warn!(
            why = %loss.why,
            after = loss.after,
            commits = lost.positions.count(),
            blobs = lost.blobs.len(),
            "the stream went back: what it lost is put back from the log"
        );
        self.audience.publisher.refill(lost);
        self.audience.publisher.recorder_read(loss.after);
        self.audience.progress.send_modify(|progress| {
            progress.stream = loss.after;
            progress.total = total;
        });
        Ok(())
    }

    /// Gathers what is there into one batch, writes it, and tells whoever waits for it. Returns what came after it and is no message.
    fn record(
        &mut self,
        first: Arrival,
        fed: &mut mpsc::Receiver<Fed>,
    ) -> Result<Option<Fed>, Halt> {
        let progress = *self.audience.progress.borrow();
        let publisher = self.audience.publisher.clone();
        let (heads, assembly) = (&mut self.heads, &mut self.assembly);
        let refill = (&publisher, self.lost);
        let mut batch = Batch::new(&self.tables, heads, assembly, refill, progress);
        let mut last = first;
        let mut other = None;
        take_in(&mut batch, &last, refill)?;
        while batch.commits() < BATCH_COMMITS_MAX && batch.bytes() < BATCH_BYTES_MAX {
            match fed.try_recv() {
                Ok(Fed::Message(next)) => {
                    take_in(&mut batch, &next, refill)?;
                    last = next;
                }
                Ok(fed) => {
                    other = Some(fed);
                    break;
                }
                Err(_) => break,
            }
        }
        let position = StreamPosition {
            seq: last.seq,
            created: last.created,
        };
        let done = batch.finish(&position)?;
        self.lost &= !done.has_everything;
        let hooks = &self.audience.hooks;
        let shown = if hooks.wants_events() {
            shown(&done.admitted)
        } else {
            Vec::new()
        };
        if !shown.is_empty() {
            hooks.acked(&shown);
        }
        self.audience.indexes.open_effects.withhold(&done.effects);
        done.write.commit().map_err(Halt::Write)?;
        if !shown.is_empty() {
            hooks.synced(&shown);
        }
        self.heads.settle();
        let indexes = &self.audience.indexes;
        indexes.open_effects.record(&done.effects, &done.held);
        indexes.recent_ends.record(done.ends);
        self.audience.publisher.recorder_read(last.seq);
        self.audience.progress.send_replace(done.progress);
        self.audience.publisher.release(&done.verdicts);
        for (tenant, blob) in &done.blobs {
            self.audience.publisher.release_blob(tenant, *blob);
        }
        if done.chunks {
            self.audience.publisher.hear();
        }
        if let Some(feed) = &self.audience.feed {
            feed.offer(done.admitted);
        }
        Ok(other)
    }
}

/// Takes one message in. What a stream that lost much gets back takes longer to read than a silence may last: each part of it that came is a sign
/// of life, or all of it would be sent again and again, and there would be ever more to read.
fn take_in(
    batch: &mut Batch<'_>,
    message: &Arrival,
    (publisher, lost): (&Publisher, bool),
) -> Result<(), Halt> {
    if !lost {
        return batch.take(message);
    }
    let before = publisher.refilling();
    batch.take(message)?;
    if publisher.refilling() < before {
        publisher.hear();
    }
    Ok(())
}

/// A commit that was admitted.
pub(crate) struct Admitted {
    pub pos: u64,
    pub hash: Digest,
    pub events: usize,
    /// None when its body cannot be read.
    pub commit: Option<Arc<Commit>>,
}

fn shown(admitted: &[Admitted]) -> Vec<Commit> {
    let commits = admitted.iter().filter_map(|a| a.commit.as_deref());
    commits.cloned().collect()
}
