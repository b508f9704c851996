//! The host under measurement: a process of its own, with a private nats-server and the function of the workloads, and a client of it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use coppice_actors::{
    api::{ApiClient, StartRequest, StatusReport},
    endpoint::Endpoint,
    host::HostOptions,
    policy::{SCHEMA, SCHEMA_FILE},
};
use coppice_messages::{
    Value,
    ids::{RunId, TenantId},
};
use coppice_store::clock;
use coppice_topology::Bundle;
use tokio::process::{Child, Command};

use super::{
    ends::Ends,
    usage::{self, PerRun, Processes},
};
use crate::{
    failure::{Failure, Problem},
    reach,
};

/// What lets every step happen, and looks at what policies in life look at.
const STEPS: &str = r#"
@id("steps")
permit (principal, action in Action::"create", resource)
when { principal.depth == 1 && context.tenant == "default" && context.budget.steps > 0 };

@id("outside")
forbid (principal, action, resource)
when { context.taint.contains("outside") };
"#;
/// How long a host may take to come up.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked whether it is up.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A running host and a client of it.
pub struct Subject {
    process: Child,
    place: Place,
    /// Asks it.
    pub client: Arc<ApiClient>,
    /// Hears of the ends of its runs.
    pub ends: Ends,
}

/// Where a host lives.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its data directory.
    pub data: PathBuf,
    /// The file of its effects, outside of it.
    pub witness: PathBuf,
    /// Its policies.
    pub policies: Option<PathBuf>,
}

impl Place {
    /// A place below a directory.
    pub fn below(directory: &Path, name: &str) -> Self {
        Self {
            data: directory.join(name),
            witness: directory.join(format!("{name}.effects")),
            policies: None,
        }
    }

    /// The same, with a policy for every step.
    pub fn governed(mut self) -> Result<Self, Failure> {
        let directory = self.data.with_extension("policies");
        let write = |name, text| std::fs::write(directory.join(name), text);
        std::fs::create_dir_all(&directory)
            .and_then(|()| write(SCHEMA_FILE, SCHEMA))
            .and_then(|()| write("steps.cedar", STEPS))
            .map_err(|e| Failure::environment(&e))?;
        self.policies = Some(directory);
        Ok(self)
    }
}

/// What was used up to a moment.
pub struct Mark {
    processes: Processes,
    cpu_s: Option<f64>,
    disk: u64,
    status: StatusReport,
}

impl Subject {
    /// Starts a host there and waits until it answers.
    pub async fn start(place: Place) -> Result<Self, Failure> {
        let mut options = HostOptions::new(&place.data);
        options.stop_with_stdin = true;
        options.policies.clone_from(&place.policies);
        let options = serde_json::to_string(&options).map_err(|e| Failure::environment(&e))?;
        let program = std::env::current_exe().map_err(|e| Failure::environment(&e))?;
        let process = Command::new(program)
            .arg("bench-host")
            .arg(options)
            .arg(&place.witness)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| Failure::environment(&e))?;
        let client = Arc::new(connected(&place.data, process.id()).await?);
        let ends = Ends::hear(client.clone()).await?;
        Ok(Self {
            process,
            place,
            client,
            ends,
        })
    }

    /// Kills the host with SIGKILL.
    pub async fn kill(mut self) -> Result<Place, Failure> {
        self.process
            .kill()
            .await
            .map_err(|e| Failure::environment(&e))?;
        Ok(self.place)
    }

    /// Lets the host stop in order.
    pub async fn stop(mut self) -> Result<Place, Failure> {
        drop(self.process.stdin.take());
        let ended = self.process.wait().await;
        let ended = ended.map_err(|e| Failure::environment(&e))?;
        if ended.success() {
            return Ok(self.place);
        }
        Err(problem(format!(
            "the host under measurement ended with {ended}"
        )))
    }

    /// Where the host lives.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Starts a run and waits for its end; back with how long that took.
    pub async fn complete(&self, request: &StartRequest) -> Result<Duration, Failure> {
        let run = RunId::root(&tenant(), &request.key);
        let ended = self.ends.of(&run);
        let from = clock::mono();
        self.begin(request).await?;
        ended.await?;
        Ok(from.elapsed())
    }

    /// Starts a run; back once its opening is recorded.
    pub async fn begin(&self, request: &StartRequest) -> Result<(), Failure> {
        let started = self.client.start(&tenant(), request).await;
        started.map(|_| ()).map_err(reach::failed)
    }

    /// From here on usage is counted.
    pub async fn mark(&self) -> Result<Mark, Failure> {
        let processes = self.processes();
        processes.forget_peaks();
        Ok(Mark {
            cpu_s: processes.cpu_s(),
            processes,
            disk: usage::disk_bytes(&self.place.data),
            status: self.status().await?,
        })
    }

    /// What each of so many runs used since then.
    pub async fn since(&self, mark: &Mark, runs: u32) -> Result<PerRun, Failure> {
        let status = self.status().await?;
        let runs = f64::from(runs);
        let of_each = |now: u64, then: u64| rounded(now.saturating_sub(then) as f64 / runs, 100.0);
        let processes = &mark.processes;
        let cpu_s = processes.cpu_s().zip(mark.cpu_s);
        let disk = usage::disk_bytes(&self.place.data).saturating_sub(mark.disk);
        Ok(PerRun {
            cpu_s_per_run: cpu_s.map(|(now, then)| rounded((now - then) / runs, 1e6)),
            host_rss_mb: processes.host_peak_mb(),
            nats_rss_mb: processes.below_peak_mb(),
            disk_bytes_per_run: (disk as f64 / runs) as u64,
            fsyncs_per_run: of_each(status.batches, mark.status.batches),
            commits_per_run: of_each(status.pos, mark.status.pos),
            messages_per_run: of_each(status.stream, mark.status.stream),
        })
    }

    /// Its processes now.
    pub fn processes(&self) -> Processes {
        Processes::of(self.process.id().unwrap_or_default())
    }

    async fn status(&self) -> Result<StatusReport, Failure> {
        self.client.status().await.map_err(reach::failed)
    }
}

/// A client of the host with this process id, once it is up.
async fn connected(data: &Path, pid: Option<u32>) -> Result<ApiClient, Failure> {
    let from = clock::mono();
    loop {
        if Endpoint::read(data).is_ok_and(|endpoint| Some(endpoint.pid) == pid) {
            return ApiClient::of_data(data).await.map_err(reach::failed);
        }
        if from.elapsed() > UP_WITHIN {
            return Err(problem(
                "the host under measurement does not come up".to_owned(),
            ));
        }
        clock::pause(LOOK_EVERY).await;
    }
}

fn problem(message: String) -> Failure {
    Failure::Environment(Problem::new(message))
}

/// The tenant of every run of the workloads.
pub fn tenant() -> TenantId {
    TenantId::default_tenant()
}

/// A request for one run of a release that the host has already, without its documents.
pub fn request(bundle: &Bundle, workload: &str, nth: u32) -> Result<StartRequest, Failure> {
    let key = super::release::key(workload, nth)?;
    StartRequest::new(key, bundle, Value::map::<&str>([]), "workload:bench")
        .map_err(|error| reach::refused(&error))
}

/// `number`, to so many parts of one.
pub fn rounded(number: f64, parts: f64) -> f64 {
    (number * parts).round() / parts
}
