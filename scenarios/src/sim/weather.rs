//! What goes wrong in one world, and how often. Each seed draws its own: in most worlds some kinds never happen, so that others show.

use super::seed::Seed;

/// How often what goes wrong; 0 is never, n is one in n (steps, messages, requests).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Weather {
    /// Of steps: the host's process is killed.
    pub host_dies: u64,
    /// Of deaths of the host: its log is lost and read again from the stream.
    pub log_lost: u64,
    /// Of steps: one actor is killed.
    pub actor_dies: u64,
    /// Of steps: the connection to nats-server breaks.
    pub link_breaks: u64,
    /// Of steps: nats-server is killed.
    pub server_dies: u64,
    /// Of deaths of nats-server: it forgets messages that nobody has read.
    pub unread_lost: u64,
    /// Of deaths of nats-server: it forgets messages that were read, goes back to an older copy, is created anew, or has no stream.
    pub goes_back: u64,
    /// Of steps: a copy of the stream is made.
    pub copies: u64,
    /// Of steps: the wall clock is set.
    pub clock_steps: u64,
    /// Of steps: another host claims a run, and is not heard of again.
    pub foreign_claims: u64,
    /// Of steps: an owner that was replaced writes on.
    pub stale_writes: u64,
    /// Of messages: stored twice.
    pub stored_twice: u64,
    /// Of messages: lost on their way.
    pub message_lost: u64,
    /// Of messages: their acknowledgement is lost.
    pub ack_lost: u64,
    /// Of deliveries: brought twice.
    pub delivered_twice: u64,
    /// Of deliveries: skipped, so that a gap shows.
    pub delivery_skipped: u64,
    /// Of deliveries: the consumer falls silent for good.
    pub consumer_dies: u64,
    /// Of requests to the desk: done, and the reply is lost.
    pub reply_lost: u64,
    /// Of requests: slower than the tool's timeout.
    pub slow: u64,
    /// Of requests: no connection.
    pub not_sent: u64,
    /// Of requests: refused for now.
    pub retryable: u64,
    /// Of requests: refused.
    pub declined: u64,
    /// Of look-ups: no answer.
    pub lookup_silent: u64,
    /// Of model calls: failed.
    pub model_fails: u64,
    /// Of commands: told twice.
    pub told_twice: u64,
    /// Of steps: somebody cancels a run.
    pub cancels: u64,
}

impl Weather {
    /// Draws the weather of one world.
    ///
    /// Cancels have a source of their own: a world without them is the one that its seed gave before there were any.
    pub fn draw(seed: &mut Seed, cancelling: &mut Seed) -> Self {
        let cancels = if cancelling.one_in(2) {
            cancelling.between(60, 600)
        } else {
            0
        };
        let mut often = |least, most| {
            if seed.one_in(2) {
                seed.between(least, most)
            } else {
                0
            }
        };
        Self {
            host_dies: often(60, 600),
            log_lost: often(1, 4),
            actor_dies: often(40, 400),
            link_breaks: often(40, 400),
            server_dies: often(60, 500),
            unread_lost: often(1, 3),
            goes_back: often(1, 3),
            copies: often(20, 200),
            clock_steps: often(60, 600),
            foreign_claims: often(100, 800),
            stale_writes: often(40, 400),
            stored_twice: often(3, 30),
            message_lost: often(6, 60),
            ack_lost: often(4, 40),
            delivered_twice: often(3, 30),
            delivery_skipped: often(6, 60),
            consumer_dies: often(10, 100),
            reply_lost: often(3, 20),
            slow: often(3, 20),
            not_sent: often(4, 30),
            retryable: often(4, 30),
            declined: often(10, 60),
            lookup_silent: often(2, 8),
            model_fails: often(5, 40),
            told_twice: often(3, 20),
            cancels,
        }
    }

    /// Nothing goes wrong any more.
    pub fn fair() -> Self {
        Self::default()
    }
}
