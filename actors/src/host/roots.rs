//! The supervisor of the root runs: starts them, starts them again when their actors die, and closes those that die too often.

use std::{collections::BTreeMap, sync::Arc};

use coppice_messages::{Millis, Timestamp, event::run::ClaimReason, ids::TreeId};
use coppice_store::clock;
use coppice_topology::node::Restart;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, Message, SpawnErr, SupervisionEvent};
use tokio::sync::{oneshot, watch};

use crate::{
    inspect::with_causes,
    run::{Arguments, Opening, RunActor, RunError, actor_name, child_of_name, why_ended},
    services::{Key, Services},
    sleep::SLEEPS,
    timers::Timer,
};

/// The longest wait before a root is started again.
const BACKOFF_MAX: Millis = Millis(30_000);

/// Becomes true when a root's opening is recorded; closed when it will not be.
pub(super) type Recorded = watch::Receiver<bool>;

/// See the module.
pub(super) struct RootSupervisor;

/// A root to be driven.
pub(super) struct StartRoot {
    pub key: Key,
    /// What to open it with, should nothing of it be recorded.
    pub opening: Option<Opening>,
    pub why: ClaimReason,
    /// Gets the word whether its opening is recorded; that of the start under way, should there be one.
    pub recorded: Option<oneshot::Sender<Recorded>>,
}

/// Everything that the supervisor is told.
pub(super) enum RootsMessage {
    /// Drive a root.
    Start(Box<StartRoot>),
    /// Drive a root that does not sleep any more. Should it be driven already, it falls asleep just now and is started behind that.
    Woken(Key),
    /// A root's backoff is over.
    Again(Key),
    /// A root did not start.
    Failed {
        /// Which.
        key: Key,
        /// Why.
        why: String,
        /// Its chain is at fault: starting it again cannot help.
        blocks: bool,
    },
}

/// What is known of the roots that are driven.
pub(super) struct Roots {
    myself: ActorRef<RootsMessage>,
    services: Arc<Services>,
    driven: BTreeMap<Key, Root>,
}

struct Root {
    opening: Option<Opening>,
    recorded: Arc<watch::Sender<bool>>,
    crashes: Vec<Timestamp>,
    closing: Option<String>,
    again: Option<Timer>,
}

impl Actor for RootSupervisor {
    type Msg = RootsMessage;
    type State = Roots;
    type Arguments = Arc<Services>;

    async fn pre_start(
        &self,
        myself: ActorRef<RootsMessage>,
        services: Arc<Services>,
    ) -> Result<Roots, ActorProcessingErr> {
        Ok(Roots {
            myself,
            services,
            driven: BTreeMap::new(),
        })
    }

