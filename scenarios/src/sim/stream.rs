//! The simulated stream: what JetStream does with messages, and what it was seen to do to them.

use bytes::Bytes;
use coppice_messages::ids::TenantId;
use coppice_store::Lane;

/// One message of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Whose.
    pub tenant: TenantId,
    /// On which of the tenant's subjects.
    pub lane: Lane,
    /// Its bytes.
    pub payload: Bytes,
}

/// A message as the stream has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// When it was stored, in nanoseconds: no two are of one time, and a copy keeps it.
    pub at: i64,
    /// What was sent.
    pub message: Message,
}

/// What a stream says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// When it was created, in nanoseconds.
    pub created: i64,
    /// Its first message; one above the last when it has none.
    pub first: u64,
    /// Its last message.
    pub last: u64,
}

/// A stream: messages with numbers from 1 on, without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    created: i64,
    /// The time, which no copy puts back.
    now: i64,
    messages: Vec<StoredMessage>,
}

impl Stream {
    /// An empty stream, created at this time.
    #[must_use]
    pub fn new(created: i64) -> Self {
        Self {
            created,
            now: created,
            messages: Vec::new(),
        }
    }

    /// What it says about itself.
    #[must_use]
    pub fn info(&self) -> Info {
        Info {
            created: self.created,
            first: 1,
            last: self.messages.len() as u64,
        }
    }

    /// Stores a message and gives it the next number.
    pub fn append(&mut self, message: Message) -> u64 {
        self.now += 1;
        self.messages.push(StoredMessage {
            at: self.now,
            message,
        });
        self.messages.len() as u64
    }

    /// The message with this number.
    #[must_use]
    pub fn get(&self, seq: u64) -> Option<&StoredMessage> {
        let index = usize::try_from(seq.checked_sub(1)?).ok()?;
        self.messages.get(index)
    }

    /// All messages from this number on.
    pub fn from(&self, seq: u64) -> impl Iterator<Item = (u64, &StoredMessage)> {
        (1..)
            .zip(&self.messages)
            .skip_while(move |(at, _)| *at < seq)
    }

    /// Adds nothing and takes nothing away: the stream as it is put back from a copy.
    pub fn put_back(&mut self, copy: &Self) {
        let now = self.now.max(copy.now);
        self.clone_from(copy);
        self.now = now;
    }

    /// nats-server forgets everything above this number, as it does when it dies before it synced.
    pub fn lose_above(&mut self, seq: u64) {
        self.messages
            .truncate(usize::try_from(seq).unwrap_or(usize::MAX));
    }
}
