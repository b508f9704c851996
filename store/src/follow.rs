//! Following the stream, as a pure machine: what to do next about a bus that reconnects, repeats, skips or forgets.
//!
//! The shell (`recorder/reader.rs`) carries out what it says. Before anything new is read or published, the message at the position is compared
//! with what was read there, and the stream's creation time with the one that is known. A stream that went back (a lost tail, an older copy,
//! one created anew, one that was purged) is followed on from the last message that agrees, and what it lost is put back first. Agreement
//! is monotone, because a stream only grows at its end: so the last message that agrees is found by halving.

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
    /// A message of the stream was fetched and compared with what was read.
    Compared {
        /// Its number.
        seq: u64,
        /// Whether the stream has it and it is the same.
        agrees: bool,
    },
    /// The stream gave a number to a message that was sent.
    Ack {
        /// The number.
        seq: u64,
        /// How far the stream had been read when the message was sent.
        stood_at: u64,
    },
    /// What the stream lost is noted and will be published before anything new.
    PutBack,
    /// The consumer brought a message.
    Message {
        /// Its number.
        seq: u64,
    },
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Ask the stream about itself. Nothing may be published from here until [`Output::Read`].
    AskInfo,
    /// Make the stream.
    MakeStream,
    /// Fetch this message and compare it with what was read; one that the log does not know does not agree.
    Compare(u64),
    /// The stream has only what lies in `first..=after` of what was read. The log's position in it becomes `after`, and everything that the
    /// log has from other messages is to be published, in the log's order, before anything new.
    PutBack(Loss),
    /// Make a new consumer from this message on; publishing goes on.
    Read {
        /// The first message to read.
        from: u64,
    },
    /// Hand the message to the recorder.
    Admit,
    /// It was read before, or nothing follows from it.
    Ignore,
    /// Stop: the stream must not be followed.
    Stop(Trimmed),
}

/// What the stream still has of what was read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Its first message.
    pub first: u64,
    /// The last message that is the one that was read; one less than `first` when there is none.
    pub after: u64,
    /// Its last message: what was published before the loss was noticed.
    pub until: u64,
    /// When it was created.
    pub created: i64,
    /// How the loss was noticed.
    pub why: WentBack,
}

/// How it was noticed that the stream does not have what was read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WentBack {
    /// Another stream of the same name.
    #[error("the stream was created anew, at {found} instead of {known} (nanoseconds since 1970)")]
    Recreated {
        /// The known time of creation.
        known: i64,
        /// The one found.
        found: i64,
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
    /// Messages are gone from its beginning.
    #[error("the stream begins at message {first}, but it had messages from {oldest} on")]
    Purged {
        /// The first message that it is known to have had.
        oldest: u64,
        /// The stream's first message.
        first: u64,
    },
}

/// Messages that were never read are gone: what they held is in neither stream nor log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stream begins at message {first}, but the log was read from it only up to message {seq}: messages {} to {} are in neither. Put back a copy of the data directory, taken while no host ran, that has them",
    seq + 1,
    first - 1
)]
pub struct Trimmed {
    /// The log's position.
    pub seq: u64,
    /// The stream's first message.
    pub first: u64,
}

/// Looking for the last message that agrees: `low` agrees or lies before everything that is known, `high` does not agree.
#[derive(Debug, Clone, Copy)]
struct Search {
    low: u64,
    high: u64,
    first: u64,
    until: u64,
    created: i64,
    why: WentBack,
}

/// The machine.
#[derive(Debug, Clone)]
pub struct Follower {
    seq: u64,
    /// The first message that the log knows; 0 when it knows none.
    oldest: u64,
    created: Option<i64>,
    /// Nobody else publishes on the stream.
    alone: bool,
    /// The stream must have its first message when nothing was read from it.
    from_the_first: bool,
    reading: bool,
    /// What the stream last said about itself, while the message at the position is compared.
    told: Option<(u64, u64)>,
    search: Option<Search>,
}

impl Follower {
    /// Follows on from where the log was read to; `oldest` is the first message that the log knows, if it knows any.
    #[must_use]
    pub fn new(position: Option<StreamPosition>, oldest: Option<u64>) -> Self {
        Self {
            seq: position.map_or(0, |p| p.seq),
            oldest: oldest.unwrap_or_default(),
            created: position.map(|p| p.created),
            alone: false,
            from_the_first: false,
            reading: false,
            told: None,
            search: None,
        }
    }

    /// Nobody else publishes on the stream. Then nothing is lost with messages that were not read: what they held is in the log, or still with
    /// the publisher, or nobody was ever told that it is recorded.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// The stream had its first message when it was made, and nobody takes messages out of it: one whose first messages are gone has not what an
    /// empty log is to be read from.
    #[must_use]
    pub fn from_the_first(mut self) -> Self {
        self.from_the_first = true;
        self
    }

    /// The log has everything that the stream had when this began: from now on nobody else publishes on it.
    pub fn be_alone(&mut self) {
        self.alone = true;
    }

