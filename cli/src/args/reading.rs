//! Commands that read what is recorded: from the host while it lives, else from the log.

use clap::{Args, Subcommand, ValueEnum};
use coppice_messages::ids::{InvalidId, RunId, TenantId, TreeId};
use coppice_topology::tree::WaitingFor;

use super::{ExportArgs, ImportArgs, TrimArgs};

/// One tree of one tenant.
#[derive(Debug, Clone, Args)]
pub struct TreeChoice {
    /// The tree [default: the latest]
    pub tree: Option<TreeId>,
    /// Whose tree it is
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub tenant: Option<TenantId>,
}

/// `coppice ls`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice ls --roots
  coppice ls --label team=support --open
  coppice ls --waiting callback

With --waiting each run is listed that can go on only when that comes: for what, since when, and until when it waits at the latest.")]
pub struct LsArgs {
    /// Whose runs [default: of whom the directory was made for, else default]
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Only of this tree
    #[arg(long, value_name = "TREE")]
    pub tree: Option<TreeId>,
    /// Only with this label; may be given many times
    #[arg(long = "label", value_name = "K=V", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Only runs that have not ended
    #[arg(long, conflicts_with = "ended")]
    pub open: bool,
    /// Only runs that have ended
    #[arg(long)]
    pub ended: bool,
    /// Only the roots of trees
    #[arg(long)]
    pub roots: bool,
    /// Only runs that wait for this
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "ended")]
    pub waiting: Option<Awaited>,
}

/// What the outside owes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Awaited {
    /// A callback about a write
    Callback,
    /// A signal, which coppice signal sends
    Signal,
    /// A time
    Timer,
}

impl Awaited {
    /// The same, as a tree's picture says it.
    pub fn what(self) -> WaitingFor {
        match self {
            Self::Callback => WaitingFor::Callback,
            Self::Signal => WaitingFor::Signal,
            Self::Timer => WaitingFor::Timer,
        }
    }
}

/// Also `_host`, whose chain has the facts of the host itself.
pub(super) fn tenant(given: &str) -> Result<TenantId, InvalidId> {
    let host = TenantId::host();
    if given == host.as_str() {
        return Ok(host);
    }
    given.parse()
}

pub(super) fn label(given: &str) -> Result<(String, String), String> {
    let (key, value) = given
        .split_once('=')
        .ok_or("expected K=V, such as team=support")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `coppice show`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice show                      the latest tree, and every event of it
  coppice show RUN                  one run
  coppice show TREE --json          the tree as data")]
pub struct ShowArgs {
    /// A run or a tree [default: the latest tree]
    pub run: Option<RunId>,
    /// Whose run it is
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub tenant: Option<TenantId>,
}

/// `coppice watch`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice watch --once
  coppice watch TREE                until it has ended")]
pub struct WatchArgs {
    #[command(flatten)]
    pub tree: TreeChoice,
    /// Print the tree as it is now, and leave
    #[arg(long)]
    pub once: bool,
}

/// `coppice events`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice events --kind 'effect.*'
  coppice events --follow --json | jq .kind
  coppice events --tree TREE --from 40")]
pub struct EventsArgs {
    /// Only of this tree
    #[arg(long, value_name = "TREE")]
    pub tree: Option<TreeId>,
    /// Only of this run
    #[arg(long, value_name = "RUN")]
    pub run: Option<RunId>,
    /// Only of this kind; * stands for anything
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// List every kind of event that there is, and leave
    #[arg(long)]
    pub kinds: bool,
    /// From this position of the log on
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// Go on with what is recorded from now on, until Ctrl-C
    #[arg(long)]
    pub follow: bool,
    /// Whose events [default: the latest tree's tenant]
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub tenant: Option<TenantId>,
}

/// `coppice env`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  eval \"$(coppice env)\"
  coppice env --nats-context > ~/.config/nats/context/coppice.json
  eval \"$(coppice env --callbacks)\"        for whoever calls back over HTTP")]
pub struct EnvArgs {
    /// Print a context for the nats CLI instead
    #[arg(long)]
    pub nats_context: bool,
    /// Connect as operator, who may start trees, instead of as watcher
    #[arg(long)]
    pub operator: bool,
    /// Print where callbacks go and the secret that signs them, instead
    #[arg(long, conflicts_with_all = ["nats_context", "operator"])]
    pub callbacks: bool,
    /// Whose callbacks
    #[arg(long, value_name = "NAME", requires = "callbacks")]
    pub tenant: Option<TenantId>,
}

/// `coppice log`
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Whether chains are intact, and log, stream and live state agree
    #[command(after_help = "Examples:
  coppice log verify
  coppice log verify --data /var/lib/coppice --json")]
    Verify,
    /// Rebuild the state of every run from its events; nothing is called, nothing appended
    #[command(after_help = "Examples:
  coppice log rebuild TREE")]
    Rebuild(RebuildArgs),
    /// How much there is of what
    #[command(after_help = "Examples:
  coppice log stats --json | jq .kinds")]
    Stats,
    /// Write trees into one file, with their blobs
    Export(ExportArgs),
    /// Take the trees of an archive into a log
    Import(ImportArgs),
    /// Take trees that are over and exported out of the log
    Trim(TrimArgs),
}

/// `coppice log rebuild`
#[derive(Debug, Clone, Args)]
pub struct RebuildArgs {
    #[command(flatten)]
    pub tree: TreeChoice,
}

/// `coppice audit`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice audit TREE")]
pub struct AuditArgs {
    #[command(flatten)]
    pub tree: TreeChoice,
}
