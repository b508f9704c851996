//! The shell of following, around the store's own [`coppice_store::follow`]: asks the simulated stream what the machine wants to know.

use std::collections::BTreeMap;

use coppice_messages::Digest;
use coppice_store::{
    follow::{Follower, Input, Output},
    log::StreamPosition,
    wire,
};

use crate::sim::{
    agenda::Ticket,
    step::Step,
    stream::Message,
    world::{MS, World},
};

/// Microseconds without a sign of life after which a consumer counts as dead.
const HEARTBEATS_MISSED: u64 = 1_500_000;

/// The state of the shell.
pub(super) struct Reader {
    follower: Follower,
    /// Digests of what was handed over in this host's life; those of earlier lives are in the log.
    handed: BTreeMap<u64, Digest>,
    /// The stream's last message when it was last asked.
    seen: u64,
    /// The stream's last message when it was first read.
    target: Option<u64>,
    beat: Option<Ticket>,
}

impl Reader {
    pub fn new(position: Option<StreamPosition>) -> Self {
        Self {
            follower: Follower::new(position, position.map(|_| 1)),
            handed: BTreeMap::new(),
            seen: 0,
            target: None,
            beat: None,
        }
    }

    /// The last message read.
    pub fn seq(&self) -> u64 {
        self.follower.seq()
    }

    /// Whether the recorder, which is at `read`, has all that the stream had at the start.
    pub fn has_caught_up(&self, read: u64) -> bool {
        self.target.is_some_and(|target| read >= target)
    }
}

impl World {
    /// The reader begins anew: a new connection, an error, a missed heartbeat.
    pub(in crate::sim) fn look(&mut self) {
        if !self.server.is_up {
            return;
        }
        self.server.consumer = None;
        self.follow(&Input::Reconnected);
    }

    pub(super) fn follow(&mut self, input: &Input) {
        let output = self.host.reader.follower.step(input);
        self.note(format_args!("follow {input:?} -> {output:?}"));
        match output {
            Output::AskInfo => {
                let info = self.server.stream.info();
                let said = Input::Info {
                    created: info.created,
                    first: info.first,
                    last: info.last,
                };
                self.host.reader.seen = info.last;
                self.answer(said);
            }
            Output::Compare(seq) => {
                let found = self.server.stream.get(seq).map(digest);
                let known = self.host.reader.handed.get(&seq).copied();
                let known = known.or_else(|| self.log.message(seq));
                let agrees = found.is_some() && found == known;
                self.answer(Input::Compared { seq, agrees });
            }
            Output::Read { from } => {
                let seen = self.host.reader.seen;
                self.host.reader.target.get_or_insert(seen);
                self.consume(from);
                self.expect_life();
                self.start_roots();
            }
            Output::Admit | Output::Ignore => {}
            Output::PutBack(loss) => self.went_back(loss.why.to_string()),
            Output::MakeStream => self.went_back("there is no stream".to_owned()),
            Output::Stop(fault) => self.went_back(fault.to_string()),
        }
    }

    /// The stream answers over the present connection.
    fn answer(&mut self, input: Input) {
        let link = self.server.link;
        self.put_between(50, 2 * MS, Step::Said(link, input));
    }

    pub(in crate::sim) fn said(&mut self, link: u64, input: Input) {
        if link == self.server.link {
            self.follow(&input);
        }
    }

    fn expect_life(&mut self) {
        if let Some(beat) = self.host.reader.beat.take() {
            self.agenda.cancel(beat);
        }
        if let Some(consumer) = &self.server.consumer {
            let number = consumer.number;
            self.host.reader.beat = Some(self.put(HEARTBEATS_MISSED, Step::Heartbeat(number)));
        }
    }

    /// A consumer's heartbeats are expected; one that is dead shows none.
    pub(in crate::sim) fn heartbeat(&mut self, number: u64) {
        let Some(consumer) = &self.server.consumer else {
            return;
        };
        if consumer.number != number {
            return;
        }
        if consumer.is_silent() {
            self.note(format_args!("consumer {number} is silent"));
            self.look();
        } else {
            self.expect_life();
        }
    }

    /// The consumer brings a message.
    pub(in crate::sim) fn brought(&mut self, number: u64, seq: u64, message: Message) {
        let current = self.server.consumer.as_ref().map(|known| known.number);
        if !self.host.up || current != Some(number) {
            return;
        }
        match self.host.reader.follower.step(&Input::Message { seq }) {
            Output::Admit => self.note(format_args!("read {seq}")),
            Output::Ignore => return,
            // The consumer is not to be trusted: as after a new connection.
            output => {
                self.note(format_args!("message {seq} -> {output:?}"));
                self.server.consumer = None;
                self.put_between(10_000, 20_000, Step::Look);
                return;
            }
        }
        self.host.reader.handed.insert(seq, digest(&message));
        let created = self.host.reader.follower.created().unwrap_or_default();
        self.arrived(seq, created, message);
    }
}

/// By what a message is known again.
fn digest(message: &Message) -> Digest {
    wire::message_digest(Some(message.lane), &message.payload)
}
