//! The feed: every recorded event, live, as JSON, for any subscriber. It never holds the recorder up: what does not fit is dropped and counted,
//! and whoever wants no gap reads from a position.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use async_nats::{Client, HeaderMap, HeaderName, HeaderValue};
use coppice_messages::{
    Cause, Commit, Digest, Event, Timestamp,
    ids::{RunId, TenantId, TreeId},
};
use serde::Serialize;
use tokio::sync::mpsc;

use super::Admitted;
use crate::{
    bus::{self, Refusals},
    limits::FEED_EVENTS_MAX,
    subjects::Realm,
};

/// The name of the feed's connection.
pub(crate) const CONNECTION: &str = "coppice-feed";

const POS: HeaderName = HeaderName::from_static("Coppice-Pos");
const SEQ: HeaderName = HeaderName::from_static("Coppice-Seq");
const AT: HeaderName = HeaderName::from_static("Coppice-At");
const TRACE: HeaderName = HeaderName::from_static("traceparent");
/// Room for an event as most are; a larger one asks for more.
const EVENT_BYTES: usize = 1_024;

/// One recorded event as the feed and `tail` show it (`spec/events.md`, Subjects).
#[derive(Debug, Serialize)]
pub struct FeedEvent<'a> {
    /// Position of its commit, the same for all its events.
    pub pos: u64,
    /// Whose run.
    pub tenant: &'a TenantId,
    /// Its tree.
    pub tree: &'a TreeId,
    /// The run.
    pub run: &'a RunId,
    /// Number of the event.
    pub seq: u64,
    /// Epoch of its commit.
    pub epoch: u64,
    /// Time of its commit.
    pub at: Timestamp,
    /// Its kind.
    pub kind: &'a str,
    /// Format version of its body.
    pub v: u16,
    /// What led to it.
    pub cause: Option<&'a Cause>,
    /// What it says.
    pub body: &'a Event,
    /// SHA-256 of its commit's bytes.
    pub commit: Digest,
}

impl<'a> FeedEvent<'a> {
    /// The events of a recorded commit, in order.
    pub fn of_commit(
        pos: u64,
        hash: Digest,
        commit: &'a Commit,
    ) -> impl Iterator<Item = FeedEvent<'a>> {
        (commit.seq..)
            .zip(&commit.events)
            .map(move |(seq, entry)| FeedEvent {
                pos,
                tenant: &commit.tenant,
                tree: &commit.tree,
                run: &commit.run,
                seq,
                epoch: commit.epoch,
                at: commit.at,
                kind: entry.event.kind(),
                v: entry.event.version(),
                cause: entry.cause.as_ref(),
                body: &entry.event,
                commit: hash,
            })
    }
}

/// The recorder's end of the feed. When it is dropped, the feed ends after what it was offered.
pub(crate) struct Feed {
    queue: mpsc::UnboundedSender<Vec<Admitted>>,
    // The bound of the queue, in events; a channel could only bound batches.
    waiting: Arc<AtomicUsize>,
    dropped: Dropped,
}

/// How many events were dropped since the start; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Dropped(Arc<AtomicU64>);

impl Dropped {
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, events: usize) {
        self.0.fetch_add(events as u64, Ordering::Relaxed);
    }
}

impl Feed {
    /// Starts the feed on a connection of its own, so that it never stands before a commit.
    pub fn start(
        client: Client,
        realm: Realm,
        refusals: Refusals,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (queue, taken) = mpsc::unbounded_channel();
        let feed = Self {
            queue,
            waiting: Arc::default(),
            dropped: Dropped::default(),
        };
        let publish = Publish {
            client,
            realm,
            refusals,
            waiting: Arc::clone(&feed.waiting),
            dropped: feed.dropped.clone(),
        };
        (feed, tokio::spawn(publish.run(taken)))
    }

