//! The recorder: reads the stream from its own position, admits, and writes the log; the only writer of it.
//!
//! It has a thread of its own, because an fsync blocks. What arrives while one fsync runs is gathered into the next batch. In this order:
//! admission, one batch with fsync (commits, positions, heads, rows, blobs and the stream's position together), the index of open effects,
//! the waiters, the feed. So nobody hears of anything that could still be lost.

mod assembly;
mod batch;
pub(crate) mod feed;
pub(crate) mod reader;

use std::sync::Arc;

use bytes::Bytes;
use coppice_messages::{Commit, Digest};
use tokio::sync::{mpsc, watch};

use self::{
    assembly::Assembly,
    batch::{Batch, Heads},
    feed::Feed,
};
use crate::{
    fatal::{Fatal, FatalCell},
    faults::FaultHooks,
    limits::{BATCH_BYTES_MAX, BATCH_COMMITS_MAX},
    log::{self, ReadError, StreamPosition, Tables, positions, quarantine},
    open_effects::OpenEffects,
    publisher::Publisher,
};

/// One message of the stream.
pub(crate) struct Arrival {
    pub seq: u64,
    pub created: i64,
    pub subject: String,
    pub payload: Bytes,
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
}

/// What the recorder tells, and whom.
pub(crate) struct Audience {
    pub publisher: Publisher,
    pub open_effects: OpenEffects,
    pub feed: Option<Feed>,
    pub hooks: Arc<dyn FaultHooks>,
    pub progress: watch::Sender<Progress>,
    pub fatal: FatalCell,
}

/// The thread's state.
pub(crate) struct Recorder {
    tables: Arc<Tables>,
    heads: Heads,
    assembly: Assembly,
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
            pos: positions::last(&tables.positions)?,
            quarantined: quarantine::count(&tables.quarantine)?,
            batches: 0,
        };
        audience.progress.send_replace(progress);
        audience.publisher.recorder_read(progress.stream);
        Ok(Self {
            tables,
            heads: Heads::default(),
            assembly: Assembly::default(),
            audience,
        })
    }

    /// Records until the reader ends.
    pub fn run(mut self, mut arrivals: mpsc::Receiver<Arrival>) {
        while let Some(first) = arrivals.blocking_recv() {
            if let Err(halt) = self.record(first, &mut arrivals) {
                self.audience.fatal.set(match halt {
                    Halt::Write(error) if log::is_disk_full(&error) => Fatal::DiskFull,
                    Halt::Write(error) => Fatal::LogWrite {
                        said: error.to_string(),
                    },
                    Halt::Read(error) => Fatal::LogRead {
                        said: format!("{error}: {:?}", std::error::Error::source(&error)),
                    },
                    Halt::NewerCommit(format) => Fatal::NewerCommit { format },
                });
                return;
            }
        }
    }

    /// Gathers what is there into one batch, writes it, and tells whoever waits for it.
    fn record(
        &mut self,
        first: Arrival,
        arrivals: &mut mpsc::Receiver<Arrival>,
    ) -> Result<(), Halt> {
        let progress = *self.audience.progress.borrow();
        let mut batch = Batch::new(&self.tables, &mut self.heads, &mut self.assembly, progress);
        let mut last = first;
        batch.take(&last)?;
        while batch.commits() < BATCH_COMMITS_MAX && batch.bytes() < BATCH_BYTES_MAX {
            let Ok(next) = arrivals.try_recv() else {
                break;
            };
            batch.take(&next)?;
            last = next;
        }
        let done = batch.finish(&StreamPosition {
            seq: last.seq,
            digest: Digest::of(&last.payload),
            created: last.created,
        })?;
        let hooks = &self.audience.hooks;
        let shown = if hooks.wants_events() {
            decode_all(&done.admitted)
        } else {
            Vec::new()
        };
        if !shown.is_empty() {
            hooks.acked(&shown);
        }
        done.write.commit().map_err(Halt::Write)?;
        if !shown.is_empty() {
            hooks.synced(&shown);
        }
        self.heads.settle();
        self.audience.open_effects.record(&done.effects);
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
        Ok(())
    }
}

/// A commit that was admitted.
pub(crate) struct Admitted {
    pub pos: u64,
    pub hash: Digest,
    pub events: usize,
    pub bytes: Bytes,
}

fn decode_all(admitted: &[Admitted]) -> Vec<Commit> {
    admitted
        .iter()
        .filter_map(|commit| Commit::decode(&commit.bytes).ok())
        .collect()
}
