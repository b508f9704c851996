//! The supervisor of runs that nobody of their tree drives any more.
//!
//! Ended runs with effects in doubt (`run.ended` names them): each gets an actor that looks them up by key and records what it finds as
//! `result.late`. A doubt outlives its run, the run's parent and the host. What only a person can settle stays named in the run's end, and is
//! asked again by the next host.
//!
//! Open runs of a tree whose root has ended: one above them could not be closed (its chain is damaged, or its actor died again and again), was
//! settled without its end, and nobody has told them. Each gets an actor that closes it, from above: who is closed closes its own children.
//!
//! Both hang on nobody of their tree, and the next host finds them in the log.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use coppice_messages::{
    Millis,
    event::run::ClaimReason,
    ids::{RunId, TenantId, TreeId},
};
use coppice_store::{
    ReadError, clock,
    log::{Row, RowFilter, RowState},
};
use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::{sync::mpsc, task::JoinHandle};

use super::roots;
use crate::{
    limits::{ORPHANS_AT_ONCE_MAX, ORPHANS_CRASHES_MAX, ORPHANS_WAITING_MAX},
    run::{Arguments, child_of_name},
    services::{Key, Orphan, Services},
    timers::Timer,
};

/// How long after a crash it is tried again; longer after each further one.
const BACKOFF: Millis = Millis(1_000);

/// See the module.
pub(super) struct OrphanSupervisor;

/// Everything that the supervisor is told.
pub(super) enum OrphansMessage {
    /// Somebody's supervisors have ended.
    Found(Orphan),
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
    pub supervisor: ActorRef<OrphansMessage>,
    pub ended: JoinHandle<()>,
    /// Hands those that end in doubt to the supervisor.
    pub hearing: JoinHandle<()>,
}

/// Takes care of those that earlier hosts left, and of those that come from here on.
pub(super) async fn start(
    services: &Arc<Services>,
    mut orphaned: mpsc::UnboundedReceiver<Orphan>,
) -> Result<Started, SpawnErr> {
    let (supervisor, ended) =
        OrphanSupervisor::spawn(None, OrphanSupervisor, services.clone()).await?;
    let orphans = supervisor.clone();
    let hearing = tokio::spawn(async move {
        while let Some(orphan) = orphaned.recv().await {
            // A supervisor that is gone ends with the host; the next one finds the same in the log.
            let _ = orphans.cast(OrphansMessage::Found(orphan));
        }
    });
    Ok(Started {
        supervisor,
        ended,
        hearing,
    })
}

/// What is known of the orphans.
pub(super) struct Orphans {
    myself: ActorRef<OrphansMessage>,
    services: Arc<Services>,
    driven: BTreeMap<Key, Driven>,
    waiting: VecDeque<Orphaned>,
    /// Those that this host cannot drive: nobody waits for them to close their children.
    undrivable: BTreeSet<Key>,
}

/// One run.
struct Orphaned {
    key: Key,
    tree: TreeId,
    /// Why it is to be closed; none when it has ended and effects of it are in doubt.
    close: Option<String>,
}

struct Driven {
    orphaned: Orphaned,
    crashes: u32,
    again: Option<Timer>,
}

impl Actor for OrphanSupervisor {
    type Msg = OrphansMessage;
    type State = Orphans;
    type Arguments = Arc<Services>;

    async fn pre_start(
        &self,
        myself: ActorRef<OrphansMessage>,
        services: Arc<Services>,
    ) -> Result<Orphans, ActorProcessingErr> {
        let mut orphans = Orphans {
            myself,
            services,
            driven: BTreeMap::new(),
            waiting: VecDeque::new(),
            undrivable: BTreeSet::new(),
        };
        orphans.find_all()?;
        Ok(orphans)
    }

