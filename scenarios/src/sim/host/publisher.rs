//! The shell of the publisher around the store's own [`coppice_store::hold::Hold`]: one message in flight, sent again after a new
//! connection, without an acknowledgement in time, and when the recorder is silent.

use coppice_kernel::Prepared;
use coppice_messages::{Digest, ids::TenantId};
use coppice_store::{Verdict, follow, hold::Outgoing};
use tokio::sync::oneshot;

use super::actors::Told;
use crate::sim::{
    agenda::Ticket,
    step::{ActorId, Step},
    stream::Message,
    world::World,
};

/// Microseconds until the recorder counts as silent, and until an acknowledgement counts as lost.
const WAIT: u64 = 2_000_000;

/// The message in flight.
pub(super) struct Sending {
    number: u64,
    /// How far the recorder had read when it was sent.
    stood_at: u64,
    late: Ticket,
}

impl World {
    /// Hands a commit to the publisher.
    pub(super) fn submit(&mut self, actor: &ActorId, prepared: Prepared) {
        let (told, actor, hash) = (self.host.told.clone(), actor.clone(), prepared.hash);
        let waiter = move |verdict| {
            if let Ok(mut told) = told.lock() {
                told.push(Told {
                    actor,
                    hash,
                    verdict,
                });
            }
        };
        if self.host.hold.is_empty() {
            self.host.heard = self.mono;
        }
        self.host.hold.add_commit(
            prepared.commit.tenant,
            prepared.bytes.into(),
            hash,
            Box::new(waiter),
        );
        self.put_between(0, 200, Step::Publish);
    }

    pub(super) fn submit_blob(&mut self, tenant: &TenantId, blob: Digest, whole: Vec<u8>) {
        // Who waits is known by the digest; nobody waits at the other end.
        let (told, _) = oneshot::channel();
        self.host
            .hold
            .add_blob(tenant.clone(), blob, whole.into(), told);
        self.put_between(0, 200, Step::Publish);
    }

    /// The publisher sends the next message, if none is in flight.
    pub(in crate::sim) fn publish(&mut self) {
        if self.host.sending.is_some() || !self.server.is_up || !self.host.is_ready {
            return;
        }
        let Some(outgoing) = self.next_message() else {
            return;
        };
        let number = self.number();
        let late = self.put(WAIT, Step::AckLate(number));
        self.host.sending = Some(Sending {
            number,
            stood_at: self.host.recorder.read(),
            late,
        });
        let message = Message {
            tenant: outgoing.tenant,
            lane: outgoing.lane,
            payload: outgoing.payload,
        };
        let bytes = message.payload.len();
        let lost = self.seed.one_in(self.weather.message_lost);
        self.note(format_args!("sent {number}, {bytes} bytes, lost {lost}"));
        if !lost {
            let arrive = Step::Arrive {
                link: self.server.link,
                sending: number,
                message,
            };
            // Some are still on their way when the connection is long another one.
            let slow = self.seed.one_in(20);
            let most = if slow { 400_000 } else { 400 };
            self.put_between(20, most, arrive);
        }
    }

    /// What the stream lost, then what is held.
    fn next_message(&mut self) -> Option<Outgoing> {
        let bytes_max = self.server.message_bytes_max;
        let lost = self.host.refill.next_message(&self.log, bytes_max);
        if lost.is_some() || self.host.refill.holds_up() {
            return lost;
        }
        self.host.hold.next_message(bytes_max)
    }

    /// Everything that the recorder has not spoken about is sent again.
    pub(super) fn send_again(&mut self) {
        self.host.refill.send_again();
        self.host.hold.send_again();
    }

    /// What is in flight counts as lost on its way.
    pub(super) fn unclear(&mut self) {
        if let Some(sending) = self.host.sending.take() {
            self.agenda.cancel(sending.late);
        }
    }

    pub(in crate::sim) fn ack(&mut self, link: u64, number: u64, seq: u64) {
        let of_this = |sending: &&Sending| sending.number == number && self.server.link == link;
        let Some(sending) = self.host.sending.as_ref().filter(of_this) else {
            return;
        };
        let stood_at = sending.stood_at;
        self.unclear();
        self.host.unclear = 0;
        self.note(format_args!("ack {seq} of {number}, stood at {stood_at}"));
        if seq > stood_at {
            return self.go_on();
        }
        // The number was given before.
        self.host.is_ready = false;
        self.suspect(seq, stood_at);
    }

    /// A message is not in flight any more: the next one is sent, or the reader looks, which waited for that.
    fn go_on(&mut self) {
        if self.host.is_ready {
            self.publish();
        } else {
            self.look_if_waiting();
        }
    }

    pub(in crate::sim) fn ack_late(&mut self, number: u64) {
        if self.host.sending.as_ref().map(|sending| sending.number) != Some(number) {
            return;
        }
        self.note(format_args!("no ack of {number}"));
        self.host.sending = None;
        self.send_again();
        let backoff = 10_000 << self.host.unclear.min(7);
        self.host.unclear += 1;
        self.put(backoff, Step::Publish);
        self.look_if_waiting();
    }

    /// The publisher sends again when the recorder has been silent about what was sent.
    pub(in crate::sim) fn silence(&mut self) {
        self.put(WAIT, Step::Silence);
        let silent = self.mono.saturating_sub(self.host.heard) >= WAIT;
        let waiting = self.host.hold.len() as u64 + self.host.refill.count();
        if self.host.sending.is_none() && silent && waiting > 0 {
            self.note(format_args!("silence: {waiting} wait"));
            self.send_again();
            self.host.heard = self.mono;
            self.publish();
        }
    }

    /// The recorder has spoken: waiters are told, by the hash of what they wait for.
    pub(super) fn release(&mut self, verdicts: &[(Digest, Verdict)]) {
        let mut waiters = Vec::new();
        for (hash, verdict) in verdicts {
            self.host.hold.release_commit(hash, &mut waiters, verdict);
        }
        if !waiters.is_empty() {
            self.host.heard = self.mono;
        }
        for (waiter, verdict) in waiters {
            waiter(verdict);
        }
        for told in self.told() {
            self.check_told(&told);
            self.spoken(told);
        }
    }

    /// Messages that were never read are gone: never in this world, whose streams begin at their beginning.
    pub(super) fn trimmed(&mut self, fault: follow::Trimmed) {
        self.broken("the stream is followed", fault.to_string());
    }
}
