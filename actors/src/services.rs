//! What every actor of a host shares: the store, the ports, the clock's timers, who is awake, and which runs are blocked.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use coppice_messages::{
    Digest, Value,
    ids::{HostId, RunId, TenantId, TreeId},
};
use coppice_store::{
    Store,
    log::{Row, RowState},
};
use ractor::ActorRef;
use tokio::sync::mpsc;

use crate::{
    broker::ToolBroker, faults::Faults, gateway::ModelGateway, limits::BLOCKED_NAMED,
    policy::Policies, release::Releases, run::Message, schema::Schemas, secrets::Secrets,
    sleep::Sleepers, timers::Timers,
};

/// One run of one tenant.
pub(crate) type Key = (TenantId, RunId);

/// What outlives a run's supervisors in its tree.
pub(crate) enum Orphan {
    /// An ended run with effects in doubt.
    Doubtful {
        /// Which run.
        key: Key,
        /// Its tree.
        tree: TreeId,
    },
    /// The root of this tree has ended, and a run below may have been settled without its end.
    Tree(TenantId, TreeId),
}

/// What every actor of a host shares.
pub(crate) struct Services {
    pub store: Store,
    pub host: HostId,
    pub broker: ToolBroker,
    pub gateway: ModelGateway,
    pub schemas: Schemas,
    pub policies: Policies,
    /// What is masked before anything from outside is kept.
    pub secrets: Secrets,
    pub releases: Releases,
    /// Held while a release that is new to the host is compiled and stored.
    pub releasing: tokio::sync::Mutex<()>,
    pub timers: Timers,
    pub faults: Option<Arc<Faults>>,
    pub awake: Arc<Awake>,
    pub blocked: Blocked,
    pub sleepers: Sleepers,
    /// Is told of runs that nobody of their tree drives any more.
    pub orphans: mpsc::UnboundedSender<Orphan>,
    pub shaken: Shaken,
    pub stopping: AtomicBool,
}

impl Services {
    /// Whether data meet a schema of the log; if not, where and why.
    pub fn meets(&self, tenant: &TenantId, schema: &Digest, data: &Value) -> Result<(), String> {
        let document = self.store.log().blob(tenant, schema);
        let document = document.map_err(|error| error.to_string())?;
        let document = document.ok_or_else(|| format!("the schema {schema} is not there"))?;
        self.schemas
            .check_document(&document, data)
            .map_err(|mismatch| mismatch.to_string())
    }

    /// Whoever takes in the end of a run, its parent or the supervisor of the roots, hands over what outlives both: its doubts, and of a root
    /// what is still open below it.
    pub fn hand_over(&self, row: &Row) {
        // Nobody listens any more when the host stops; the next one finds the same in the log.
        if RowState::InDoubt.is_of(row) {
            let _ = self.orphans.send(Orphan::Doubtful {
                key: (row.tenant.clone(), row.run.clone()),
                tree: row.tree.clone(),
            });
        }
        if row.parent.is_none() && self.shaken.take(&row.tenant, &row.tree) {
            let tree = Orphan::Tree(row.tenant.clone(), row.tree.clone());
            let _ = self.orphans.send(tree);
        }
    }

    /// From now on nothing is started again.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// The runs that have an actor.
#[derive(Default)]
pub(crate) struct Awake {
    actors: Mutex<HashMap<Key, (u64, ActorRef<Message>)>>,
    incarnations: AtomicU64,
}

/// An entry among the awake; dropping it removes it, unless a later incarnation has taken its place.
pub(crate) struct AwakeEntry {
    awake: Arc<Awake>,
    key: Key,
    incarnation: u64,
}

impl Drop for AwakeEntry {
    fn drop(&mut self) {
        let mut actors = self.awake.actors();
        if actors.get(&self.key).map(|(nth, _)| *nth) == Some(self.incarnation) {
            actors.remove(&self.key);
        }
    }
}

impl Awake {
    fn actors(&self) -> MutexGuard<'_, HashMap<Key, (u64, ActorRef<Message>)>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other actor of this host has.
    pub fn incarnation(&self) -> u64 {
        self.incarnations.fetch_add(1, Ordering::Relaxed)
    }

    pub fn enter(self: &Arc<Self>, key: Key, actor: ActorRef<Message>) -> AwakeEntry {
        let incarnation = self.incarnation();
        self.actors().insert(key.clone(), (incarnation, actor));
        AwakeEntry {
            awake: self.clone(),
            key,
            incarnation,
        }
    }

    pub fn get(&self, key: &Key) -> Option<ActorRef<Message>> {
        self.actors().get(key).map(|(_, actor)| actor.clone())
    }

    pub fn all(&self) -> Vec<(Key, ActorRef<Message>)> {
        let actors = self.actors();
        actors
            .iter()
            .map(|(key, (_, actor))| (key.clone(), actor.clone()))
            .collect()
    }

    pub fn count(&self) -> usize {
        self.actors().len()
    }
}

/// Trees in which this host saw an actor die or a chain that cannot be driven: only there can a run be left open when its tree has ended.
#[derive(Default)]
pub(crate) struct Shaken(Mutex<BTreeSet<(TenantId, TreeId)>>);

impl Shaken {
    fn trees(&self) -> MutexGuard<'_, BTreeSet<(TenantId, TreeId)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, tenant: &TenantId, tree: &TreeId) {
        self.trees().insert((tenant.clone(), tree.clone()));
    }

    fn take(&self, tenant: &TenantId, tree: &TreeId) -> bool {
        let mut trees = self.trees();
        !trees.is_empty() && trees.remove(&(tenant.clone(), tree.clone()))
    }
}

/// Runs that this host cannot drive: their chains do not fold in this build. They wait; everything else goes on.
#[derive(Default)]
pub(crate) struct Blocked {
    runs: Mutex<BTreeMap<Key, String>>,
}

impl Blocked {
    pub fn add(&self, key: Key, why: String) {
        tracing::error!(tenant = %key.0, run = %key.1, why, "a run is blocked");
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.insert(key, why);
    }

    /// One sentence a run; of many, how many more there are.
    pub fn reasons(&self) -> Vec<String> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let named = runs.iter().take(BLOCKED_NAMED);
        let mut reasons: Vec<String> = named
            .map(|((tenant, run), why)| format!("{tenant}/{run} is blocked: {why}"))
            .collect();
        if runs.len() > BLOCKED_NAMED {
            reasons.push(format!(
                "{} further runs are blocked",
                runs.len() - BLOCKED_NAMED
            ));
        }
        reasons
    }
}
