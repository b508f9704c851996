//! Runs a scenario: starts the desk and the host in processes of their own, submits the tree, follows it to its end through every crash,
//! and judges what is left.
//!
//! The desk hangs on a pipe of this process, as the host does; so both survive each other, and neither survives this process.

mod callbacks;
mod desk_process;
mod follow;
mod host_process;
mod late;
mod people;

use std::{
    collections::BTreeMap,
    future::{Future, pending},
    path::{Path, PathBuf},
    time::Duration,
};

use coppice_actors::{
    api::{
        ApiClient, ApiError, AuditReport, ClientError, StartRequest, VerifyReport, VerifyRequest,
    },
    callback::SecretsError,
    faults::Fault,
    host::{BusChoice, HostOptions},
    token::TokenKeyError,
};
use coppice_messages::ids::{ClientKey, InvalidId, TenantId, TreeId};
use coppice_store::{DataDir, DataDirError, Log, OpenLogError, ReadError, clock};
use coppice_topology::tree::Frame;

pub use self::{
    callbacks::outside,
    desk_process::{DeskGone, DeskProcess, DeskProcessError},
    follow::{Deaths, follow},
    host_process::{Hosted, HostedError},
};
use crate::{
    desk::{self, WitnessError},
    scenario::{Person, Scenario},
    verdict::{self, Evidence, Report},
};

/// Letters of a scenario's name that its client key has; the rest is the seed's.
const KEY_LETTERS: usize = 40;
/// How long a fault that struck may take to stand in the log once the tree has ended.
const NOTED_WAIT: Duration = Duration::from_secs(2);
/// A host that does not answer within this time is asked again.
const ANSWERED_WAIT: Duration = Duration::from_secs(30);

/// How a scenario is run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The program, which answers to the hidden subcommands `host`, `desk-serve` and `nats-guard`.
    pub program: PathBuf,
    /// What is run.
    pub scenario: Scenario,
    /// Fixes ids, jitter and draws.
    pub seed: u64,
    /// The data directory.
    pub data: PathBuf,
    /// Whose tree it is, instead of what the scenario says.
    pub tenant: Option<TenantId>,
    /// Faults beside the scenario's.
    pub faults: Vec<Fault>,
    /// People beside the scenario's.
    pub people: Vec<Person>,
    /// Which NATS server.
    pub bus: BusChoice,
}

