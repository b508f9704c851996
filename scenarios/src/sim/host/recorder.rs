//! The recorder: gathers what was read, one batch and one fsync at a time, then tells whoever waits.

use std::collections::{BTreeSet, VecDeque};

use coppice_store::log::StreamPosition;

use crate::sim::{log::Batch, step::Step, stream::StoredMessage, world::World};

/// The state of the recorder.
pub(super) struct Recorder {
    arrivals: VecDeque<(u64, i64, StoredMessage)>,
    batch: Option<(u64, Batch)>,
    read: u64,
}

impl Recorder {
    pub fn new(position: Option<StreamPosition>) -> Self {
        Self {
            arrivals: VecDeque::new(),
            batch: None,
            read: position.map_or(0, |position| position.seq),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.arrivals.is_empty() && self.batch.is_none()
    }

    /// How far the log has read the stream.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// The stream went back.
    pub fn went_back(&mut self, read: u64) {
        self.read = read;
    }

    /// The batch whose fsync is under way.
    pub fn batch(&mut self) -> Option<Batch> {
        self.batch.take().map(|(_, batch)| batch)
    }
}

impl World {
    pub(super) fn arrived(&mut self, seq: u64, created: i64, message: StoredMessage) {
        let recorder = &mut self.host.recorder;
        let idle = recorder.is_idle();
        recorder.arrivals.push_back((seq, created, message));
        if idle {
            self.put_between(0, 300, Step::Gather);
        }
    }

    /// Gathers what is there, or a part of it, and begins the fsync.
    pub(in crate::sim) fn gather(&mut self) {
        let recorder = &mut self.host.recorder;
        if recorder.batch.is_some() || recorder.arrivals.is_empty() {
            return;
        }
        let most = self.seed.between(1, 8);
        let mut batch = self.log.batch();
        let mut last = 0;
        for _ in 0..most {
            let Some((seq, created, message)) = recorder.arrivals.pop_front() else {
                break;
            };
            batch.take(&self.log, &mut self.host.refill, (seq, created), &message);
            last = seq;
        }
        let commits = batch.len();
        self.host.cancelled.extend(batch.cancelled());
        recorder.batch = Some((last, batch));
        self.note(format_args!("batch up to {last}, {commits} commits"));
        self.put_between(50, 4_000, Step::Synced);
    }

    /// The batch is in the log. Only now anybody hears of it.
    pub(in crate::sim) fn synced(&mut self) {
        let Some((last, batch)) = self.host.recorder.batch.take() else {
            return;
        };
        let synced = self.log.sync(batch);
        self.host.recorder.read = last;
        self.host.refill.written();
        self.recorded(&synced);
        self.note(format_args!("synced up to {last}, log {}", self.log.len()));
        if !self.host.recorder.arrivals.is_empty() {
            self.put_between(0, 100, Step::Gather);
        }
        let blobs: BTreeSet<_> = synced.blobs.iter().map(|(_, blob)| *blob).collect();
        for (tenant, blob) in &synced.blobs {
            self.host.hold.release_blob(tenant, *blob);
            self.host.heard = self.mono;
        }
        self.stored(&blobs);
        self.release(&synced.verdicts);
        // What was read may have to be put back, or let go what is new.
        self.put(0, Step::Publish);
        self.start_roots();
        self.look_if_waiting();
    }
}
