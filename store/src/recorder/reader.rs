//! The shell of `follow.rs`: asks the stream what the machine wants to know, reads with a consumer of its own, and makes a new one at every
//! connection event, error or missed heartbeat.
//!
//! The client library's ordered consumer is not used: after a restart of nats-server it was silent for 15 to 80 s, and after a lost tail it
//! skipped messages for good without an error.

use async_nats::{
    datetime::DateTime,
    jetstream::{
        consumer::pull,
        stream::{RawMessageError, RawMessageErrorKind, Stream},
    },
};
use coppice_messages::Digest;
use futures::StreamExt as _;
use tokio::sync::{mpsc, oneshot, watch};

use super::{Arrival, Fed, Progress};
use crate::{
    bus::{Bus, Link},
    clock,
    fatal::{Fatal, FatalCell},
    follow::{Follower, Input, Loss, Output, Trimmed},
    gone,
    limits::{
        BACKOFF_FIRST, BACKOFF_LONGEST, HEARTBEAT, READ_BYTES, READ_EXPIRES, READ_MESSAGES,
        STALLED, UNREADABLE_MAX,
    },
    log::LogReader,
    passage::own_consumer,
    publisher::{Publisher, Suspect},
    subjects::parse_stream_subject,
    wire,
};

/// Reads the stream and hands its messages to the recorder.
pub(crate) struct Reader {
    bus: Bus,
    link: watch::Receiver<Link>,
    follower: Follower,
    /// Whether the stream is that of a private server, which nobody else uses.
    private: bool,
    log: LogReader,
    publisher: Publisher,
    suspects: watch::Receiver<Suspect>,
    to: Recording,
    /// The last message that the stream had when it was last asked.
    seen: u64,
    /// How often reading began.
    round: u64,
    /// Since when a message that the stream has cannot be read, and the last message that was.
    unreadable: Option<(clock::Mono, u64)>,
    fatal: FatalCell,
}

/// The recorder, seen from the reader.
pub(crate) struct Recording {
    pub fed: mpsc::Sender<Fed>,
    pub progress: watch::Receiver<Progress>,
    /// The last message that the stream had when it was first read.
    pub target: watch::Sender<Option<u64>>,
}

/// Why reading paused.
enum Pause {
    /// Something about the bus: look again.
    Retry,
    /// The recorder has ended, or the stream must not be followed.
    End,
}

impl Reader {
    pub fn new(
        bus: Bus,
        (follower, private): (Follower, bool),
        (log, publisher): (LogReader, Publisher),
        to: Recording,
        fatal: FatalCell,
    ) -> Self {
        Self {
            link: bus.link(),
            bus,
            follower,
            private,
            log,
            suspects: publisher.suspects(),
            publisher,
            to,
            seen: 0,
            round: 0,
            unreadable: None,
            fatal,
        }
    }

    /// Reads until nobody may read on.
    pub async fn run(mut self) {
        let mut failures = 0;
        loop {
            let before = self.follower.seq();
            if matches!(self.follow().await, Pause::End) {
                return;
            }
            failures = if self.follower.seq() > before {
                0
            } else {
                failures + 1
            };
            let wait = clock::backoff(failures, BACKOFF_FIRST, BACKOFF_LONGEST);
            tokio::select! {
                // A new connection is a reason to look at once.
                _ = self.link.changed() => failures = 0,
                () = clock::pause(wait) => {}
            }
        }
    }