    /// Whether nobody else publishes on the stream.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone
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

    /// One step.
    pub fn step(&mut self, input: &Input) -> Output {
        match *input {
            Input::Reconnected => self.ask(),
            Input::Info {
                created,
                first,
                last,
            } => self.info(created, first.max(1), last),
            Input::Gone => Output::MakeStream,
            Input::Compared { seq, agrees } => self.compared(seq, agrees),
            Input::Ack { seq, stood_at } if seq <= stood_at => self.ask(),
            Input::Ack { .. } => Output::Ignore,
            Input::PutBack => self.read_on(),
            Input::Message { seq } => self.message(seq),
        }
    }

    fn ask(&mut self) -> Output {
        self.reading = false;
        self.search = None;
        self.told = None;
        Output::AskInfo
    }

    fn info(&mut self, created: i64, first: u64, last: u64) -> Output {
        let seq = self.seq;
        let Some(known) = self.created else {
            if self.from_the_first && first > 1 {
                return Output::Stop(Trimmed { seq: 0, first });
            }
            // An empty log begins where the stream does; chains that began before are refused and named.
            self.created = Some(created);
            self.seq = first - 1;
            return self.read_on();
        };
        if known != created {
            let found = created;
            // The numbers of another stream mean nothing: nothing is compared.
            return self.put_back(Loss {
                first,
                after: first - 1,
                until: last,
                created,
                why: WentBack::Recreated { known, found },
            });
        }
        if first > seq + 1 && self.alone {
            let why = WentBack::Purged {
                oldest: seq + 1,
                first,
            };
            return self.put_back(Loss {
                first,
                after: first - 1,
                until: last,
                created,
                why,
            });
        }
        if first > seq + 1 {
            return Output::Stop(Trimmed { seq, first });
        }
        if last < seq {
            let why = WentBack::LostTail { seq, last };
            return self.search(last + 1, (first, last), why);
        }
        self.told = Some((first, last));
        if seq < first {
            // The stream has nothing of what was read, and nothing that was not: there is nothing to compare.
            return self.agreed();
        }
        Output::Compare(seq)
    }

    /// The message at the position is the one that was read there.
    fn agreed(&mut self) -> Output {
        let (first, last) = self.told.take().unwrap_or((self.oldest, self.seq));
        if self.oldest == 0 || first <= self.oldest {
            return self.read_on();
        }
        let why = WentBack::Purged {
            oldest: self.oldest,
            first,
        };
        self.put_back(Loss {
            first,
            after: self.seq,
            until: last,
            created: self.created.unwrap_or_default(),
            why,
        })
    }

    /// Looks for the last message that agrees below `high`, which does not.
    fn search(&mut self, high: u64, (first, last): (u64, u64), why: WentBack) -> Output {
        // What lies before the first message that the log knows cannot be compared; it was read, and is not read again.
        let low = (first - 1).max(self.oldest.saturating_sub(1).min(high - 1));
        let search = Search {
            low,
            high,
            first,
            until: last,
            created: self.created.unwrap_or_default(),
            why,
        };
        self.search = Some(search);
        if high - low > 1 {
            // As a rule only the end is lost: the last one first.
            return Output::Compare(high - 1);
        }
        self.found(search)
    }

    fn compared(&mut self, seq: u64, agrees: bool) -> Output {
        let Some(mut search) = self.search else {
            if agrees {
                return self.agreed();
            }
            let (first, last) = self.told.take().unwrap_or((1, seq));
            return self.search(seq, (first, last), WentBack::OtherMessage { seq });
        };
        if agrees {
            search.low = search.low.max(seq);
        } else {
            search.high = search.high.min(seq);
        }
        self.search = Some(search);
        if search.high - search.low > 1 {
            return Output::Compare(search.low.midpoint(search.high));
        }
        self.found(search)
    }

    fn found(&mut self, search: Search) -> Output {
        let Search {
            low,
            first,
            until,
            created,
            why,
            ..
        } = search;
        self.put_back(Loss {
            first,
            after: low,
            until,
            created,
            why,
        })
    }

    fn put_back(&mut self, loss: Loss) -> Output {
        self.search = None;
        self.told = None;
        self.seq = loss.after;
        self.created = Some(loss.created);
        self.oldest = if loss.after < loss.first {
            0
        } else {
            loss.first.max(self.oldest)
        };
        Output::PutBack(loss)
    }

    fn read_on(&mut self) -> Output {
        self.reading = true;
        self.told = None;
        Output::Read { from: self.seq + 1 }
    }

    fn message(&mut self, seq: u64) -> Output {
        if !self.reading || seq <= self.seq {
            return Output::Ignore;
        }
        if seq == self.seq + 1 {
            self.seq = seq;
            if self.oldest == 0 {
                self.oldest = seq;
            }
            return Output::Admit;
        }
        // A gap: the consumer is not to be trusted, the stream may be. It is asked.
        self.ask()
    }
}

#[cfg(test)]
mod tests;
