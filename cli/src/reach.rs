//! What is recorded, wherever it can be had: from the host while it lives, else from the log itself.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use coppice_actors::{
    api::{
        ApiClient, ApiError, AuditReport, AuditRequest, ClientError, Code, GetRequest, ListReply,
        ListRequest, RunRow, RunView, TailPage, TailRequest, TreeRequest,
    },
    endpoint::Endpoint,
    inspect::Inspect,
};
use coppice_messages::ids::{RunId, TenantId, TreeId};
use coppice_store::{DataDirError, Log, OpenLogError, clock};
use coppice_topology::tree::Frame;

use crate::{
    args::Common,
    data,
    elsewhere::unknown,
    failure::{Failure, Problem},
    memo::Memo,
};

/// A host that lives answers within this time.
const ANSWER: Duration = Duration::from_secs(3);

/// A host that was killed is back within this time, if anybody starts it again.
const BACK_SOON: Duration = Duration::from_secs(3);
/// Who holds the directory has given it back, or answers, within this time.
const LOCKED_WAIT: Duration = Duration::from_secs(10);
/// Pause between two looks for it.
const LOOK: Duration = Duration::from_millis(100);

/// A way to what is recorded in one data directory.
pub struct Reach {
    pub data: PathBuf,
    pub way: Way,
}

/// Through the living host, or into the log.
pub enum Way {
    Host(Box<ApiClient>),
    Log(Box<Opened>),
}

/// A log that this process has opened; no host can start meanwhile.
pub struct Opened {
    inspect: Inspect,
    log: Log,
}

impl Opened {
    /// The log as the API would show it.
    pub fn inspect(&self) -> &Inspect {
        &self.inspect
    }

    /// The log itself.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The last position of the log.
    pub fn position(&self) -> Result<u64, Failure> {
        let position = self.log.reader().position();
        position.map_err(|error| Failure::Environment(Problem::of(&error)))
    }
}

macro_rules! ask {
    ($($verb:ident $request:ty => $reply:ty;)*) => {
        $(pub async fn $verb(&self, tenant: &TenantId, request: &$request) -> Result<$reply, Failure> {
            match &self.way {
                Way::Host(client) => client.$verb(tenant, request).await.map_err(failed),
                Way::Log(opened) => opened.inspect.$verb(tenant, request).map_err(|error| refused(&error)),
            }
        })*
    };
}

impl Reach {
    /// Finds the data directory, says which it is, and finds the way into it.
    pub async fn open(common: &Common) -> Result<Self, Failure> {
        let chosen = data::to_read(common.data.as_deref())?;
        if !common.json {
            chosen.say();
        }
        Self::of(chosen.path).await
    }

    /// The way into this directory.
    pub async fn of(data: PathBuf) -> Result<Self, Failure> {
        let from = clock::mono();
        loop {
            if let Some(client) = alive(&data).await {
                let way = Way::Host(Box::new(client));
                return Ok(Self { data, way });
            }
            // A host that left its endpoint behind was killed: whoever supervises it is not to find its directory taken.
            if Endpoint::read(&data).is_ok() && from.elapsed() < BACK_SOON {
                clock::pause(LOOK).await;
                continue;
            }
            match Log::open(&data) {
                Ok(log) => {
                    whole(&log)?;
                    let inspect = Inspect::new(log.reader());
                    let way = Way::Log(Box::new(Opened { inspect, log }));
                    return Ok(Self { data, way });
                }
                // A host on its way up, or another command that looks.
                Err(OpenLogError::Directory(DataDirError::Locked { .. }))
                    if from.elapsed() < LOCKED_WAIT =>
                {
                    clock::pause(LOOK).await;
                }
                Err(error) => return Err(unopened(&error, &data)),
            }
        }
    }

    ask! {
        list ListRequest => ListReply;
        tail TailRequest => TailPage;
    }

    pub async fn get(&self, tenant: &TenantId, run: &RunId) -> Result<RunView, Failure> {
        match &self.way {
            Way::Host(client) => client.get(tenant, run).await,
            Way::Log(opened) => {
                let request = GetRequest { run: run.clone() };
                let view = opened.inspect.get(tenant, &request);
                view.map_err(ClientError::from)
            }
        }
        .map_err(|error| of_run("run", run, tenant, &self.data, error))
    }

    pub async fn tree(&self, tenant: &TenantId, request: &TreeRequest) -> Result<Frame, Failure> {
        match &self.way {
            Way::Host(client) => client.tree(tenant, request).await,
            Way::Log(opened) => opened
                .inspect
                .tree(tenant, request)
                .map_err(ClientError::from),
        }
        .map_err(|error| of_run("tree", &request.tree.root(), tenant, &self.data, error))
    }

    pub async fn audit(&self, tenant: &TenantId, tree: &TreeId) -> Result<AuditReport, Failure> {
        match &self.way {
            Way::Host(client) => client.audit(tenant, tree).await,
            Way::Log(opened) => {
                let request = AuditRequest { tree: tree.clone() };
                let report = opened.inspect.audit(tenant, &request);
                report.map_err(ClientError::from)
            }
        }
        .map_err(|error| of_run("tree", &tree.root(), tenant, &self.data, error))
    }

    /// The tenant that a person means.
    pub fn tenant(&self, given: Option<&TenantId>) -> TenantId {
        let recorded = || Memo::read(&self.data).map(|memo| memo.tenant);
        given
            .cloned()
            .or_else(recorded)
            .unwrap_or_else(TenantId::default_tenant)
    }

