//! Following the stream, as a pure machine: what to do next about a bus that reconnects, repeats, skips or forgets.
//!
//! The shell (`recorder/reader.rs`) carries out what it says. Before anything new is read, the message at the position is compared with
//! what was read there, and the stream's creation time with the one that is known: a stream that went back must not be followed.

use coppice_messages::Digest;

use crate::log::StreamPosition;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The connection was made anew, or the consumer fell silent or failed.
    Reconnected,
    /// What the stream says about itself.
    Info {
        /// When it was created, in nanoseconds.
        created: i64,
        /// Its first message.
        first: u64,
        /// Its last message.
        last: u64,
    },
    /// There is no such stream.
    Gone,
    /// The message at the position: the digest of its payload, or none when the stream does not have it.
    AtPosition(Option<Digest>),
    /// The consumer brought a message.
    Message {
        /// Its number.
        seq: u64,
    },
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Ask the stream about itself.
    AskInfo,
    /// Fetch this message and digest it.
    AskMessage(u64),
    /// Make a new consumer from this message on.
    Read {
        /// The first message to read.
        from: u64,
    },
    /// Hand the message to the recorder.
    Admit,
    /// It was read before.
    Ignore,
    /// Stop: the stream must not be followed.
    Stop(WentBack),
}

/// The stream does not have what was read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WentBack {
    /// Another stream of the same name.
    #[error(
        "the stream was created anew (at {found} instead of {known}, in nanoseconds since 1970); it is not the one that the log was read from, up to its message {seq}"
    )]
    Recreated {
        /// The log's position.
        seq: u64,
        /// The known time of creation.
        known: i64,
        /// The one found.
        found: i64,
    },
    /// There is no stream any more.
    #[error("the stream is gone; the log was read from it up to message {seq}")]
    Gone {
        /// The log's position.
        seq: u64,
    },
    /// It ends before the position.
    #[error("the stream ends at message {last}, but the log was read from it up to message {seq}")]
    LostTail {
        /// The log's position.
        seq: u64,
        /// The stream's last message.
        last: u64,
    },
    /// Another message at the position.
    #[error("message {seq} of the stream is not the one that the log was read from")]
    OtherMessage {
        /// The log's position.
        seq: u64,
    },
    /// Messages that were never read are gone.
    #[error(
        "the stream begins at message {first}, but the log was read from it only up to message {seq}: what lies between is gone"
    )]
    Trimmed {
        /// The log's position.
        seq: u64,
        /// The stream's first message.
        first: u64,
    },
    /// The stream gave a new message a number that was used before.
    #[error("the stream gave a new message the number {acked}, although it had {seq} messages")]
    ReusedNumber {
        /// The position when the message was sent.
        seq: u64,
        /// The number given.
        acked: u64,
    },
}

/// The machine.
#[derive(Debug, Clone)]
pub struct Follower {
    seq: u64,
    digest: Digest,
    created: Option<i64>,
    reading: bool,
}

impl Follower {
    /// Follows on from where the log was read to.
    #[must_use]
    pub fn new(position: Option<StreamPosition>) -> Self {
        Self {
            seq: position.map_or(0, |p| p.seq),
            digest: position.map_or(Digest::ZERO, |p| p.digest),
            created: position.map(|p| p.created),
            reading: false,
        }
    }

    /// The stream's creation time, once it is known.
    #[must_use]
    pub fn created(&self) -> Option<i64> {
        self.created
    }

    /// The last message read.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The digest of the last message read. Taken by the shell when it is needed: digesting each message would cost as much as admitting it.
    pub fn set_digest(&mut self, digest: Digest) {
        self.digest = digest;
    }

    /// One step.
    pub fn step(&mut self, input: &Input) -> Output {
        match *input {
            Input::Reconnected => {
                self.reading = false;
                Output::AskInfo
            }
            Input::Info {
                created,
                first,
                last,
            } => self.info(created, first, last),
            Input::Gone => Output::Stop(WentBack::Gone { seq: self.seq }),
            Input::AtPosition(found) => {
                if found == Some(self.digest) {
                    self.read_on()
                } else {
                    Output::Stop(WentBack::OtherMessage { seq: self.seq })
                }
            }
            Input::Message { seq } => self.message(seq),
        }
    }

    fn info(&mut self, created: i64, first: u64, last: u64) -> Output {
        let seq = self.seq;
        let known = *self.created.get_or_insert(created);
        if known != created {
            return Output::Stop(WentBack::Recreated {
                seq,
                known,
                found: created,
            });
        }
        if last < seq {
            return Output::Stop(WentBack::LostTail { seq, last });
        }
        if first > seq + 1 {
            return Output::Stop(WentBack::Trimmed { seq, first });
        }
        if seq == 0 {
            return self.read_on();
        }
        Output::AskMessage(seq)
    }

    fn read_on(&mut self) -> Output {
        self.reading = true;
        Output::Read { from: self.seq + 1 }
    }

    fn message(&mut self, seq: u64) -> Output {
        if !self.reading || seq <= self.seq {
            return Output::Ignore;
        }
        if seq == self.seq + 1 {
            self.seq = seq;
            return Output::Admit;
        }
        // A gap: the consumer is not to be trusted, the stream may be. It is asked.
        self.reading = false;
        Output::AskInfo
    }
}

/// Compares the number that the stream gave to a message with how far the stream had been read when it was sent.
///
/// # Errors
/// A number that was used before: the stream went back.
pub fn check_ack(acked: u64, read_when_sent: u64) -> Result<(), WentBack> {
    if acked > read_when_sent {
        Ok(())
    } else {
        Err(WentBack::ReusedNumber {
            seq: read_when_sent,
            acked,
        })
    }
}

#[cfg(test)]
mod tests;
