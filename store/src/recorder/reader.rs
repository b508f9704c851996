//! The shell of `follow.rs`: asks the stream what the machine wants to know, reads with a consumer of its own, and makes a new one at every
//! connection event, error or missed heartbeat.
//!
//! The client library's ordered consumer is not used: after a restart of nats-server it was silent for 15 to 80 s, and after a lost tail it
//! skipped messages for good without an error.

use async_nats::jetstream::{
    consumer::{AckPolicy, DeliverPolicy, pull},
    stream::RawMessageErrorKind,
};
use bytes::Bytes;
use coppice_messages::Digest;
use futures::StreamExt as _;
use tokio::sync::{mpsc, watch};

use super::Arrival;
use crate::{
    bus::{Bus, Link},
    clock,
    fatal::{Fatal, FatalCell},
    follow::{Follower, Input, Output},
    limits::{
        BACKOFF_FIRST, BACKOFF_LONGEST, CONSUMER_IDLE, HEARTBEAT, READ_BYTES, READ_EXPIRES,
        READ_MESSAGES,
    },
};

/// Reads the stream and hands its messages to the recorder.
pub(crate) struct Reader {
    bus: Bus,
    link: watch::Receiver<Link>,
    follower: Follower,
    /// The payload of the last message handed over, digested only when it must be compared.
    last: Option<Bytes>,
    arrivals: mpsc::Sender<Arrival>,
    /// The last message that the stream had when it was last asked.
    seen: u64,
    /// The last message that the stream had when it was first read.
    target: watch::Sender<Option<u64>>,
    fatal: FatalCell,
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
        follower: Follower,
        arrivals: mpsc::Sender<Arrival>,
        target: watch::Sender<Option<u64>>,
        fatal: FatalCell,
    ) -> Self {
        Self {
            link: bus.link(),
            bus,
            follower,
            last: None,
            seen: 0,
            arrivals,
            target,
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
        if self.link.wait_for(|link| link.is_up()).await.is_err() {
            return Pause::End;
        }
        if let Some(payload) = self.last.take() {
            self.follower.set_digest(Digest::of(&payload));
        }
        let mut output = self.follower.step(&Input::Reconnected);
        loop {
            let input = match output {
                Output::AskInfo => match self.ask_info().await {
                    Some(input) => input,
                    None => return Pause::Retry,
                },
                Output::AskMessage(seq) => match self.ask_message(seq).await {
                    Some(input) => input,
                    None => return Pause::Retry,
                },
                Output::Read { from } => {
                    // Only now: a stream that must not be followed has no target.
                    let last = self.seen;
                    self.target.send_if_modified(|target| {
                        let first = target.is_none();
                        target.get_or_insert(last);
                        first
                    });
                    return self.read(from).await;
                }
                Output::Stop(fault) => {
                    self.fatal.set(Fatal::StreamWentBack(fault));
                    return Pause::End;
                }
                Output::Admit | Output::Ignore => return Pause::Retry,
            };
            output = self.follower.step(&input);
        }
    }

    async fn ask_info(&mut self) -> Option<Input> {
        match self.bus.stream_info().await {
            Ok(Some(info)) => {
                let last = info.state.last_sequence;
                self.seen = last;
                Some(Input::Info {
                    created: i64::try_from(info.created.unix_timestamp_nanos()).unwrap_or(i64::MAX),
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

    async fn ask_message(&self, seq: u64) -> Option<Input> {
        match self.bus.stream().get_raw_message(seq).await {
            Ok(message) => Some(Input::AtPosition(Some(Digest::of(&message.payload)))),
            Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => {
                Some(Input::AtPosition(None))
            }
            Err(error) => {
                tracing::warn!(%error, seq, "the message at the log's position cannot be fetched");
                None
            }
        }
    }

    async fn read(&mut self, from: u64) -> Pause {
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: from,
            },
            ack_policy: AckPolicy::None,
            inactive_threshold: CONSUMER_IDLE,
            num_replicas: 1,
            memory_storage: true,
            ..pull::Config::default()
        };
        let consumer = match self.bus.stream().create_consumer(config).await {
            Ok(consumer) => consumer,
            Err(error) => {
                tracing::warn!(%error, "no consumer can be made on the stream");
                return Pause::Retry;
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
        let mut messages = match opened {
            Ok(messages) => messages,
            Err(error) => {
                tracing::warn!(%error, "the stream cannot be read");
                return Pause::Retry;
            }
        };
        let created = self.follower.created().unwrap_or_default();
        loop {
            let message = tokio::select! {
                biased;
                _ = self.link.changed() => return Pause::Retry,
                message = messages.next() => message,
            };
            let message = match message {
                Some(Ok(message)) => message,
                Some(Err(error)) => {
                    tracing::warn!(%error, "reading the stream failed: making a new consumer");
                    return Pause::Retry;
                }
                None => return Pause::Retry,
            };
            let Ok(seq) = message.info().map(|info| info.stream_sequence) else {
                return Pause::Retry;
            };
            match self.follower.step(&Input::Message { seq }) {
                Output::Admit => {}
                Output::Ignore => continue,
                _ => return Pause::Retry,
            }
            let payload = message.payload.clone();
            self.last = Some(payload.clone());
            let arrival = Arrival {
                seq,
                created,
                subject: message.subject.as_str().to_owned(),
                payload,
            };
            if self.arrivals.send(arrival).await.is_err() {
                return Pause::End;
            }
        }
    }
}