    /// The tree that a person means: the one named, else the one that was opened last.
    pub async fn the_tree(
        &self,
        tenant: &TenantId,
        given: Option<&TreeId>,
    ) -> Result<TreeId, Failure> {
        if let Some(given) = given {
            return Ok(given.clone());
        }
        let roots = ListRequest {
            roots: true,
            ..ListRequest::default()
        };
        let runs = self.all(tenant, roots).await?;
        let latest = runs.into_iter().max_by_key(|row| row.opened_at);
        latest.map(|row| row.tree).ok_or_else(|| {
            let message = format!("the tenant {tenant} has no tree in {}", self.data.display());
            let help = "start one (coppice run, coppice submit), or name another directory with --data DIR, another tenant with --tenant NAME";
            Failure::Input(Problem::new(message).help(help))
        })
    }

    /// The runs of a tree that is there.
    pub async fn runs_of(&self, tenant: &TenantId, tree: &TreeId) -> Result<Vec<RunRow>, Failure> {
        let of_tree = ListRequest {
            tree: Some(tree.clone()),
            ..ListRequest::default()
        };
        let runs = self.all(tenant, of_tree).await?;
        if runs.is_empty() {
            return Err(unknown("tree", &tree.root(), tenant, &self.data));
        }
        Ok(runs)
    }

    /// Every page of a list.
    pub async fn all(
        &self,
        tenant: &TenantId,
        mut request: ListRequest,
    ) -> Result<Vec<RunRow>, Failure> {
        let mut runs = Vec::new();
        loop {
            let page = self.list(tenant, &request).await?;
            runs.extend(page.runs);
            match page.next {
                Some(next) => request.after = Some(next),
                None => return Ok(runs),
            }
        }
    }
}

/// A client of the host of this directory, if one lives.
pub async fn alive(data: &Path) -> Option<ApiClient> {
    let client = ApiClient::of_data(data).await.ok()?;
    // A server may live on without a host, and a port may belong to somebody else by now.
    let answers = tokio::time::timeout(ANSWER, client.status()).await;
    matches!(answers, Ok(Ok(_))).then_some(client)
}

/// The same about one run: one that is not there may be elsewhere.
pub fn of_run(
    what: &str,
    run: &RunId,
    tenant: &TenantId,
    data: &Path,
    error: ClientError,
) -> Failure {
    match error {
        ClientError::Refused(error) if error.code == Code::UnknownRun => {
            unknown(what, run, tenant, data)
        }
        error => failed(error),
    }
}

/// The host did not answer, or refused.
pub fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(error) => refused(&error),
        other => {
            Failure::Environment(Problem::of(&other).help("coppice status says how the host is"))
        }
    }
}

/// A refusal of the API, as whose fault it is.
pub fn refused(error: &ApiError) -> Failure {
    let problem = Problem::of(error);
    match error.code {
        Code::InvalidRequest
        | Code::InvalidInput
        | Code::InvalidRelease
        | Code::UnknownEndpoint
        | Code::UnknownCredential
        | Code::KeyConflict
        | Code::UnknownRun
        | Code::UnknownOperation
        | Code::Unsigned
        | Code::UnknownVerb
        | Code::TooLarge => Failure::Input(problem),
        Code::LogUnreadable => {
            let help = "coppice log verify names what of the log is damaged, and what mends it";
            Failure::Environment(problem.help(help))
        }
        Code::Busy | Code::LogUnavailable | Code::StorageLow | Code::Blocked | Code::Stopping => {
            Failure::Environment(problem)
        }
    }
}

/// What a host does about a log that is not as it was; a command that reads does not touch it.
fn heals(data: &Path) -> String {
    format!(
        "start a host on it, with coppice up --data {}: it sets aside what cannot be used, reads the log again from the stream, \
         and names what neither of them has; without the stream only a backup has it",
        data.display()
    )
}

/// Refuses a log that lacks what it had: it would be read as if nothing had come after.
fn whole(log: &Log) -> Result<(), Failure> {
    let data = log.directory().root();
    let lacks = log
        .lacks()
        .map_err(|error| Failure::Environment(Problem::of(&error).help(heals(data))))?;
    match lacks {
        Some(shorter) => Err(Failure::Environment(
            Problem::of(&shorter).help(heals(data)),
        )),
        None => Ok(()),
    }
}

/// A log that does not open, as whose fault it is.
pub fn unopened(error: &OpenLogError, data: &Path) -> Failure {
    match error {
        OpenLogError::Directory(error) => unusable(error),
        OpenLogError::Missing { marked: None, .. } => {
            let data = data.display();
            Failure::Environment(Problem::of(error).help(format!(
                "start one: coppice up --data {data}; why the last one did not come up stands in {data}/host.log"
            )))
        }
        OpenLogError::Missing { .. } | OpenLogError::Unusable { .. } => {
            Failure::Environment(Problem::of(error).help(heals(data)))
        }
        OpenLogError::Database { .. }
        | OpenLogError::SetAside { .. }
        | OpenLogError::Read { .. } => Failure::Environment(Problem::of(error)),
    }
}

/// A data directory that cannot be used, as whose fault it is.
pub fn unusable(error: &DataDirError) -> Failure {
    let problem = Problem::of(error);
    if error.is_bad_input() {
        Failure::Input(problem)
    } else {
        Failure::Environment(problem)
    }
}
