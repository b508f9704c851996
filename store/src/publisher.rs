//! The publisher: one a host, the only way out to the stream.
//!
//! The commits that arrive while a message is on its way travel together in the next: no timer, no waiting when idle, one message in flight.
//! It keeps a commit until this host's recorder has admitted or refused it; an acknowledgement frees nothing, because it is not durability.

pub mod hold;
pub mod refill;
mod unstored;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use bytes::Bytes;
use coppice_messages::{Digest, commit::COMMIT_BYTES_MAX, ids::TenantId};
use tokio::sync::{Notify, oneshot, watch};

use self::{
    hold::{Hold, Outgoing},
    refill::{Refill, Source},
    unstored::{Fate, Unstored},
};
use crate::{
    admission::Reason,
    bus::{Bus, Link},
    clock::{self, Mono},
    limits::{ACK_WAIT, BACKOFF_FIRST, BACKOFF_LONGEST, BLOB_BYTES_MAX, GATHER_TURNS_MAX, SILENCE},
    log::{LogReader, meta::Lost},
    subjects::Lane,
};

/// What became of a submitted commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is in the log, fsynced, at this position; now, or since it was first submitted.
    Admitted {
        /// Where.
        pos: u64,
    },
    /// It is not in the log and never will be.
    Refused(Reason),
    /// The store stopped before the recorder spoke: it may or may not be recorded. The next host's log knows.
    Unknown,
}

/// Is told the verdict, exactly once, as a rule on the recorder's thread: must be cheap and must not block.
pub type Waiter = Box<dyn FnOnce(Verdict) + Send>;

/// Why a blob is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// It is larger than a blob may be.
    #[error("a blob of {bytes} bytes is larger than the {BLOB_BYTES_MAX} that are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The log cannot say whether it has the blob.
    #[error("the log cannot be read")]
    LogUnreadable,
    /// The store stopped before the blob was recorded; it may or may not be.
    #[error("the store stopped before the blob was recorded")]
    Unknown,
}

/// Is told the blob's digest when the log has it, and dropped when nobody knows.
pub type BlobWaiter = oneshot::Sender<Digest>;

/// Submits commits and blobs; cheap to clone.
#[derive(Clone)]
pub struct Publisher {
    shared: Arc<Shared>,
}

/// The stream is known to be the one that the log was read from: on this connection, for the so many-th time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ready {
    link: Link,
    round: u64,
}

/// An acknowledgement that is not above what had been read when its message was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Suspect {
    pub seq: u64,
    pub stood_at: u64,
}

