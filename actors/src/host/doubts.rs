//! The supervisor of ended runs with effects in doubt (`run.ended` names them): each gets an actor that looks them up by key and records what it
//! finds as `result.late`.
//!
//! A doubt outlives its run, the run's parent and the host. So these actors hang on nobody of their tree, and the next host finds the doubts
//! in the log. What only a person can settle stays named in the run's end, and is asked again by the next host.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use coppice_messages::{Millis, event::run::ClaimReason};
use coppice_store::{
    ReadError, clock,
    log::{RowFilter, RowState},
};
use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::{sync::mpsc, task::JoinHandle};

use super::roots;
use crate::{
    limits::{DOUBTS_AT_ONCE_MAX, DOUBTS_CRASHES_MAX, DOUBTS_WAITING_MAX},
    run::{Arguments, RunActor, actor_name, child_of_name},
    services::{Doubtful, Key, Services},
    timers::Timer,
};

/// How long after a crash it is tried again; longer after each further one.
const BACKOFF: Millis = Millis(1_000);

/// See the module.
pub(super) struct DoubtSupervisor;

/// Everything that the supervisor is told.
pub(super) enum DoubtsMessage {
    /// A run has ended with effects in doubt.
    Look(Doubtful),
    /// The backoff of a run's actor is over.
    Again(Key),
    /// An actor did not start.
    Failed {
        /// Whose.
        key: Key,
        /// Why.
        why: String,
        /// Its chain is at fault: starting it again cannot help.
        blocks: bool,
    },
}

/// What [`start`] started.
pub(super) struct Started {
    pub supervisor: ActorRef<DoubtsMessage>,
    pub ended: JoinHandle<()>,
    /// Hands those that end in doubt to the supervisor.
    pub hearing: JoinHandle<()>,
}

/// Looks up what earlier hosts left in doubt, and what will be from here on.
pub(super) async fn start(
    services: &Arc<Services>,
    mut in_doubt: mpsc::UnboundedReceiver<Doubtful>,
) -> Result<Started, SpawnErr> {
    let (supervisor, ended) =
        DoubtSupervisor::spawn(None, DoubtSupervisor, services.clone()).await?;
    let doubts = supervisor.clone();
    let hearing = tokio::spawn(async move {
        while let Some(doubtful) = in_doubt.recv().await {
            // One that is gone ends with the host; the next one finds the doubts in the log.
            let _ = doubts.cast(DoubtsMessage::Look(doubtful));
        }
    });
    Ok(Started {
        supervisor,
        ended,
        hearing,
    })
}

/// What is known of the doubts that are looked up.
pub(super) struct Doubts {
    myself: ActorRef<DoubtsMessage>,
    services: Arc<Services>,
    driven: BTreeMap<Key, Driven>,
    waiting: VecDeque<Doubtful>,
}

struct Driven {
    doubtful: Doubtful,
    crashes: u32,
    again: Option<Timer>,
}

impl Actor for DoubtSupervisor {
    type Msg = DoubtsMessage;
    type State = Doubts;
    type Arguments = Arc<Services>;

    async fn pre_start(
        &self,
        myself: ActorRef<DoubtsMessage>,
        services: Arc<Services>,
    ) -> Result<Doubts, ActorProcessingErr> {
        let mut doubts = Doubts {
            myself,
            services,
            driven: BTreeMap::new(),
            waiting: VecDeque::new(),
        };
        doubts.find_all()?;
        Ok(doubts)
    }

    async fn handle(
        &self,
        _: ActorRef<DoubtsMessage>,
        message: DoubtsMessage,
        doubts: &mut Doubts,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            DoubtsMessage::Look(doubtful) => doubts.look(doubtful),
            DoubtsMessage::Again(key) => doubts.spawn(&key),
            DoubtsMessage::Failed { key, why, blocks } => doubts.crashed(&key, &why, blocks),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<DoubtsMessage>,
        event: SupervisionEvent,
        doubts: &mut Doubts,
    ) -> Result<(), ActorProcessingErr> {
        match &event {
            SupervisionEvent::ActorTerminated(actor, ..) => {
                if let Some(key) = child_of_name(actor) {
                    doubts.over(&key);
                }
            }
            SupervisionEvent::ActorFailed(actor, error) => {
                if let Some(key) = child_of_name(actor) {
                    doubts.crashed(&key, &error.to_string(), false);
                }
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl Doubts {
    /// Those that earlier hosts left.
    fn find_all(&mut self) -> Result<(), ReadError> {
        let filter = RowFilter {
            state: Some(RowState::InDoubt),
            ..RowFilter::default()
        };
        for row in self.services.store.log().rows(filter) {
            let row = row?;
            self.look(Doubtful {
                key: (row.tenant, row.run),
                tree: row.tree,
            });
        }
        Ok(())
    }

    fn look(&mut self, doubtful: Doubtful) {
        let key = doubtful.key.clone();
        if self.driven.contains_key(&key) {
            return;
        }
        if self.driven.len() < DOUBTS_AT_ONCE_MAX {
            let driven = Driven {
                doubtful,
                crashes: 0,
                again: None,
            };
            self.driven.insert(key.clone(), driven);
            self.spawn(&key);
        } else if self.waiting.len() < DOUBTS_WAITING_MAX {
            self.waiting.push_back(doubtful);
        } else {
            tracing::warn!(tenant = %key.0, run = %key.1, "too many runs ended in doubt: the next host looks this one up");
        }
    }

    /// Starts the actor in a task, so that folding a long chain holds nobody else up.
    fn spawn(&mut self, key: &Key) {
        let Some(driven) = self.driven.get_mut(key) else {
            return;
        };
        driven.again = None;
        if self.services.is_stopping() {
            return;
        }
        let arguments = Arguments {
            services: self.services.clone(),
            tenant: key.0.clone(),
            tree: driven.doubtful.tree.clone(),
            run: key.1.clone(),
            opening: None,
            why: ClaimReason::Restart,
            give_up: None,
            cancel: None,
            recorded: None,
        };
        let name = actor_name(&self.services, key);
        let (myself, key) = (self.myself.clone(), key.clone());
        tokio::spawn(async move {
            let me = myself.get_cell();
            let Err(error) = RunActor::spawn_linked(Some(name), RunActor, arguments, me).await
            else {
                return;
            };
            let (why, blocks) = roots::reason(error);
            let _ = myself.cast(DoubtsMessage::Failed { key, why, blocks });
        });
    }

    /// An actor stopped in order: its doubts are settled, or left to a person.
    fn over(&mut self, key: &Key) {
        self.driven.remove(key);
        if let Some(next) = self.waiting.pop_front() {
            self.look(next);
        }
    }

    fn crashed(&mut self, key: &Key, why: &str, blocks: bool) {
        let Some(driven) = self.driven.get_mut(key) else {
            return;
        };
        if self.services.is_stopping() {
            return;
        }
        driven.crashes += 1;
        if blocks || driven.crashes > DOUBTS_CRASHES_MAX {
            let why = format!("what is in doubt since its end is not looked up: {why}");
            self.services.blocked.add(key.clone(), why);
            return self.over(key);
        }
        tracing::warn!(tenant = %key.0, run = %key.1, why, "looking up what is in doubt failed");
        let (myself, again) = (self.myself.clone(), key.clone());
        let backoff = Millis(BACKOFF.0.saturating_mul(1 << driven.crashes));
        let timer = self
            .services
            .timers
            .arm(clock::now().plus(backoff), move || {
                let _ = myself.cast(DoubtsMessage::Again(again));
            });
        driven.again = Some(timer);
    }
}
