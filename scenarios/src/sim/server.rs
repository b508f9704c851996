//! The simulated nats-server: its stream, the connection to it, and the consumer that the recorder reads with.

use super::{
    seed::Seed,
    step::Step,
    stream::{Message, Stream},
    world::{MS, World},
};

/// nats-server.
pub(super) struct Server {
    pub stream: Stream,
    /// Number of the present connection.
    pub link: u64,
    /// Whether the connection stands.
    pub is_up: bool,
    pub consumer: Option<Consumer>,
    /// Bytes of one message, at most.
    pub message_bytes_max: usize,
    /// As it was at some time.
    pub copy: Option<Stream>,
    /// There is no stream.
    pub is_gone: bool,
    streams: i64,
    consumers: u64,
}

/// What the recorder reads with.
pub(super) struct Consumer {
    pub number: u64,
    next: u64,
    /// A delivery is on the agenda.
    is_bringing: bool,
    is_dead: bool,
}

impl Server {
    pub fn new(seed: &mut Seed) -> Self {
        Self {
            stream: Stream::new(1),
            link: 1,
            is_up: true,
            consumer: None,
            message_bytes_max: seed.pick(&[4 << 10, 16 << 10, 512 << 10]),
            copy: None,
            is_gone: false,
            streams: 1,
            consumers: 0,
        }
    }
}

impl World {
    /// A stream of the same name, with nothing in it.
    pub(super) fn make_stream(&mut self) {
        self.server.streams += 1;
        self.server.stream = Stream::new(self.server.streams);
        self.server.is_gone = false;
    }

    /// The connection breaks; what is on its way may or may not arrive.
    pub(super) fn break_link(&mut self, least: u64, most: u64) {
        if !self.server.is_up {
            return;
        }
        self.server.is_up = false;
        self.server.link += 1;
        self.server.consumer = None;
        self.put_between(least, most, Step::LinkUp);
    }

    pub(super) fn link_up(&mut self) {
        self.server.is_up = true;
        let link = self.server.link;
        self.note(format_args!("link {link} up"));
        self.connected();
    }

    /// A message reaches nats-server.
    pub(super) fn arrive(&mut self, link: u64, sending: u64, message: Message) {
        // Of a broken connection nats-server may still have read what had come.
        if link != self.server.link && (!self.server.is_up || self.seed.one_in(2)) {
            return;
        }
        if self.server.is_gone {
            return;
        }
        let twice = self.seed.one_in(self.weather.stored_twice);
        let seq = self.server.stream.append(message.clone());
        if twice {
            self.server.stream.append(message);
        }
        self.note(format_args!("stored {seq} sending {sending} twice {twice}"));
        if !self.seed.one_in(self.weather.ack_lost) {
            self.put_between(20, 2_000, Step::Ack { link, sending, seq });
        }
        self.bring();
    }

    /// Makes a consumer.
    pub(super) fn consume(&mut self, from: u64) {
        self.server.consumers += 1;
        let number = self.server.consumers;
        self.server.consumer = Some(Consumer {
            number,
            next: from,
            is_bringing: false,
            is_dead: self.seed.one_in(self.weather.consumer_dies),
        });
        self.bring();
    }

    /// Sees to it that the consumer brings what there is.
    pub(super) fn bring(&mut self) {
        let last = self.server.stream.info().last;
        let Some(consumer) = &mut self.server.consumer else {
            return;
        };
        if consumer.is_bringing || consumer.is_dead || consumer.next > last {
            return;
        }
        consumer.is_bringing = true;
        let number = consumer.number;
        self.put_between(20, MS, Step::Deliver(number));
    }

    /// A consumer brings its next message.
    pub(super) fn deliver(&mut self, number: u64) {
        let skip = self.seed.one_in(self.weather.delivery_skipped);
        let again = self.seed.one_in(self.weather.delivered_twice);
        let last = self.server.stream.info().last;
        let seen = self.host.seen();
        let Some(consumer) = &mut self.server.consumer else {
            return;
        };
        if consumer.number != number || !self.server.is_up {
            return;
        }
        consumer.is_bringing = false;
        // Only what something follows on, by which the gap shows; or what the host knows to be there.
        if skip && (consumer.next < last || consumer.next <= seen) {
            consumer.next += 1;
        }
        let seq = consumer.next;
        consumer.next += 1;
        if let Some(message) = self.server.stream.get(seq).cloned() {
            if again {
                self.brought(number, seq, message.clone());
            }
            self.brought(number, seq, message);
        }
        self.bring();
    }
}

impl Consumer {
    /// Whether it shows no life.
    pub fn is_silent(&self) -> bool {
        self.is_dead
    }
}