struct Shared {
    hold: Mutex<Hold>,
    /// What the stream lost; goes before what is held.
    refill: Mutex<Refill>,
    /// Set by the reader; nothing is sent while it is not.
    ready: watch::Sender<Option<Ready>>,
    /// Held while a message is on its way.
    sending: tokio::sync::Mutex<()>,
    suspect: watch::Sender<Suspect>,
    /// Something is unsent, or the publisher is to end.
    wake: Notify,
    /// Something is not held any more.
    eased: Notify,
    closed: AtomicBool,
    /// When the recorder last spoke, or the first commit was submitted to an empty hold.
    heard: Mutex<Mono>,
    /// How far the recorder has read the stream.
    read: AtomicU64,
    fate: Fate,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A waiter that panicked leaves the hold as it was: every change to it is complete before a waiter is called.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Publisher {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                hold: Mutex::default(),
                refill: Mutex::default(),
                ready: watch::Sender::new(None),
                sending: tokio::sync::Mutex::default(),
                suspect: watch::Sender::new(Suspect::default()),
                wake: Notify::new(),
                eased: Notify::new(),
                closed: AtomicBool::new(false),
                heard: Mutex::new(clock::mono()),
                read: AtomicU64::new(0),
                fate: Fate::default(),
            }),
        }
    }

    /// Hands over a commit; never blocks. `hash` is the SHA-256 of `bytes`.
    pub fn submit(&self, tenant: TenantId, bytes: Bytes, hash: Digest, waiter: Waiter) {
        if bytes.len() > COMMIT_BYTES_MAX {
            // No server need take a message of its size, and what can never be sent would hold up its tenant for ever.
            waiter(Verdict::Refused(Reason::TooLarge));
            return;
        }
        {
            let mut hold = lock(&self.shared.hold);
            // Read under the lock: whoever closes takes the lock after it set the mark, and abandons what is held then.
            if !self.shared.closed.load(Ordering::Acquire) {
                if hold.is_empty() {
                    *lock(&self.shared.heard) = clock::mono();
                }
                hold.add_commit(tenant, bytes, hash, waiter);
                drop(hold);
                self.shared.wake.notify_one();
                return;
            }
        }
        waiter(Verdict::Unknown);
    }

    /// Hands over a blob; the receiver resolves when the log has it.
    pub(crate) fn submit_blob(
        &self,
        tenant: TenantId,
        blob: Digest,
        whole: Bytes,
    ) -> oneshot::Receiver<Digest> {
        let (told, recorded) = oneshot::channel();
        let mut hold = lock(&self.shared.hold);
        if !self.shared.closed.load(Ordering::Acquire) {
            if hold.is_empty() {
                *lock(&self.shared.heard) = clock::mono();
            }
            hold.add_blob(tenant, blob, whole, told);
            drop(hold);
            self.shared.wake.notify_one();
        }
        recorded
    }

    /// Commits and blobs that the recorder has not spoken about.
    #[must_use]
    pub fn waiting(&self) -> usize {
        lock(&self.shared.hold).len()
    }

    /// For how long the recorder has been silent while something waits for it; zero when nothing waits.
    #[must_use]
    pub fn silent_for(&self) -> std::time::Duration {
        if lock(&self.shared.hold).is_empty() {
            return std::time::Duration::ZERO;
        }
        lock(&self.shared.heard).elapsed()
    }

    /// The recorder speaks about commits, after the fsync of those that it admitted.
    pub(crate) fn release(&self, verdicts: &[(Digest, Verdict)]) {
        let mut told = Vec::with_capacity(verdicts.len());
        {
            let mut hold = lock(&self.shared.hold);
            for (hash, verdict) in verdicts {
                hold.release_commit(hash, &mut told, verdict);
            }
        }
        if !told.is_empty() {
            self.hear();
        }
        for (waiter, verdict) in told {
            waiter(verdict);
        }
    }

    /// The recorder speaks about a blob that it has recorded.
    pub(crate) fn release_blob(&self, tenant: &TenantId, blob: Digest) {
        let waiters = lock(&self.shared.hold).release_blob(tenant, blob);
        self.hear();
        for waiter in waiters {
            // Who does not wait any more needs no answer.
            let _ = waiter.send(blob);
        }
    }

    /// The recorder got further, if only by a chunk: the silence is over.
    pub(crate) fn hear(&self) {
        *lock(&self.shared.heard) = clock::mono();
        self.shared.eased.notify_waiters();
    }

    /// How far the recorder has read the stream; compared with the numbers that the stream gives to new messages.
    pub(crate) fn recorder_read(&self, seq: u64) {
        self.shared.read.store(seq, Ordering::Release);
        let is_refilling = {
            let mut refill = lock(&self.shared.refill);
            refill.written();
            !refill.is_empty()
        };
        if is_refilling {
            // What was read may have to be put back as well, or does not hold up anything any more.
            self.shared.wake.notify_one();
        }
    }

    /// Waits until nothing is held.
    pub(crate) async fn drained(&self) {
        loop {
            let eased = self.shared.eased.notified();
            tokio::pin!(eased);
            eased.as_mut().enable();
            if lock(&self.shared.hold).is_empty() {
                return;
            }
            eased.await;
        }
    }

    /// Takes nothing any more and lets go of what is held: its fate is unknown.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        let (waiters, blobs) = lock(&self.shared.hold).abandon();
        for waiter in waiters {
            waiter(Verdict::Unknown);
        }
        drop(blobs);
        self.shared.wake.notify_one();
        self.shared.eased.notify_waiters();
    }

    /// Nothing more is sent, and nothing is on its way when this returns.
    pub(crate) async fn hold_off(&self) {
        self.shared.ready.send_replace(None);
        drop(self.shared.sending.lock().await);
    }

    /// The stream on this connection is the one that the log was read from, or what it lost is known: sending goes on.
    pub(crate) fn go_on(&self, link: Link, round: u64) {
        self.shared.ready.send_replace(Some(Ready { link, round }));
    }

    /// Acknowledgements that make the reader ask.
    pub(crate) fn suspects(&self) -> watch::Receiver<Suspect> {
        self.shared.suspect.subscribe()
    }

    /// What the stream must get again before anything new.
    pub(crate) fn refill(&self, lost: Lost) {
        *lock(&self.shared.refill) = Refill::of(lost);
        self.hear();
    }

    /// Lets the recorder say what was read from the stream again.
    pub(crate) fn with_refill<T>(&self, told: impl FnOnce(&mut Refill) -> T) -> T {
        let was_empty;
        let (result, is_empty) = {
            let mut refill = lock(&self.shared.refill);
            was_empty = refill.is_empty();
            let result = told(&mut refill);
            (result, refill.is_empty())
        };
        if is_empty && !was_empty {
            tracing::info!("the stream has everything again");
            self.shared.wake.notify_one();
        }
        result
    }

    /// Commits and blobs that the stream does not have again yet.
    #[must_use]
    pub fn refilling(&self) -> u64 {
        lock(&self.shared.refill).count()
    }

    /// What was sent and not stored since, if that is so.
    pub(crate) fn unstored(&self) -> Option<Unstored> {
        self.shared.fate.unstored()
    }

    /// How many messages the stream took.
    pub(crate) fn stored(&self) -> u64 {
        self.shared.fate.stored()
    }

    /// What was sent before went to another server.
    pub(crate) fn forget_unstored(&self) {
        self.shared.fate.forget();
    }

    fn send_again(&self) {
        lock(&self.shared.refill).send_again();
        lock(&self.shared.hold).send_again();
    }

    /// Sends, until closed.
    pub(crate) async fn run(self, bus: Bus, log: LogReader) {
        let mut link = bus.link();
        let mut ready = self.shared.ready.subscribe();
        let mut round = None;
        let mut failures = 0;
        while !self.shared.closed.load(Ordering::Acquire) {
            let sending = self.shared.sending.lock().await;
            let now = *link.borrow_and_update();
            let told = *ready.borrow_and_update();
            let Some(told) = told.filter(|told| now.is_up() && told.link == now) else {
                drop(sending);
                tokio::select! {
                    changed = link.changed() => if changed.is_err() { return },
                    _ = ready.changed() => {}
                    () = self.shared.wake.notified() => {}
                }
                continue;
            };
            if round != Some(told) {
                round = Some(told);
                self.send_again();
            }
            self.gather().await;
            let Some(message) = self.next_message(&log, bus.message_bytes_max()) else {
                drop(sending);
                self.idle(&mut link, &mut ready).await;
                continue;
            };
            match self.send(&bus, &mut link, message).await {
                Sent::Stored => {
                    failures = 0;
                    self.shared.fate.is_stored();
                }
                Sent::Unclear => {
                    drop(sending);
                    let wait = clock::backoff(failures, BACKOFF_FIRST, BACKOFF_LONGEST);
                    failures += 1;
                    tokio::select! {
                        () = clock::pause(wait) => {}
                        _ = link.changed() => link.mark_changed(),
                    }
                    self.send_again();
                }
                Sent::Suspect(suspect) => {
                    self.shared.ready.send_replace(None);
                    self.shared.suspect.send_replace(suspect);
                }
            }
        }
    }

    /// Lets whoever can run hand over its commit first, as long as each turn brings more: a message and an fsync cost the same for one commit
    /// and for many. No timer: with nobody else to run it costs nothing.
    async fn gather(&self) {
        let mut held = self.waiting();
        for _ in 0..GATHER_TURNS_MAX {
            if held == 0 {
                return;
            }
            tokio::task::yield_now().await;
            let now = self.waiting();
            if now <= held {
                return;
            }
            held = now;
        }
    }

    /// What the stream lost, then what is held.
    fn next_message(&self, log: &LogReader, bytes_max: usize) -> Option<Outgoing> {
        {
            let mut refill = lock(&self.shared.refill);
            let lost = refill.next_message(log, bytes_max);
            if lost.is_some() || refill.holds_up() {
                return lost;
            }
        }
        lock(&self.shared.hold).next_message(bytes_max)
    }

    /// Nothing is unsent: waits for something new, or sends again when the recorder is silent about what was sent.
    async fn idle(
        &self,
        link: &mut watch::Receiver<Link>,
        ready: &mut watch::Receiver<Option<Ready>>,
    ) {
        tokio::select! {
            () = self.shared.wake.notified() => {}
            _ = link.changed() => link.mark_changed(),
            _ = ready.changed() => ready.mark_changed(),
            () = clock::pause(SILENCE) => {
                let waiting = self.waiting() as u64 + self.refilling();
                if waiting > 0 && lock(&self.shared.heard).elapsed() >= SILENCE {
                    tracing::warn!(waiting, "the recorder is silent about what was sent: sending again");
                    self.send_again();
                    self.hear();
                }
            }
        }
    }

    async fn send(&self, bus: &Bus, link: &mut watch::Receiver<Link>, message: Outgoing) -> Sent {
        let subject = match message.lane {
            Lane::Commits => bus.realm().commits(&message.tenant),
            Lane::Chunks => bus.realm().blobs(&message.tenant),
        };
        let stood_at = self.shared.read.load(Ordering::Acquire);
        let publish = async {
            let ack = bus.jetstream().publish(subject, message.payload).await?;
            ack.await
        };
        tokio::select! {
            answer = tokio::time::timeout(ACK_WAIT, publish) => match answer {
                Ok(Ok(ack)) if ack.sequence > stood_at => Sent::Stored,
                Ok(Ok(ack)) => {
                    tracing::warn!(seq = ack.sequence, stood_at, "the stream gave a new message a number that it had given before");
                    Sent::Suspect(Suspect { seq: ack.sequence, stood_at })
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a message was not acknowledged: sending again");
                    self.shared.fate.is_unclear(error.to_string());
                    Sent::Unclear
                }
                Err(_) => {
                    tracing::warn!("no acknowledgement in time: sending again");
                    self.shared.fate.is_unclear("no acknowledgement in time".to_owned());
                    Sent::Unclear
                }
            },
            _ = link.changed() => {
                link.mark_changed();
                self.shared.fate.forget();
                Sent::Unclear
            }
        }
    }
}

enum Sent {
    Stored,
    Unclear,
    Suspect(Suspect),
}

impl Source for LogReader {
    fn commit(&self, pos: u64) -> Option<(TenantId, Bytes)> {
        match self.commit_at_position(pos) {
            Ok(Some(found)) if Digest::of(&found.bytes) == found.hash => {
                Some((found.tenant, found.bytes))
            }
            Ok(_) => {
                tracing::error!(
                    pos,
                    "the stream lost this commit, and the log's own copy is damaged"
                );
                None
            }
            Err(error) => {
                tracing::error!(%error, pos, "the stream lost this commit, and the log cannot be read");
                None
            }
        }
    }

    fn blob(&self, tenant: &TenantId, blob: &Digest) -> Option<Bytes> {
        Self::blob(self, tenant, blob).unwrap_or_else(|error| {
            tracing::error!(%error, %tenant, %blob, "the stream lost this blob, and the log's own copy is damaged");
            None
        })
    }
}
