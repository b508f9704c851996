//! The run actor: one ractor actor an awake run, a shell around [`coppice_kernel::Driver`].
//!
//! It decides nothing. What comes in is handed to the driver; what the driver puts out is carried out: publish, tell, arm. Nothing outside is
//! awaited in a handler: an obligation is carried out by a task that reports back with a message and is aborted when it is no longer owed or the
//! actor ends. Whatever an incarnation was doing when it ended, the next one derives from the log.

mod awake;
mod carry;
mod children;
mod fold;
mod publish;
mod receipt;
mod tasks;

use std::sync::Arc;

use coppice_kernel::{Command, Duty};
use coppice_messages::{
    Digest, ParentRef,
    event::run::{CancelRequested, ClaimReason, Opened},
    ids::{RunId, TenantId, TreeId},
};
use coppice_store::Verdict;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};

pub(crate) use self::{
    awake::{Incarnation, RunError},
    children::{actor_name, child_of_name, root_trace, why_ended},
    fold::{FoldChainError, Folded, fold, fold_until, walk},
};
use crate::services::Services;

/// One run actor. All state is in [`Incarnation`].
pub(crate) struct RunActor;

/// What an actor is started with.
pub(crate) struct Arguments {
    pub services: Arc<Services>,
    pub tenant: TenantId,
    pub tree: TreeId,
    pub run: RunId,
    /// What to open the run with, should nothing of it be recorded.
    pub opening: Option<Opening>,
    /// Why it is claimed, should something be recorded.
    pub why: ClaimReason,
    /// It is to be closed, not driven: the limit that was passed.
    pub give_up: Option<String>,
    /// It is to stop, and everything below it.
    pub cancel: Option<CancelRequested>,
    /// Is told when a commit of this incarnation is recorded.
    pub recorded: Option<Arc<watch::Sender<bool>>>,
}

/// What a run is opened with.
#[derive(Clone)]
pub(crate) struct Opening {
    pub opened: Box<Opened>,
    pub parent: Option<ParentRef>,
    pub trace: String,
}

/// Everything that a run actor is told.
pub(crate) enum Message {
    /// Something that the run must take in.
    Told(Command),
    /// What became of a commit.
    Spoken {
        /// SHA-256 of its bytes.
        hash: Digest,
        /// In the log, refused, or nobody knows.
        verdict: Verdict,
    },
    /// The blobs of a commit could not be stored.
    Unstored {
        /// Why.
        why: String,
    },
    /// The task for an obligation panicked.
    Broken {
        /// Which obligation.
        duty: Duty,
        /// Its panic message.
        why: String,
    },
    /// A child's actor was started.
    ChildStarted {
        /// Which child.
        child: RunId,
        /// Its actor.
        actor: ActorCell,
        /// It lived already, started for an earlier obligation: it does not know what is new.
        found: bool,
    },
    /// A child does not sleep any more: it is to be started.
    Wake {
        /// Which child.
        child: RunId,
    },
    /// A child cannot be driven by this host. The run waits for it as it is, unless its chain is lost.
    ChildBlocked {
        /// Which child.
        child: RunId,
        /// Why.
        why: String,
        /// Its chain is damaged and will never be extended.
        lost: bool,
    },
    /// Say the last recorded commit and the hash of the state at it.
    Hash(oneshot::Sender<(Digest, Digest)>),
}

impl Actor for RunActor {
    type Msg = Message;
    type State = Incarnation;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        arguments: Arguments,
    ) -> Result<Incarnation, ActorProcessingErr> {
        Ok(Incarnation::wake(myself, arguments).await?)
    }

    async fn post_start(
        &self,
        _: ActorRef<Message>,
        state: &mut Incarnation,
    ) -> Result<(), ActorProcessingErr> {
        Ok(Box::pin(state.begin()).await?)
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        state: &mut Incarnation,
    ) -> Result<(), ActorProcessingErr> {
        // Boxed: the actor's loop moves what it polls several times, for every message.
        Ok(Box::pin(state.take_in(message)).await?)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Message>,
        event: SupervisionEvent,
        state: &mut Incarnation,
    ) -> Result<(), ActorProcessingErr> {
        state.child_ended(event);
        Ok(())
    }
}