    async fn handle(
        &self,
        _: ActorRef<OrphansMessage>,
        message: OrphansMessage,
        orphans: &mut Orphans,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            OrphansMessage::Found(orphan) => orphans.found(orphan)?,
            OrphansMessage::Again(key) => orphans.spawn(&key),
            OrphansMessage::Failed { key, why, blocks } => orphans.crashed(&key, &why, blocks)?,
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<OrphansMessage>,
        event: SupervisionEvent,
        orphans: &mut Orphans,
    ) -> Result<(), ActorProcessingErr> {
        match &event {
            SupervisionEvent::ActorTerminated(actor, ..) => {
                if let Some(key) = child_of_name(actor) {
                    orphans.stopped(&key)?;
                }
            }
            SupervisionEvent::ActorFailed(actor, error) => {
                if let Some(key) = child_of_name(actor) {
                    orphans.crashed(&key, &error.to_string(), false)?;
                }
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl Orphans {
    /// Those that earlier hosts left. A tree that goes on is looked at again when it ends: who knows what an earlier host saw in it.
    fn find_all(&mut self) -> Result<(), ReadError> {
        let (doubtful, open) = (
            self.rows(RowState::InDoubt, None),
            self.rows(RowState::Open, None),
        );
        for row in doubtful {
            let row = row?;
            self.look(Orphaned {
                key: (row.tenant, row.run),
                tree: row.tree,
                close: None,
            });
        }
        let mut seen = BTreeSet::new();
        for row in open {
            let row = row?;
            if row.parent.is_none() || !seen.insert((row.tenant.clone(), row.tree.clone())) {
                continue;
            }
            let root = self
                .services
                .store
                .log()
                .row(&row.tenant, &row.tree.root())?;
            if root.is_some_and(|root| root.ended.is_some()) {
                self.close(&row.tenant, &row.tree)?;
            } else {
                self.services.shaken.add(&row.tenant, &row.tree);
            }
        }
        Ok(())
    }

    fn rows(
        &self,
        state: RowState,
        tree: Option<(&TenantId, &TreeId)>,
    ) -> Box<dyn Iterator<Item = Result<Row, ReadError>>> {
        let (tenant, tree) = tree.unzip();
        Box::new(self.services.store.log().rows(RowFilter {
            tenant: tenant.cloned(),
            tree: tree.cloned(),
            state: Some(state),
        }))
    }

    fn found(&mut self, orphan: Orphan) -> Result<(), ReadError> {
        match orphan {
            Orphan::Doubtful { key, tree } => self.look(Orphaned {
                key,
                tree,
                close: None,
            }),
            Orphan::Tree(tenant, tree) => self.close(&tenant, &tree)?,
        }
        Ok(())
    }

    /// Closes what is open of a tree that has ended, from above.
    fn close(&mut self, tenant: &TenantId, tree: &TreeId) -> Result<(), ReadError> {
        let open = self.rows(RowState::Open, Some((tenant, tree)));
        let open = open.collect::<Result<Vec<Row>, ReadError>>()?;
        let waits: BTreeSet<&RunId> = open
            .iter()
            .map(|row| &row.run)
            .filter(|run| !self.undrivable.contains(&(tenant.clone(), (*run).clone())))
            .collect();
        let topmost = |row: &&Row| {
            let above = row.parent.as_ref();
            waits.contains(&row.run) && above.is_none_or(|parent| !waits.contains(parent))
        };
        let topmost = open.iter().filter(topmost).map(|row| Orphaned {
            key: (row.tenant.clone(), row.run.clone()),
            tree: row.tree.clone(),
            close: Some("its tree has ended without it".to_owned()),
        });
        for orphaned in topmost.collect::<Vec<_>>() {
            self.look(orphaned);
        }
        Ok(())
    }

    fn look(&mut self, orphaned: Orphaned) {
        let key = orphaned.key.clone();
        if self.driven.contains_key(&key) {
            return;
        }
        if self.driven.len() < ORPHANS_AT_ONCE_MAX {
            let driven = Driven {
                orphaned,
                crashes: 0,
                again: None,
            };
            self.driven.insert(key.clone(), driven);
            self.spawn(&key);
        } else if self.waiting.len() < ORPHANS_WAITING_MAX {
            self.waiting.push_back(orphaned);
        } else {
            tracing::warn!(tenant = %key.0, run = %key.1, "too many runs are left without a supervisor: the next host takes care of this one");
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
            tree: driven.orphaned.tree.clone(),
            run: key.1.clone(),
            opening: None,
            why: ClaimReason::Restart,
            give_up: driven.orphaned.close.clone(),
            cancel: None,
            recorded: None,
        };
        let failed = |key, why, blocks| OrphansMessage::Failed { key, why, blocks };
        roots::start_actor(&self.myself, arguments, failed);
    }

    /// An actor stopped in order: its doubts are settled or left to a person, or its run is closed; else it is tried again.
    fn stopped(&mut self, key: &Key) -> Result<(), ReadError> {
        let row = self.services.store.log().row(&key.0, &key.1)?;
        if row.is_some_and(|row| row.ended.is_none()) {
            return self.crashed(key, "it stopped before its run had ended", false);
        }
        self.over(key)
    }

    /// Nothing is to be done about this one any more, or can be.
    fn over(&mut self, key: &Key) -> Result<(), ReadError> {
        let over = self.driven.remove(key).map(|driven| driven.orphaned);
        if let Some(next) = self.waiting.pop_front() {
            self.look(next);
        }
        let Some(Orphaned {
            tree,
            close: Some(_),
            ..
        }) = over
        else {
            return Ok(());
        };
        if let Some(row) = self.services.store.log().row(&key.0, &key.1)? {
            self.services.hand_over(&row);
        }
        self.close(&key.0, &tree)
    }

    fn crashed(&mut self, key: &Key, why: &str, blocks: bool) -> Result<(), ReadError> {
        let Some(driven) = self.driven.get_mut(key) else {
            return Ok(());
        };
        if self.services.is_stopping() {
            return Ok(());
        }
        driven.crashes += 1;
        if blocks || driven.crashes > ORPHANS_CRASHES_MAX {
            let what = match &driven.orphaned.close {
                None => "what is in doubt since its end is not looked up",
                Some(_) => "its tree has ended, and it cannot be closed",
            };
            let why = format!("{what}: {why}");
            self.undrivable.insert(key.clone());
            self.services.blocked.add(key.clone(), why);
            return self.over(key);
        }
        tracing::warn!(tenant = %key.0, run = %key.1, why, "the actor of a run that nobody else drives died");
        let (myself, again) = (self.myself.clone(), key.clone());
        let backoff = Millis(BACKOFF.0.saturating_mul(1 << driven.crashes));
        let timer = self
            .services
            .timers
            .arm(clock::now().plus(backoff), move || {
                let _ = myself.cast(OrphansMessage::Again(again));
            });
        driven.again = Some(timer);
        Ok(())
    }
}