    /// Offers recorded commits; those that do not fit any more are dropped and counted.
    pub fn offer(&self, mut commits: Vec<Admitted>) {
        let mut waiting = self.waiting.load(Ordering::Acquire);
        let before = waiting;
        let mut fits = 0;
        for commit in &commits {
            if waiting + commit.events > FEED_EVENTS_MAX {
                break;
            }
            waiting += commit.events;
            fits += 1;
        }
        let over: usize = commits.drain(fits..).map(|commit| commit.events).sum();
        self.dropped.add(over);
        self.waiting.fetch_add(waiting - before, Ordering::AcqRel);
        if !commits.is_empty() {
            // A feed that ended takes nothing; the host is about to end too.
            let _ = self.queue.send(commits);
        }
    }

    /// How many events were dropped.
    pub fn dropped(&self) -> Dropped {
        self.dropped.clone()
    }
}

struct Publish {
    client: Client,
    realm: Realm,
    refusals: Refusals,
    waiting: Arc<AtomicUsize>,
    dropped: Dropped,
}

impl Publish {
    async fn run(self, mut taken: mpsc::UnboundedReceiver<Vec<Admitted>>) {
        while let Some(commits) = taken.recv().await {
            let refused = self.refusals.times(CONNECTION);
            for commit in commits {
                self.commit(&commit).await;
                self.waiting.fetch_sub(commit.events, Ordering::AcqRel);
            }
            // A permission that was given meanwhile is not told; that nothing was refused this time tells it.
            if let Some(times) = refused
                && bus::round_trip(&self.client).await
            {
                self.refusals.settle(CONNECTION, times);
            }
        }
        // The server may be about to end: it is to have taken what was said last.
        if !bus::round_trip(&self.client).await {
            tracing::debug!("it is not known whether the feed's last events were taken");
        }
    }

    async fn commit(&self, admitted: &Admitted) {
        let Some(commit) = &admitted.commit else {
            tracing::warn!(
                pos = admitted.pos,
                "a recorded commit cannot be shown on the feed"
            );
            self.dropped.add(admitted.events);
            return;
        };
        let subjects = self
            .realm
            .events_of_run(&commit.tenant, &commit.tree, &commit.run);
        let headers = headers(admitted.pos, commit);
        for event in FeedEvent::of_commit(admitted.pos, admitted.hash, commit) {
            let subject = [&subjects, event.kind].concat();
            let mut headers = headers.clone();
            headers.insert(SEQ, HeaderValue::from(event.seq));
            let mut body = Vec::with_capacity(EVENT_BYTES);
            let sent = match serde_json::to_writer(&mut body, &event) {
                Ok(()) => self
                    .client
                    .publish_with_headers(subject, headers, body.into())
                    .await
                    .map_err(|e| e.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = sent {
                tracing::warn!(%error, pos = admitted.pos, "an event is dropped from the feed");
                self.dropped.add(1);
            }
        }
    }
}

/// What is the same for all events of a commit.
fn headers(pos: u64, commit: &Commit) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(POS, HeaderValue::from(pos));
    headers.insert(AT, commit.at.to_string());
    // A trace comes from whoever published the commit; a line break in it would end the header.
    let trace = commit.trace.as_str();
    if trace.bytes().all(|b| b.is_ascii_graphic()) && !trace.is_empty() {
        headers.insert(TRACE, trace);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commits(count: usize, events: usize) -> Vec<Admitted> {
        let commit = |pos| Admitted {
            pos,
            hash: Digest::ZERO,
            events,
            commit: None,
        };
        (1..=count as u64).map(commit).collect()
    }

    #[test]
    fn what_does_not_fit_the_queue_is_dropped_and_counted_and_the_recorder_goes_on() {
        let (queue, mut taken) = mpsc::unbounded_channel();
        let feed = Feed {
            queue,
            waiting: Arc::default(),
            dropped: Dropped::default(),
        };
        feed.offer(commits(3, FEED_EVENTS_MAX / 4));
        assert_eq!(feed.dropped().count(), 0);
        feed.offer(commits(2, FEED_EVENTS_MAX / 4));
        assert_eq!(feed.dropped().count(), FEED_EVENTS_MAX as u64 / 4);
        feed.offer(commits(1, 1));
        assert_eq!(feed.dropped().count(), FEED_EVENTS_MAX as u64 / 4 + 1);
        let mut queued = 0;
        while let Ok(batch) = taken.try_recv() {
            queued += batch.len();
        }
        assert_eq!(queued, 4);
    }
}
