//! The host: one process that owns a data directory, its store, its services and the actors of its trees.
//!
//! Opening it starts every unfinished tree again; each run is claimed only when it first acts. Closing it ends the actors, records what is on its
//! way, and says so in the host's system chain.

mod address;
mod callbacks;
mod ending;
mod error;
mod http;
mod options;
mod orphans;
mod policy;
mod process;
mod roots;
mod serve;
mod start;
mod supervise;
mod tell;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
};

use coppice_kernel::Command;
use coppice_messages::{
    Timestamp,
    event::{
        run::ClaimReason,
        system::{self, HostStarted, HostStopped},
    },
    ids::{HostId, InvalidId, TenantId},
};
use coppice_store::{
    BusOptions, Credentials, DataDirError, Fatal, GuardCommand, OpenError, OpenLogError, Options,
    ReadError, Realm, Role, Store, clock,
    log::{RowFilter, RowState},
};
use coppice_topology::tool::CredentialSource;
use ractor::{Actor as _, ActorRef};
use tokio::{sync::mpsc, task::JoinHandle};

pub use self::{
    error::HostError,
    options::{BusChoice, HostOptions, HttpChoice},
    process::{host_main, host_main_with_tools},
    supervise::{HostProcess, SuperviseOptions, SupervisedEnd, supervise_host},
};
use crate::{
    broker::{BrokerError, BrokerOptions, InProcessTools, ToolBroker},
    callback::CallbackSecrets,
    endpoint::Endpoint,
    faults::{BookError, Faults},
    gateway::{GatewayOptions, ModelGateway},
    host::{
        callbacks::Callbacks,
        http::HttpPort,
        orphans::OrphansMessage,
        roots::{RootSupervisor, RootsMessage, StartRoot},
    },
    inspect::Inspect,
    limits::{AGAIN_FIRST, LAST_WORD_WAIT, LOCK_WAIT},
    policy::Policies,
    run::Message,
    schema::Schemas,
    secrets::Secrets,
    services::{Awake, Key, Services},
    sleep::{Sleepers, Wake},
    timers::Timers,
    token::{TokenKeyError, TokenSigner},
};

/// Version of the program, as it stands in `host.started` and in the status.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A running host.
pub struct Host {
    data: PathBuf,
    endpoint: Endpoint,
    services: Arc<Services>,
    roots: ActorRef<RootsMessage>,
    orphans: ActorRef<OrphansMessage>,
    supervisors_ended: [JoinHandle<()>; 2],
    tasks: Vec<JoinHandle<()>>,
}

/// What a host on an open store is started with.
struct Start {
    options: HostOptions,
    tools: InProcessTools,
    host: HostId,
    started_at: Timestamp,
    awake: Arc<Awake>,
    faults: Option<Arc<Faults>>,
}

impl Host {
    /// Opens the data directory and starts everything. `guard` is how the guard of a private nats-server is started.
    ///
    /// # Errors
    /// [`HostError`].
    pub async fn start(options: HostOptions, guard: GuardCommand) -> Result<Self, HostError> {
        Self::start_with_tools(options, guard, InProcessTools::new()).await
    }

