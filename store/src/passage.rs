//! Reads a stretch of the stream once, without following it: what can be read of it, and which messages of it are gone.
//!
//! A message whose bytes in the file are damaged is skipped by the consumer, or the consumer falls silent in front of it. So what was not brought is
//! asked for by its number, and counts as gone once the server says that it does not have it.

use std::fmt;

use async_nats::jetstream::{
    consumer::{AckPolicy, DeliverPolicy, pull},
    stream::{RawMessageErrorKind, Stream},
};
use bytes::Bytes;
use futures::StreamExt as _;

use crate::{
    limits::{CONSUMER_IDLE, READ_BYTES, READ_MESSAGES, STALLED},
    ranges::Ranges,
};

/// A message that could be read.
pub(crate) struct Passed {
    pub seq: u64,
    pub subject: String,
    pub payload: Bytes,
}

/// Goes through the messages `next..=last`.
pub(crate) struct Passage {
    stream: Stream,
    next: u64,
    last: u64,
    messages: Option<pull::Stream>,
    gone: Ranges,
}

fn said(error: impl fmt::Display) -> String {
    error.to_string()
}

impl Passage {
    pub fn new(stream: Stream, from: u64, last: u64) -> Self {
        Self {
            stream,
            next: from.max(1),
            last,
            messages: None,
            gone: Ranges::default(),
        }
    }

    /// The next message that can be read; none at the end. An error is what the client says of a bus that does not answer.
    pub async fn next(&mut self) -> Result<Option<Passed>, String> {
        while self.next <= self.last {
            if self.messages.is_none() {
                self.messages = Some(self.consume().await?);
            }
            let Some(messages) = &mut self.messages else {
                continue;
            };
            let message = match tokio::time::timeout(STALLED, messages.next()).await {
                Ok(Some(message)) => message.map_err(said)?,
                Ok(None) => return Err("it ended".to_owned()),
                Err(_) => {
                    self.messages = None;
                    if let Some(passed) = self.ask().await? {
                        return Ok(Some(passed));
                    }
                    continue;
                }
            };
            let seq = message.info().map_err(said)?.stream_sequence;
            if seq < self.next {
                continue;
            }
            if seq > self.next {
                // The consumer alone is not to be trusted.
                if let Some(passed) = self.fetch(self.next).await? {
                    self.messages = None;
                    self.next += 1;
                    return Ok(Some(passed));
                }
                self.gone.insert_run(self.next..=self.last.min(seq - 1));
            }
            self.next = seq + 1;
            if seq <= self.last {
                return Ok(Some(Passed {
                    seq,
                    subject: message.subject.as_str().to_owned(),
                    payload: message.payload.clone(),
                }));
            }
        }
        Ok(None)
    }

    /// Which messages of those that were passed are gone.
    pub fn gone(&self) -> &Ranges {
        &self.gone
    }

    /// One number after the other, to the first message that is there.
    async fn ask(&mut self) -> Result<Option<Passed>, String> {
        while self.next <= self.last {
            let found = self.fetch(self.next).await?;
            if found.is_none() {
                self.gone.insert(self.next);
            }
            self.next += 1;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    async fn fetch(&self, seq: u64) -> Result<Option<Passed>, String> {
        match self.stream.get_raw_message(seq).await {
            Ok(message) => Ok(Some(Passed {
                seq,
                subject: message.subject.as_str().to_owned(),
                payload: message.payload,
            })),
            Err(error) => match error.kind() {
                RawMessageErrorKind::NoMessageFound | RawMessageErrorKind::JetStream(_) => Ok(None),
                _ => Err(said(error)),
            },
        }
    }

    async fn consume(&self) -> Result<pull::Stream, String> {
        let own = self.stream.create_consumer(own_consumer(self.next));
        let consumer = own.await.map_err(said)?;
        let opened = consumer
            .stream()
            .max_messages_per_batch(READ_MESSAGES)
            .max_bytes_per_batch(READ_BYTES)
            .messages();
        opened.await.map_err(said)
    }
}

/// A consumer that belongs to one reader, from this message on: it acknowledges nothing, and what it is costs nothing to make anew.
pub(crate) fn own_consumer(from: u64) -> pull::Config {
    pull::Config {
        deliver_policy: DeliverPolicy::ByStartSequence {
            start_sequence: from,
        },
        ack_policy: AckPolicy::None,
        inactive_threshold: CONSUMER_IDLE,
        num_replicas: 1,
        memory_storage: true,
        ..pull::Config::default()
    }
}