    /// From a reconnection to the next.
    async fn follow(&mut self) -> Pause {
        self.publisher.hold_off().await;
        let link = match self.link.wait_for(|link| link.is_up()).await {
            Ok(link) => *link,
            Err(_) => return Pause::End,
        };
        // What was handed over is compared by what the recorder noted about it.
        let handed = self.follower.seq();
        let mut progress = self.to.progress.clone();
        if progress.wait_for(|p| p.stream >= handed).await.is_err() {
            return Pause::End;
        }
        let target = *self.to.target.borrow();
        if self.private && target.is_some_and(|target| progress.borrow().stream >= target) {
            self.follower.be_alone();
        }
        let mut output = self.follower.step(&Input::Reconnected);
        loop {
            let input = match output {
                Output::AskInfo => self.ask_info().await,
                Output::MakeStream => self.make_stream().await,
                Output::Compare(seq) => self.compare(seq).await,
                Output::PutBack(loss) => match self.put_back(loss).await {
                    Some(input) => Some(input),
                    None => return Pause::End,
                },
                Output::Read { from } => {
                    // Only now: a stream that must not be followed has no target.
                    let last = self.seen;
                    // One that lost what nobody had read ends earlier than it once said.
                    self.to.target.send_modify(|target| {
                        *target = Some(target.map_or(last, |known| known.min(last)));
                    });
                    return self.read(from, link).await;
                }
                Output::Stop(Trimmed { seq, .. }) if self.private => {
                    return self.name_what_is_gone(seq).await;
                }
                Output::Stop(fault) => {
                    self.fatal.set(Fatal::StreamTrimmed(fault));
                    return Pause::End;
                }
                Output::Admit | Output::Ignore => return Pause::Retry,
            };
            let Some(input) = input else {
                return Pause::Retry;
            };
            output = self.follower.step(&input);
        }
    }

    async fn make_stream(&mut self) -> Option<Input> {
        tracing::warn!("the stream is gone: making it again");
        match self.bus.make_stream().await {
            Ok(()) => self.ask_info().await,
            Err(error) => {
                tracing::warn!(%error, "the stream cannot be made");
                None
            }
        }
    }

    async fn put_back(&mut self, loss: Loss) -> Option<Input> {
        let (tell, known) = oneshot::channel();
        self.to.fed.send(Fed::WentBack(loss, tell)).await.ok()?;
        known.await.ok()?;
        Some(Input::PutBack)
    }

    async fn ask_info(&mut self) -> Option<Input> {
        match self.bus.stream_info().await {
            Ok(Some(info)) => {
                let last = info.state.last_sequence;
                self.seen = last;
                Some(Input::Info {
                    created: nanos(info.created),
                    first: info.state.first_sequence,
                    last,
                })
            }
            Ok(None) => Some(Input::Gone),
            Err(error) => {
                tracing::warn!(%error, "the stream does not say how far it is");
                None
            }
        }
    }

