//! Commands that start something.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use coppice_actors::faults::Fault;
use coppice_messages::{
    Bytes,
    ids::{ClientKey, RunId, TenantId, TreeId},
};
use coppice_scenarios::scenario::CancelAddress;
use coppice_topology::tool::CredentialSource;

/// Which NATS server.
#[derive(Debug, Clone, Default, Args)]
pub struct BusArgs {
    /// Use a NATS server that runs already instead of a private one
    #[arg(long, value_name = "URL", requires = "realm")]
    pub nats: Option<String>,
    /// The realm on that server; it must be named
    #[arg(long, value_name = "NAME", requires = "nats")]
    pub realm: Option<String>,
    /// A NATS credentials file for that server
    #[arg(long, value_name = "FILE", requires = "nats")]
    pub nats_creds: Option<PathBuf>,
}

/// `coppice run`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice run fan-out-join
  coppice run mine.yaml --json
  coppice run fan-out-join --fault 'root/research[1]@effect.landed:before=kill_host'
  coppice run crash-after-write --repeat 20
  coppice run fan-out-join --cancel 'root@child.delegated'    what a cancel leaves; not held, since the scenario expects none
  coppice run mine.yaml --dup-callback 3    when its desk calls back

A fault is WHERE@EVENT[(TOOL)][#n][:before|:after|:synced|:acked]=ACTION, with the actions kill_host, kill_actor, panic and
delay(500ms). `coppice faults SCENARIO` lists every address that a run offers. With a fault of the command line, of claims, crashes, restarts,
doubts, retries and absorbed callbacks there may be more than the scenario counts, and the report says which were judged so; ends, joins,
what exists at the desk, the rebuild, and that nothing is done twice or lost stay exact.")]
pub struct RunArgs {
    /// A scenario of the library, or a file
    pub scenario: String,
    /// Fixes ids, jitter and draws
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Run it so many times, and say in which share of them it held
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: u32,
    /// A fault beside those of the scenario; may be given many times
    #[arg(long = "fault", value_name = "ADDR")]
    pub faults: Vec<Fault>,
    /// Deliver every callback of the desk so many times, as with --fault '*@callback=duplicate*N'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub dup_callback: Option<u32>,
    /// Cancel a run once it has recorded an event, or after a time: WHERE@EVENT[#n] or WHERE@DURATION; may be given many times
    #[arg(long = "cancel", value_name = "ADDR")]
    pub cancels: Vec<CancelAddress>,
    /// Remove the data of the run at the end
    #[arg(long)]
    pub discard: bool,
    /// Whose run it is, instead of what the scenario says
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<TenantId>,
    #[command(flatten)]
    pub bus: BusArgs,
}

impl RunArgs {
    /// The faults of the command line.
    pub fn all_faults(&self) -> Vec<Fault> {
        let duplicates = self.dup_callback.map(Fault::duplicate_callbacks);
        self.faults.iter().cloned().chain(duplicates).collect()
    }
}

/// `coppice faults`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice faults fan-out-join
  coppice faults mine.yaml --json")]
pub struct FaultsArgs {
    /// A scenario of the library, or a file
    pub scenario: String,
    /// Fixes ids, jitter and draws
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// `coppice up`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice up --with-desk
  coppice up --endpoint desk=https://staging.example.org --data /var/lib/coppice
  coppice up --with-desk --disk-reserve 32MiB      on a small disk
  coppice up --with-desk --policies policies/mine  what may be done, in Cedar: see docs/policies.md
  coppice up --http 10.0.0.5:7717           callbacks from other machines")]
pub struct UpArgs {
    /// A base URL that tools name in braces; may be given many times
    #[arg(long = "endpoint", value_name = "NAME=URL", value_parser = endpoint)]
    pub endpoints: Vec<(String, String)>,
    /// The directory of the policy set; changes in it are followed
    #[arg(long, value_name = "DIR")]
    pub policies: Option<PathBuf>,
    /// Where a tool's credential may be taken from: env:NAME, file:PATH or exec:COMMAND; may be given many times
    #[arg(long = "credential", value_name = "SOURCE")]
    pub credentials: Vec<CredentialSource>,
    /// Where to listen for callbacks [default: 127.0.0.1:7717, else a free port there]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http: Option<SocketAddr>,
    /// Also start the desk of the scenarios, as {desk}
    #[arg(long)]
    pub with_desk: bool,
    /// What is kept free on the disks of log and stream; with less, new trees are refused (storage_low) [default: 256MiB]
    #[arg(long, value_name = "BYTES")]
    pub disk_reserve: Option<Bytes>,
    #[command(flatten)]
    pub bus: BusArgs,
}

fn endpoint(given: &str) -> Result<(String, String), String> {
    let (name, url) = given
        .split_once('=')
        .ok_or("expected NAME=URL, such as desk=http://127.0.0.1:8080")?;
    if name.is_empty() || !(url.starts_with("http://") || url.starts_with("https://")) {
        return Err("expected NAME=URL with a URL that begins with http:// or https://".to_owned());
    }
    Ok((name.to_owned(), url.trim_end_matches('/').to_owned()))
}

/// `coppice submit`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice submit incident-comparison --input '{\"request_id\": \"r-1\", \"incidents\": [\"incident_104\"]}' --wait
  coppice submit mine.yaml --input input.json --key order-4711

The same request meets the same tree: nothing is started twice. Without --key it is the same when topology and input are; --again starts
another tree. With --wait the exit code is 1 when it does not succeed.")]
pub struct SubmitArgs {
    /// A topology of the library, or a file
    pub topology: String,
    /// What the tree works on: a JSON file, or JSON
    #[arg(long, value_name = "FILE|JSON")]
    pub input: String,
    /// The client's key [default: derived from the topology and the input]
    #[arg(long, value_name = "KEY")]
    pub key: Option<ClientKey>,
    /// Start another tree, although the same request was sent before
    #[arg(long, conflicts_with = "key")]
    pub again: bool,
    /// A label, for looking up; may be given many times
    #[arg(long = "label", value_name = "K=V", value_parser = super::reading::label)]
    pub labels: Vec<(String, String)>,
    /// Whose tree it is
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<TenantId>,
    /// Wait for its end
    #[arg(long)]
    pub wait: bool,
}

/// `coppice cancel`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice cancel fan-out-join-7-a3487054b93d449c5594 --why 'the request was withdrawn'
  coppice events --tree TREE --kind 'run.cancel_*'      what became of everything below")]
pub struct CancelArgs {
    /// The run; everything below it is cancelled too
    pub run: RunId,
    /// Why; recorded
    #[arg(long, default_value = "asked for on the command line")]
    pub why: String,
    /// Whose run it is
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<TenantId>,
    /// Wait until it has ended
    #[arg(long)]
    pub wait: bool,
}

/// `coppice signal`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice signal wait-for-go-1-0c9d go --value '{\"incident\": \"incident_104\"}'
  coppice signal RUN go --id order-17      the same id again changes nothing")]
pub struct SignalArgs {
    /// The run that waits for it, or will
    pub run: RunId,
    /// Name of the signal
    pub name: String,
    /// What it says, as JSON
    #[arg(long, value_name = "JSON", default_value = "null")]
    pub value: String,
    /// Its own id: the same signal twice is one [default: derived from the time]
    #[arg(long)]
    pub id: Option<String>,
    /// Whose run it is
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<TenantId>,
}

/// `coppice callback`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice callback 9f86d081…b0f00a08 --id delivery-17 --value '{\"status\": \"shipped\"}'
  coppice events --kind 'callback.*'      what became of each

The same id again changes nothing and is answered as the first time. An outside system sends the same over HTTP, signed: see coppice env --callbacks.")]
pub struct CallbackArgs {
    /// The operation's idempotency key, as its tool was told it: 64 hexadecimal digits
    pub key: String,
    /// Its own id: the same callback twice is one
    #[arg(long)]
    pub id: String,
    /// What it says, as JSON
    #[arg(long, value_name = "JSON", default_value = "null")]
    pub value: String,
    /// Whose operation it is
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<TenantId>,
}

/// `coppice resume`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice resume
  coppice resume --data .coppice/runs/20260101T101500-host-crash")]
pub struct ResumeArgs {
    /// Only wait for this tree [default: every unfinished one]
    pub tree: Option<TreeId>,
    /// Whose trees
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<TenantId>,
    /// A base URL that tools name in braces; may be given many times
    #[arg(long = "endpoint", value_name = "NAME=URL", value_parser = endpoint)]
    pub endpoints: Vec<(String, String)>,
    /// The directory of the policy set [default: that of the run, when the directory is a run's]
    #[arg(long, value_name = "DIR")]
    pub policies: Option<PathBuf>,
}

/// The host process.
#[derive(Debug, Clone, Args)]
pub struct HostArgs {
    /// How it is started, as JSON
    pub options: String,
}
