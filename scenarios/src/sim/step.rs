//! Everything that can happen next in a simulated world.

use coppice_kernel::{Command, Duty};
use coppice_messages::ids::RunId;
use coppice_store::follow;

use super::stream::Message;

/// One incarnation of a run's actor.
pub(super) type ActorId = (RunId, u64);

/// Something that happens.
#[derive(Debug)]
pub(super) enum Step {
    /// An actor takes its next message.
    Hear(ActorId),
    /// An actor's timer is due.
    Tick(ActorId),
    /// A task of an actor is done.
    Report(ActorId, Duty, Box<Command>),
    /// A task of an actor looks what became of its child, and starts it if need be.
    Await(ActorId, Duty),
    /// A task asks by key what became of an effect.
    LookUp(ActorId, Duty),
    /// A root is started, or started again.
    Root(RunId),
    /// The doubts of an ended run are looked up.
    Doubt(RunId),
    /// The publisher sends, if it may.
    Publish,
    /// No acknowledgement came in time.
    AckLate(u64),
    /// The publisher looks whether the recorder has been silent.
    Silence,
    /// The reader begins anew.
    Look,
    /// The stream answers the reader, over this connection.
    Said(u64, follow::Input),
    /// The log notes what the stream lost.
    NoteLoss(follow::Loss),
    /// The consumer has shown no life.
    Heartbeat(u64),
    /// Whether the consumer has brought what the stream was known to have.
    Stalled(u64),
    /// The recorder gathers a batch.
    Gather,
    /// The batch's fsync is done.
    Synced,
    /// A request leaves for the desk, if it still may.
    Leave(u64),
    /// No answer to a request came in time.
    ReplyLate(u64),
    /// An answer of the desk comes back.
    Reply(u64),

    /// A message reaches nats-server over this connection.
    Arrive {
        /// Which connection.
        link: u64,
        /// Which sending.
        sending: u64,
        /// What arrives.
        message: Message,
    },
    /// An acknowledgement comes back over this connection.
    Ack {
        /// Which connection.
        link: u64,
        /// Of which sending.
        sending: u64,
        /// The message's number.
        seq: u64,
    },
    /// A consumer brings its next message.
    Deliver(u64),
    /// A request reaches the desk.
    Desk(u64),
    /// nats-server is back and the connection with it.
    LinkUp,
    /// The host is started again.
    HostUp,
}

impl Step {
    /// Whether it is the doing of the host's process, and so ends with it.
    pub fn is_of_host(&self) -> bool {
        !matches!(
            self,
            Self::Arrive { .. }
                | Self::Ack { .. }
                | Self::Deliver(_)
                | Self::Desk(_)
                | Self::LinkUp
                | Self::HostUp
        )
    }
}