    async fn compare(&mut self, seq: u64) -> Option<Input> {
        let known = match self.log.message_digest(seq) {
            Ok(known) => known,
            Err(error) => {
                self.fatal.set(Fatal::log_read(&error));
                return None;
            }
        };
        let found = match digest_at(self.bus.stream(), seq).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, seq, "a message of the stream cannot be fetched");
                // Whoever follows looks again, until the store ends.
                let _pause = self.cannot_read().await;
                return None;
            }
        };
        let agrees = found.is_some() && found == known;
        Some(Input::Compared { seq, agrees })
    }

    /// A message that the stream has cannot be read: its file is damaged, or the bus is slow. When it stays so, a stream that nobody else uses
    /// is made anew; what it held is in the log, with the publisher, or was never told to anybody. Where that is not so, because the log is read
    /// from the stream, what is gone is named and the store ends.
    async fn cannot_read(&mut self) -> Pause {
        let at = self.follower.seq();
        let since = match self.unreadable {
            Some((since, known)) if known == at => since,
            _ => clock::mono(),
        };
        self.unreadable = Some((since, at));
        if since.elapsed() < UNREADABLE_MAX {
            return Pause::Retry;
        }
        if !self.follower.is_alone() {
            tracing::error!(behind = at, "the stream cannot be read on");
            return self.name_what_is_gone(at).await;
        }
        tracing::error!(
            behind = at,
            "the stream cannot be read on: it is made anew and filled from the log"
        );
        self.unreadable = None;
        if let Err(error) = self.bus.remake_stream().await {
            tracing::error!(%error, "the stream cannot be made anew");
        }
        Pause::Retry
    }

    async fn name_what_is_gone(&mut self, at: u64) -> Pause {
        let behind = (at + 1, self.seen);
        match gone::behind(self.bus.stream(), &self.log, behind).await {
            Ok(Some(gone)) => {
                let aside = Vec::new();
                self.fatal.set(Fatal::StreamGone { gone, aside });
                Pause::End
            }
            Ok(None) => Pause::Retry,
            Err(error) => {
                tracing::error!(error, "what lies behind cannot be looked through");
                Pause::Retry
            }
        }
    }

    /// A consumer of its own, from this message on.
    async fn consume(&self, from: u64) -> Option<pull::Stream> {
        let own = own_consumer(from);
        let consumer = match self.bus.stream().create_consumer(own).await {
            Ok(consumer) => consumer,
            Err(error) => {
                tracing::warn!(%error, "no consumer can be made on the stream");
                return None;
            }
        };
        let opened = consumer
            .stream()
            .max_messages_per_batch(READ_MESSAGES)
            .max_bytes_per_batch(READ_BYTES)
            .expires(READ_EXPIRES)
            .heartbeat(HEARTBEAT)
            .messages()
            .await;
        opened
            .inspect_err(|error| tracing::warn!(%error, "the stream cannot be read"))
            .ok()
    }

    async fn read(&mut self, from: u64, link: Link) -> Pause {
        let Some(mut messages) = self.consume(from).await else {
            return Pause::Retry;
        };
        let created = self.follower.created().unwrap_or_default();
        self.round += 1;
        self.publisher.go_on(link, self.round);
        loop {
            let message = tokio::select! {
                biased;
                _ = self.link.changed() => return Pause::Retry,
                changed = self.suspects.changed() => {
                    let Suspect { seq, stood_at } = *self.suspects.borrow_and_update();
                    let ack = Input::Ack { seq, stood_at };
                    if changed.is_err() || self.follower.step(&ack) != Output::Ignore {
                        return Pause::Retry;
                    }
                    continue;
                }
                message = messages.next() => message,
                // It said that it has more. A message that was skipped shows by the next one, and none may come.
                () = clock::pause(STALLED), if self.follower.seq() < self.seen => {
                    tracing::warn!("the consumer brings nothing of what there is: making a new one");
                    return self.cannot_read().await;
                }
            };
            let message = match message {
                Some(Ok(message)) => message,
                Some(Err(error)) => {
                    tracing::warn!(%error, "reading the stream failed: making a new consumer");
                    return Pause::Retry;
                }
                None => return Pause::Retry,
            };
            let Ok((seq, at)) = message
                .info()
                .map(|info| (info.stream_sequence, nanos(info.published)))
            else {
                return Pause::Retry;
            };
            match self.follower.step(&Input::Message { seq }) {
                Output::Admit => {}
                Output::Ignore => continue,
                _ => {
                    let read = self.follower.seq();
                    tracing::warn!(read, brought = seq, "the stream skips messages");
                    return self.cannot_read().await;
                }
            }
            let arrival = Arrival {
                seq,
                created,
                at,
                subject: message.subject.as_str().to_owned(),
                payload: message.payload.clone(),
            };
            if self.to.fed.send(Fed::Message(arrival)).await.is_err() {
                return Pause::End;
            }
        }
    }
}

/// By what the message at a number is known again; none when the stream has none there.
pub(crate) async fn digest_at(
    stream: &Stream,
    seq: u64,
) -> Result<Option<Digest>, RawMessageError> {
    match stream.get_raw_message(seq).await {
        Ok(message) => {
            let lane = parse_stream_subject(&message.subject).map(|(lane, _)| lane);
            let at = nanos(message.time);
            Ok(Some(wire::message_digest(lane, at, &message.payload)))
        }
        Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Nanoseconds since 1970.
pub(crate) fn nanos(at: DateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos()).unwrap_or(i64::MAX)
}
