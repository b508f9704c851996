//! The shell of following, around the store's own [`coppice_store::follow`]: asks the simulated stream what the machine wants to know.

use coppice_store::{
    follow::{Follower, Input, Loss, Output},
    log::StreamPosition,
    wire,
};

use crate::sim::{
    agenda::Ticket,
    step::Step,
    stream::StoredMessage,
    world::{MS, World},
};

/// Microseconds without a sign of life after which a consumer counts as dead.
const HEARTBEATS_MISSED: u64 = 1_500_000;
/// Microseconds after which what the stream is known to have must have been brought.
const STALLED: u64 = 2_000_000;

/// The state of the shell.
pub(super) struct Reader {
    follower: Follower,
    /// It waits for the recorder to have what was handed over, or for the message in flight, to look.
    is_waiting: bool,
    /// The connection on which a loss was found that the log is noting.
    noting: Option<u64>,
    /// The stream's last message when it was last asked.
    seen: u64,
    /// The stream's last message when it was first read.
    target: Option<u64>,
    beat: Option<Ticket>,
}

impl Reader {
    pub fn new(position: Option<StreamPosition>, oldest: Option<u64>) -> Self {
        Self {
            follower: Follower::new(position, oldest),
            is_waiting: false,
            noting: None,
            seen: 0,
            target: None,
            beat: None,
        }
    }

    /// The last message that the stream had when it was last asked.
    pub fn seen(&self) -> u64 {
        self.seen
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
    /// The reader begins anew: a new connection, an error, a missed heartbeat. Nothing is sent from here until it reads on.
    pub(in crate::sim) fn look(&mut self) {
        self.host.is_ready = false;
        self.server.consumer = None;
        if !self.server.is_up {
            return;
        }
        // What was handed over is compared by what the recorder noted about it; and what is on its way must not be taken for old.
        let handed = self.host.reader.seq();
        let waits = self.host.reader.noting.is_some()
            || self.host.sending.is_some()
            || !self.host.recorder.is_idle()
            || self.host.recorder.read() < handed;
        self.host.reader.is_waiting = waits;
        if !waits {
            self.follow(&Input::Reconnected);
        }
    }

    /// The recorder has got further, or nothing is in flight any more: a reader that waited for it looks.
    pub(super) fn look_if_waiting(&mut self) {
        if self.host.reader.is_waiting {
            self.look();
        }
    }

    fn follow(&mut self, input: &Input) {
        let output = self.host.reader.follower.step(input);
        self.note(format_args!("follow {input:?} -> {output:?}"));
        match output {
            Output::AskInfo => self.tell_info(),
            Output::MakeStream => {
                self.make_stream();
                self.tell_info();
            }
            Output::Compare(seq) => {
                let found = self.server.stream.get(seq);
                let found = found.map(|StoredMessage { at, message }| {
                    wire::message_digest(Some(message.lane), *at, &message.payload)
                });
                let agrees = found.is_some() && found == self.log.message_digest(seq);
                self.answer(Input::Compared { seq, agrees });
            }
            Output::PutBack(loss) => {
                self.host.reader.noting = Some(self.server.link);
                self.put_between(50, 4 * MS, Step::NoteLoss(loss));
            }
            Output::Read { from } => {
                // A stream that lost what nobody had read ends earlier than it once said.
                let seen = self.host.reader.seen;
                let target = self.host.reader.target.get_or_insert(seen);
                *target = seen.min(*target);
                self.consume(from);
                self.expect_life();
                self.expect_messages();
                self.host.is_ready = true;
                self.send_again();
                self.put(0, Step::Publish);
                self.start_roots();
            }
            Output::Admit | Output::Ignore => {}
            Output::Stop(fault) => self.trimmed(fault),
        }
    }

    fn tell_info(&mut self) {
        let info = self.server.stream.info();
        self.host.reader.seen = info.last;
        self.answer(if self.server.is_gone {
            Input::Gone
        } else {
            Input::Info {
                created: info.created,
                first: info.first,
                last: info.last,
            }
        });
    }

    /// The log knows what the stream lost, before anything is sent.
    pub(in crate::sim) fn note_loss(&mut self, loss: &Loss) {
        self.log.went_back(loss);
        self.host.refill = self.log.refill();
        self.host.recorder.went_back(loss.after);
        let lost = self.host.refill.count();
        self.note(format_args!("to put back: {lost}"));
        let link = self.host.reader.noting.take();
        if link == Some(self.server.link) {
            self.follow(&Input::PutBack);
        } else {
            // The connection broke meanwhile.
            self.host.reader.follower.step(&Input::PutBack);
            self.look();
        }
    }

    /// An acknowledgement is not above what had been read when its message was sent.
    pub(super) fn suspect(&mut self, seq: u64, stood_at: u64) {
        let output = self
            .host
            .reader
            .follower
            .step(&Input::Ack { seq, stood_at });
        self.note(format_args!(
            "ack {seq} of one sent at {stood_at} -> {output:?}"
        ));
        self.put_between(0, 10_000, Step::Look);
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

    /// What the stream has is brought within a while.
    fn expect_messages(&mut self) {
        if let Some(consumer) = &self.server.consumer {
            let number = consumer.number;
            self.put(STALLED, Step::Stalled(number));
        }
    }

    pub(in crate::sim) fn stalled(&mut self, number: u64) {
        let current = self.server.consumer.as_ref().map(|known| known.number);
        let reader = &self.host.reader;
        if current == Some(number) && reader.seq() < reader.seen {
            self.note(format_args!("consumer {number} brings nothing"));
            self.look();
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
    pub(in crate::sim) fn brought(&mut self, number: u64, seq: u64, message: StoredMessage) {
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
        let created = self.host.reader.follower.created().unwrap_or_default();
        self.arrived(seq, created, message);
    }
}