/// Is shown what happens while a scenario runs.
pub trait Watcher: Send {
    /// What is being done.
    fn phase(&mut self, text: &str);
    /// The tree was started.
    fn started(&mut self, tenant: &TenantId, tree: &TreeId);
    /// The tree as it is now.
    fn frame(&mut self, frame: &Frame);
    /// The host was started again so many times.
    fn restarted(&mut self, restarts: u32);
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Data(#[from] DataDirError),
    /// The desk.
    #[error(transparent)]
    Desk(#[from] DeskProcessError),
    /// The desk is no more.
    #[error(transparent)]
    DeskGone(#[from] DeskGone),
    /// The secrets for callbacks.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The key that vouches for requests to tools.
    #[error(transparent)]
    Token(#[from] TokenKeyError),
    /// The host.
    #[error(transparent)]
    Host(#[from] HostedError),
    /// The host was asked for something and did not give it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The release cannot be sent.
    #[error(transparent)]
    Release(#[from] ApiError),
    /// The policies cannot be put into the data directory.
    #[error("the policies cannot be written into {}", directory.display())]
    Policies {
        /// Where to.
        directory: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// No key can be made from the scenario's name.
    #[error(transparent)]
    Key(#[from] InvalidId),
    /// The data directory has this very tree already.
    #[error(
        "the data directory {} already has the tree {tree} of this scenario and seed: choose another --seed or --data, or look at it with coppice show {tree} --data {}",
        data.display(), data.display()
    )]
    Met {
        /// The directory.
        data: PathBuf,
        /// The tree.
        tree: TreeId,
    },
    /// Somebody asked for it to stop; the host was stopped in order.
    #[error("interrupted before the tree had ended")]
    Interrupted,
    /// The desk does not testify.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// The log cannot be opened once the host has ended.
    #[error(transparent)]
    Open(#[from] OpenLogError),
    /// The log cannot be read.
    #[error("the log of the run cannot be read")]
    Read(
        #[from]
        #[source]
        ReadError,
    ),
}

impl RunError {
    /// Whether what was given is at fault, and not the machine.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Met { .. } | Self::Key(_) | Self::Release(_) => true,
            Self::Data(error) => matches!(
                error,
                DataDirError::NewerFormat { .. }
                    | DataDirError::UnknownFormat { .. }
                    | DataDirError::Unfinished { .. }
            ),
            Self::Host(error) => error.is_bad_input(),
            Self::Client(ClientError::Refused(error)) => error.code.status() / 100 == 4,
            Self::Interrupted
            | Self::Policies { .. }
            | Self::Secrets(_)
            | Self::Token(_)
            | Self::Desk(_)
            | Self::DeskGone(_)
            | Self::Client(_)
            | Self::Witness(_)
            | Self::Open(_)
            | Self::Read(_) => false,
        }
    }
}

/// What is left of a run when its host has ended.
struct Left {
    tenant: TenantId,
    tree: TreeId,
    latency: Duration,
    verify: VerifyReport,
    audit: AuditReport,
    witness: desk::Witness,
}

/// The key of a run: the same scenario with the same seed meets the same tree.
fn key(scenario: &Scenario, seed: u64) -> Result<ClientKey, InvalidId> {
    let name: String = scenario
        .document
        .scenario
        .as_str()
        .chars()
        .take(KEY_LETTERS)
        .collect();
    format!("{name}-{seed}").parse()
}

/// Runs a scenario from start to verdict, unless `interrupted` resolves before.
///
/// # Errors
/// [`RunError`]: there is no verdict. A run that does not do what was expected is none, it has the verdict *not held*.
pub async fn run(
    options: RunOptions,
    watcher: &mut dyn Watcher,
    interrupted: impl Future<Output = ()>,
) -> Result<Report, RunError> {
    can_be_used(&options.data)?;
    watcher.phase("starting the desk");
    let document = &options.scenario.document;
    let world = callbacks::with_faults(&document.world.desk, &all_faults(&options));
    let before = recorded(&options.data);
    let directory = options.data.join(desk_of(&options.scenario, options.seed)?);
    let tenant = options.tenant.as_ref().unwrap_or(&document.tenant);
    let outside = outside(&options.data, tenant, &world)?;
    let desk = DeskProcess::start(&options.program, &directory, &world, &outside).await?;
    let left = hosted(&options, &desk, watcher, interrupted).await;
    desk.stop().await;
    let left = left?;
    watcher.phase("judging");
    let log = Log::open(&options.data)?;
    let faults = all_faults(&options);
    let report = verdict::judge(&Evidence {
        scenario: &options.scenario,
        seed: options.seed,
        tenant: &left.tenant,
        tree: &left.tree,
        faults: &faults,
        faults_added: options.faults.len(),
        log: &log.reader(),
        before,
        witness: &left.witness,
        verify: &left.verify,
        audit: &left.audit,
        latency: left.latency,
        data: options.data.clone(),
    })?;
    Ok(report)
}

/// The last position of what is recorded, before the host takes the directory.
fn recorded(data: &Path) -> u64 {
    let path = data.join("log");
    let log = path.exists().then(|| Log::open(data));
    // One that does not open is read again by the host, which says so.
    let position = log.and_then(|log| log.ok()?.reader().position().ok());
    position.unwrap_or(0)
}

fn all_faults(options: &RunOptions) -> Vec<Fault> {
    let written = options.scenario.document.faults.iter();
    written.chain(&options.faults).cloned().collect()
}

async fn hosted(
    options: &RunOptions,
    desk: &DeskProcess,
    watcher: &mut dyn Watcher,
    interrupted: impl Future<Output = ()>,
) -> Result<Left, RunError> {
    watcher.phase("starting the host and its nats-server");
    let mut of_host = HostOptions::new(&options.data);
    of_host.bus = options.bus.clone();
    of_host.endpoints = BTreeMap::from([("desk".to_owned(), desk.url().to_owned())]);
    of_host.faults = all_faults(options);
    of_host.faults.retain(|fault| !fault.is_of_callbacks());
    of_host.allow_faults = true;
    of_host.policies = laid_down(options)?;
    let host = Hosted::start(&options.program, of_host);
    let left = tokio::select! {
        left = Box::pin(with_host(options, &host, desk, watcher)) => left,
        // Without its witness there is no verdict, and what asks it would ask for ever.
        gone = desk.gone() => Err(gone.into()),
        () = interrupted => Err(RunError::Interrupted),
    };
    host.stop().await;
    left
}

/// Where in a data directory the policies of its run lie.
pub const POLICIES: &str = "policies";

/// Puts the scenario's policies into the data directory, where whoever goes on with the run finds them.
fn laid_down(options: &RunOptions) -> Result<Option<PathBuf>, RunError> {
    let Some(policies) = &options.scenario.policies else {
        return Ok(None);
    };
    let directory = options.data.join(POLICIES);
    let written = std::fs::create_dir_all(&directory).and_then(|()| {
        let mut texts = policies.texts().iter();
        texts.try_for_each(|(name, text)| std::fs::write(directory.join(name), text))
    });
    match written {
        Ok(()) => Ok(Some(directory)),
        Err(source) => Err(RunError::Policies { directory, source }),
    }
}

async fn with_host(
    options: &RunOptions,
    host: &Hosted,
    desk: &DeskProcess,
    watcher: &mut dyn Watcher,
) -> Result<Left, RunError> {
    let client = host.client().await?;
    let mut deaths = Deaths::default();
    deaths.look(host, watcher);
    let document = &options.scenario.document;
    let tenant = options.tenant.as_ref().unwrap_or(&document.tenant).clone();
    let mut start = StartRequest::new(
        key(&options.scenario, options.seed)?,
        &options.scenario.release,
        document.input.clone(),
        "user:coppice-run",
    )?;
    start.objective = Some(document.about.clone());
    start.labels = document.labels.clone();
    start
        .labels
        .insert("scenario".to_owned(), document.scenario.to_string());
    let from = clock::mono();
    let (tree, client) = started(options, host, client, &tenant, &start).await?;
    deaths.look(host, watcher);
    watcher.started(&tenant, &tree);
    let people: Vec<Person> = document
        .people
        .iter()
        .chain(&options.people)
        .cloned()
        .collect();
    let mut client = tokio::select! {
        client = follow(host, client, &tenant, &tree, &mut deaths, watcher) => client?,
        // Whoever has done all that the scenario says goes away.
        error = failing(people::act(host, &tenant, &tree, &people)) => return Err(error),
    };
    let latency = from.elapsed();
    callbacks::delivered(desk.url(), &document.world.desk).await?;
    watcher.phase("verifying");
    noted(options, host, &mut client, &tenant).await?;
    late::wait(host, &mut client, &tenant, &tree).await?;
    let of_tree = VerifyRequest {
        tree: Some(tree.clone()),
    };
    let verify = answered(host, &mut client, async |client: &ApiClient| {
        client.verify(&tenant, &of_tree).await
    });
    let verify = verify.await?;
    let audit = answered(host, &mut client, async |client: &ApiClient| {
        client.audit(&tenant, &tree).await
    });
    let audit = audit.await?;
    // One that died of the tree's last event died behind the tree's end.
    deaths.look(host, watcher);
    Ok(Left {
        verify,
        audit,
        witness: desk::witness(desk.url()).await?,
        tenant,
        tree,
        latency,
    })
}

/// The error of something beside the run, should it have one.
async fn failing(beside: impl Future<Output = Result<(), RunError>>) -> RunError {
    match beside.await {
        Ok(()) => pending().await,
        Err(error) => error,
    }
}

/// Starts the tree; a host that dies of a fault meanwhile is asked again, with the same key.
async fn started(
    options: &RunOptions,
    host: &Hosted,
    mut client: ApiClient,
    tenant: &TenantId,
    start: &StartRequest,
) -> Result<(TreeId, ApiClient), RunError> {
    let mut asked = 0;
    loop {
        let answer = follow::in_time(client.start(tenant, start)).await;
        asked += 1;
        match answer {
            Some(Ok(started)) if started.met && asked == 1 => {
                return Err(RunError::Met {
                    data: options.data.clone(),
                    tree: started.tree,
                });
            }
            Some(Ok(started)) => return Ok((started.tree, client)),
            Some(Err(error)) if !error.is_passing() => return Err(error.into()),
            Some(Err(_)) | None => client = host.client().await?,
        }
    }
}

/// Asks until there is an answer: the host may die of a fault even after the tree has ended.
async fn answered<T>(
    host: &Hosted,
    client: &mut ApiClient,
    ask: impl AsyncFn(&ApiClient) -> Result<T, ClientError>,
) -> Result<T, RunError> {
    loop {
        match tokio::time::timeout(ANSWERED_WAIT, ask(client)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if !error.is_passing() => return Err(error.into()),
            Ok(Err(_)) | Err(_) => *client = host.client().await?,
        }
    }
}

/// Waits until the faults that struck stand in the log; one that never strikes is waited for in vain, and the verdict says so.
async fn noted(
    options: &RunOptions,
    host: &Hosted,
    client: &mut ApiClient,
    tenant: &TenantId,
) -> Result<(), RunError> {
    let mut faults = all_faults(options);
    faults.retain(|fault| !fault.is_of_callbacks());
    let from = clock::mono();
    while from.elapsed() < NOTED_WAIT {
        let ask = async |client: &ApiClient| follow::struck(client, tenant).await;
        let struck = answered(host, client, ask).await?;
        if faults
            .iter()
            .all(|fault| struck.contains(&fault.to_string()))
        {
            break;
        }
        clock::pause(follow::LOOK).await;
    }
    Ok(())
}

/// Refuses a data directory that another process owns or a newer build wrote, before anything is started in it.
///
/// # Errors
/// [`DataDirError`].
pub fn can_be_used(data: &Path) -> Result<(), DataDirError> {
    // Given back at once: it is the host's to take.
    DataDir::create_or_take(data).map(drop)
}

/// Where in a data directory the desk of a host lies that is there for many trees.
pub const DESK: &str = "desk";

/// Where in a data directory the desk of a run lies: each run has a world of its own, whatever else was run there.
///
/// # Errors
/// No key can be made from the scenario's name.
pub fn desk_of(scenario: &Scenario, seed: u64) -> Result<PathBuf, InvalidId> {
    Ok(Path::new("desks").join(key(scenario, seed)?.as_str()))
}