    /// The same, with functions of this program as tools.
    ///
    /// # Errors
    /// [`HostError`].
    pub async fn start_with_tools(
        options: HostOptions,
        guard: GuardCommand,
        tools: InProcessTools,
    ) -> Result<Self, HostError> {
        if !options.faults.is_empty() && !options.allow_faults {
            return Err(HostError::FaultsNotAllowed {
                count: options.faults.len(),
            });
        }
        let started_at = clock::now();
        let host = host_id(started_at)?;
        let awake = Arc::new(Awake::default());
        let faults = arm(&options, awake.clone())?;
        let store = open(&options, host.clone(), guard, faults.clone()).await?;
        let start = Start {
            options,
            tools,
            host,
            started_at,
            awake,
            faults,
        };
        match Self::start_on(store.clone(), start).await {
            Ok(host) => Ok(host),
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }

    async fn start_on(store: Store, start: Start) -> Result<Self, HostError> {
        let Start {
            options,
            tools,
            host,
            started_at,
            awake,
            faults,
        } = start;
        let pid = std::process::id();
        let port = HttpPort::bind(options.http).await?;
        let secrets = CallbackSecrets::open(&options.data)?;
        let policies = policy::of(&options)?;
        policy::announce(&store, started(&host, pid), &policies).await?;
        let schemas = Schemas::new();
        let door = door(&store, &options, port.address).await?;
        let masked = door.secrets.clone();
        let judges = (&schemas, &policies);
        let (broker, gateway) = ports(&store, options.endpoints, tools, judges, door)?;
        let (timers, ticking) = Timers::start();
        let (due, whose_time_has_come) = mpsc::unbounded_channel();
        let (orphans, orphaned) = mpsc::unbounded_channel();
        let services = Arc::new(Services {
            store,
            host,
            broker,
            gateway,
            schemas,
            policies,
            secrets: masked,
            releases: crate::release::Releases::new(),
            releasing: tokio::sync::Mutex::default(),
            timers,
            faults,
            awake,
            blocked: crate::services::Blocked::default(),
            sleepers: Sleepers::new(options.sleep_after, due),
            orphans,
            shaken: crate::services::Shaken::default(),
            stopping: std::sync::atomic::AtomicBool::new(false),
        });
        let (roots, roots_ended) =
            RootSupervisor::spawn(None, RootSupervisor, services.clone()).await?;
        services.lay_down_all()?;
        let waking = wake_all(services.clone(), roots.clone(), whose_time_has_come);
        let deciding = look_when_there_is_room(services.clone());
        resume(&services, &roots)?;
        let orphans = orphans::start(&services, orphaned).await?;
        let callbacks = Arc::new(Callbacks::new(services.clone(), roots.clone(), secrets));
        let api = serve::Api {
            services: services.clone(),
            roots: roots.clone(),
            callbacks: callbacks.clone(),
            inspect: inspect(&services),
            started_at,
        };
        let url = format!("http://{}", port.address);
        let mut tasks = vec![
            ticking,
            tokio::spawn(waking),
            tokio::spawn(deciding),
            orphans.hearing,
            tokio::spawn(policy::follow(services.clone())),
            serve::start(api).await?,
            port.serve(callbacks),
        ];
        tasks.extend(append_faults(&services));
        let endpoint = address::endpoint(&services, url, started_at, pid).await;
        endpoint.write(&options.data)?;
        tracing::info!(host = %endpoint.host, url = %endpoint.nats_url, "the host is up");
        Ok(Self {
            data: options.data,
            endpoint,
            services,
            roots,
            orphans: orphans.supervisor,
            supervisors_ended: [roots_ended, orphans.ended],
            tasks,
        })
    }

    /// How clients find it.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Resolves when the host must not go on.
    pub async fn fatal(&self) -> Fatal {
        self.services.store.fatal().await
    }

    /// Stops: nothing is started any more, the actors end, what is on its way is recorded, and `host.stopped` is the last fact.
    pub async fn stop(self) {
        self.endpoint.remove(&self.data);
        self.services.stop();
        self.roots.stop(None);
        self.orphans.stop(None);
        for ended in self.supervisors_ended {
            if ended.await.is_err() {
                tracing::warn!("a supervisor of runs panicked");
            }
        }
        for task in &self.tasks {
            task.abort();
        }
        let stopped = system::Event::HostStopped(HostStopped {
            host: self.services.host.clone(),
        });
        let store = &self.services.store;
        let said = tokio::select! {
            said = store.system_event(TenantId::host(), stopped) => said.map_err(|e| e.to_string()),
            fatal = store.fatal() => Err(fatal.to_string()),
            () = clock::pause(LAST_WORD_WAIT) => Err("the recorder is silent".to_owned()),
        };
        if let Err(error) = said {
            tracing::warn!(error, "the stop of the host is not recorded");
        }
        store.close().await;
    }
}

/// What the tool broker opens doors with, and which it does not.
struct BrokerDoor {
    signer: TokenSigner,
    own: BTreeSet<SocketAddr>,
    credentials: BTreeSet<CredentialSource>,
    secrets: Secrets,
}

async fn door(
    store: &Store,
    options: &HostOptions,
    http: SocketAddr,
) -> Result<BrokerDoor, TokenKeyError> {
    let nats = store.endpoint(Role::Operator).await.url.to_string();
    Ok(BrokerDoor {
        signer: TokenSigner::open(&options.data)?,
        own: own_addresses(http, &nats),
        credentials: options.credentials.clone(),
        secrets: Secrets::default(),
    })
}

fn inspect(services: &Services) -> Inspect {
    Inspect::with_releases(services.store.log().clone(), services.releases.clone())
}

/// Where this host, or the bus on this machine, listens.
fn own_addresses(http: SocketAddr, nats: &str) -> BTreeSet<SocketAddr> {
    let nats = nats.rsplit('/').next().and_then(|nats| nats.parse().ok());
    std::iter::once(http).chain(nats).collect()
}

/// The only ways to a tool and to a model.
fn ports(
    store: &Store,
    endpoints: BTreeMap<String, String>,
    tools: InProcessTools,
    (schemas, policies): (&Schemas, &Policies),
    door: BrokerDoor,
) -> Result<(ToolBroker, ModelGateway), BrokerError> {
    let record: Arc<dyn crate::record::Record> = Arc::new(store.clone());
    let broker = ToolBroker::new(BrokerOptions {
        record: record.clone(),
        endpoints,
        tools,
        schemas: schemas.clone(),
        policies: policies.clone(),
        signer: Some(door.signer),
        own: door.own,
        credentials: door.credentials,
        secrets: door.secrets,
        // The start of this host is recorded, and none of its actors has started.
        begins_at: store.status().pos,
    })?;
    let schemas = schemas.clone();
    Ok((
        broker,
        ModelGateway::new(GatewayOptions { record, schemas }),
    ))
}

fn started(host: &HostId, pid: u32) -> HostStarted {
    HostStarted {
        host: host.clone(),
        version: VERSION.to_owned(),
        pid,
    }
}

/// Starts every tree that has not ended.
fn resume(services: &Services, roots: &ActorRef<RootsMessage>) -> Result<(), ReadError> {
    let filter = RowFilter {
        state: Some(RowState::Open),
        ..RowFilter::default()
    };
    for row in services.store.log().rows(filter) {
        let row = row?;
        let key = (row.tenant, row.run);
        if row.parent.is_none() && !services.sleepers.is_asleep(&key) {
            let start = StartRoot {
                key,
                opening: None,
                why: ClaimReason::Start,
                recorded: None,
            };
            // The supervisor was just started; should it be gone, the host ends with it.
            let _ = roots.cast(RootsMessage::Start(Box::new(start)));
        }
    }
    Ok(())
}

/// Wakes those whose time has come, until the host ends.
async fn wake_all(
    services: Arc<Services>,
    roots: ActorRef<RootsMessage>,
    mut due: mpsc::UnboundedReceiver<Key>,
) {
    while let Some(key) = due.recv().await {
        if let Wake::Root(root) = services.wake(&key).await {
            // A supervisor that is gone ends the host.
            let _ = roots.cast(RootsMessage::Woken(root));
        }
    }
}

/// Whenever there is room again, every actor looks for the intents that it left undecided.
fn look_when_there_is_room(services: Arc<Services>) -> impl Future<Output = ()> {
    // From before the first actor: none may leave an intent undecided unseen.
    let mut room = services.store.room();
    async move {
        loop {
            room.again().await;
            for (_, actor) in services.awake.all() {
                // One that is gone meanwhile needs no tick.
                let _ = actor.cast(Message::Told(Command::Tick));
            }
        }
    }
}

fn host_id(started_at: Timestamp) -> Result<HostId, InvalidId> {
    // Unlike that of any earlier process of this machine: a process id comes again, together with its start it does not.
    format!("h{:x}-{:x}", std::process::id(), started_at.0).parse()
}

fn arm(options: &HostOptions, awake: Arc<Awake>) -> Result<Option<Arc<Faults>>, HostError> {
    if !options.allow_faults {
        return Ok(None);
    }
    let source = |source| BookError {
        path: options.data.clone(),
        source,
    };
    // The book lies in the data directory, which the store would make only later.
    std::fs::create_dir_all(&options.data).map_err(source)?;
    let faults = Faults::arm(&options.faults, &options.data, awake)?;
    Ok(Some(Arc::new(faults)))
}

async fn open(
    options: &HostOptions,
    host: HostId,
    guard: GuardCommand,
    faults: Option<Arc<Faults>>,
) -> Result<Store, HostError> {
    let bus = match &options.bus {
        BusChoice::Private => BusOptions::Private { guard },
        BusChoice::Shared {
            url,
            realm,
            user,
            password,
            credentials_file,
        } => BusOptions::Shared {
            url: url.clone(),
            realm: Realm::shared(realm)?,
            credentials: match (credentials_file, user, password) {
                (Some(file), ..) => Credentials::File(file.clone()),
                (None, Some(user), password) => Credentials::Password {
                    user: user.clone(),
                    password: password.clone().unwrap_or_default(),
                },
                (None, None, _) => Credentials::None,
            },
        },
    };
    let mut store = Options::new(&options.data, host, bus);
    // A host that was killed leaves its endpoint behind.
    store.before = Endpoint::read(&options.data).ok().map(|before| before.host);
    store.feed = options.feed;
    store.reserve.disk_bytes = options.disk_reserve.0;
    if let Some(faults) = faults {
        store.hooks = faults;
    }
    let from = clock::mono();
    loop {
        match Store::open(store.clone()).await {
            // A command that looks into the log while no host lives holds its directory for a moment.
            Err(OpenError::Log(OpenLogError::Directory(DataDirError::Locked { .. })))
                if from.elapsed() < LOCK_WAIT =>
            {
                clock::pause(AGAIN_FIRST).await;
            }
            opened => return Ok(opened.map_err(Box::new)?),
        }
    }
}

fn append_faults(services: &Arc<Services>) -> Option<JoinHandle<()>> {
    let (faults, store) = (services.faults.clone()?, services.store.clone());
    Some(tokio::spawn(async move {
        if let Err(error) = faults.append_noted(&store).await {
            tracing::warn!(%error, "injected faults are noted, but not recorded");
        }
    }))
}