    async fn handle(
        &self,
        _: ActorRef<RootsMessage>,
        message: RootsMessage,
        roots: &mut Roots,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RootsMessage::Start(start) => roots.start(*start),
            RootsMessage::Woken(key) => roots.woken(key),
            RootsMessage::Again(key) => roots.spawn(key, ClaimReason::Restart),
            RootsMessage::Failed { key, why, blocks } => {
                if blocks {
                    roots.driven.remove(&key);
                    roots.services.blocked.add(key, why);
                } else {
                    roots.crashed(key, &why);
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<RootsMessage>,
        event: SupervisionEvent,
        roots: &mut Roots,
    ) -> Result<(), ActorProcessingErr> {
        match &event {
            SupervisionEvent::ActorTerminated(actor, ..)
            | SupervisionEvent::ActorFailed(actor, _) => roots.ended(actor, &why_ended(&event)),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl Roots {
    fn start(&mut self, start: StartRoot) {
        let StartRoot {
            key,
            opening,
            why,
            recorded,
        } = start;
        let is_new = !self.driven.contains_key(&key);
        let root = self.driven.entry(key.clone()).or_insert_with(|| Root {
            opening,
            recorded: Arc::new(watch::Sender::new(false)),
            crashes: Vec::new(),
            closing: None,
            again: None,
        });
        if let Some(asked) = recorded {
            // Who asked may have stopped waiting.
            let _ = asked.send(root.recorded.subscribe());
        }
        if is_new {
            self.spawn(key, why);
        }
    }

    fn woken(&mut self, key: Key) {
        if self.driven.contains_key(&key) {
            // Its actor has not been seen to end yet; it is started behind that.
            return;
        }
        self.start(StartRoot {
            key,
            opening: None,
            why: ClaimReason::Start,
            recorded: None,
        });
    }

    /// Starts the actor in a task, so that folding a long chain holds nobody else up.
    fn spawn(&mut self, key: Key, why: ClaimReason) {
        let Some(root) = self.driven.get_mut(&key) else {
            return;
        };
        root.again = None;
        if self.services.is_stopping() {
            return;
        }
        let arguments = Arguments {
            services: self.services.clone(),
            tenant: key.0.clone(),
            tree: TreeId::of_root(&key.1),
            run: key.1.clone(),
            opening: root.opening.clone(),
            why,
            give_up: root.closing.clone(),
            cancel: None,
            recorded: Some(root.recorded.clone()),
        };
        let failed = |key, why, blocks| RootsMessage::Failed { key, why, blocks };
        start_actor(&self.myself, arguments, failed);
    }

    /// A root's actor is gone: the log says whether its run had ended.
    fn ended(&mut self, actor: &ActorCell, why: &str) {
        let Some(key) = child_of_name(actor) else {
            return;
        };
        match self.services.store.log().row(&key.0, &key.1) {
            Ok(Some(row)) if row.ended.is_some() => {
                self.driven.remove(&key);
                self.services.hand_over(&row);
            }
            Ok(_) if why == SLEEPS => {
                self.driven.remove(&key);
                // Woken again before it was seen to end: it is started once more.
                if !self.services.sleepers.is_asleep(&key) {
                    self.woken(key);
                }
            }
            Ok(_) => self.crashed(key, why),
            Err(error) => self.services.blocked.add(key, with_causes(&error)),
        }
    }

    fn crashed(&mut self, key: Key, why: &str) {
        let Some(root) = self.driven.get_mut(&key) else {
            return;
        };
        if self.services.is_stopping() {
            return;
        }
        if root.closing.is_some() {
            self.driven.remove(&key);
            let why = format!("it was given up, and closing it failed too: {why}");
            self.services.blocked.add(key, why);
            return;
        }
        let (rule, now) = (Restart::default(), clock::now());
        let since = now.minus(rule.within);
        root.crashes.retain(|at| *at > since);
        let recent = u32::try_from(root.crashes.len()).unwrap_or(u32::MAX);
        root.crashes.push(now);
        tracing::warn!(tenant = %key.0, run = %key.1, why, recent, "the actor of a root died");
        if recent >= rule.at_most {
            let limit = format!("more than {} crashes within {}", rule.at_most, rule.within);
            root.closing = Some(format!("{limit}, the last: {why}"));
        }
        let backoff = rule.wait_after(recent).min(BACKOFF_MAX);
        let myself = self.myself.clone();
        let again = key.clone();
        let timer = self.services.timers.arm(now.plus(backoff), move || {
            let _ = myself.cast(RootsMessage::Again(again));
        });
        root.again = Some(timer);
    }
}

/// Starts a run's actor below a supervisor, in a task, which tells it when that failed: why, and whether the chain is at fault.
pub(super) fn start_actor<M: Message>(
    supervisor: &ActorRef<M>,
    arguments: Arguments,
    failed: impl FnOnce(Key, String, bool) -> M + Send + 'static,
) {
    let key = (arguments.tenant.clone(), arguments.run.clone());
    let name = actor_name(&arguments.services, &key);
    let supervisor = supervisor.clone();
    tokio::spawn(async move {
        let cell = supervisor.get_cell();
        let Err(error) = RunActor::spawn_linked(Some(name), RunActor, arguments, cell).await else {
            return;
        };
        let (why, blocks) = reason(error);
        // A supervisor that is gone ends the host.
        let _ = supervisor.cast(failed(key, why, blocks));
    });
}

/// Why an actor did not start, and whether its chain is at fault.
fn reason(error: SpawnErr) -> (String, bool) {
    match error {
        SpawnErr::StartupFailed(error) => match error.downcast::<RunError>() {
            Ok(error) => (with_causes(&*error), error.blocks()),
            Err(error) => (error.to_string(), false),
        },
        SpawnErr::ActorAlreadyStarted | SpawnErr::ActorAlreadyRegistered(_) => {
            (error.to_string(), false)
        }
    }
}
