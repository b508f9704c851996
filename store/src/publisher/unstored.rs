//! What the stream did not take: since when, and what was said about it.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::lock;
use crate::clock::{self, Mono};

/// With what nats-server refuses a message beyond the `max_bytes` of a stream. Its code is that of every failure to store.
const NO_ROOM: &str = "maximum bytes exceeded";

/// Messages were sent, and since then none was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unstored {
    since: Mono,
    /// What was said about the last.
    pub said: String,
}

impl Unstored {
    /// For how long.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// The server is well: the stream has all the bytes that it may have.
    pub fn is_full_stream(&self) -> bool {
        self.said.contains(NO_ROOM)
    }
}

/// What became of the messages that were sent.
#[derive(Default)]
pub(super) struct Fate {
    unstored: Mutex<Option<Unstored>>,
    stored: AtomicU64,
}

impl Fate {
    pub fn is_stored(&self) {
        self.stored.fetch_add(1, Ordering::Relaxed);
        *lock(&self.unstored) = None;
    }

    pub fn is_unclear(&self, said: String) {
        let mut unstored = lock(&self.unstored);
        let since = unstored.as_ref().map_or_else(clock::mono, |u| u.since);
        *unstored = Some(Unstored { since, said });
    }

    /// What was sent before says nothing any more: it went to another server.
    pub fn forget(&self) {
        *lock(&self.unstored) = None;
    }

    pub fn unstored(&self) -> Option<Unstored> {
        lock(&self.unstored).clone()
    }

    pub fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }
}
