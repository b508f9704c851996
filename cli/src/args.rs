//! The command line: what can be said to `coppice`, with help and examples.

mod keeping;
mod reading;
mod running;
mod sim;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub use self::{
    keeping::{BackupArgs, ExportArgs, ImportArgs, RestoreArgs, TrimArgs},
    reading::{
        AuditArgs, EnvArgs, EventsArgs, LogCommand, LsArgs, RebuildArgs, ShowArgs, WatchArgs,
    },
    running::{
        BusArgs, CallbackArgs, CancelArgs, FaultsArgs, HostArgs, ResumeArgs, RunArgs, SignalArgs,
        SubmitArgs, UpArgs,
    },
    sim::{SimCommand, SimRunArgs},
};

/// Runs agents as supervised actors whose every event goes through NATS into a log from which they grow back.
#[derive(Debug, Parser)]
#[command(
    name = "coppice",
    version,
    propagate_version = true,
    max_term_width = 120,
    after_help = "\
Examples:
  coppice run fan-out-join          a scenario of the library, from start to verdict
  coppice show                      what happened in it, one line an event
  coppice up                        a host that stays, for coppice submit
  coppice scenarios                 what else the library has

Exit codes: 0 held, 1 not held, 2 bad input, 3 the environment is at fault (no nats-server, port, disk, locked data)."
)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Print JSON on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// The data directory [default: .coppice, or the latest run below it]
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario, from start to verdict
    Run(RunArgs),
    /// List the scenarios of the library, or print one
    Scenarios(ScenariosArgs),
    /// List every fault address that a scenario offers, with counts
    Faults(FaultsArgs),
    /// Run a host until Ctrl-C
    Up(UpArgs),
    /// Start a tree on the host that is up
    Submit(SubmitArgs),
    /// Go on with unfinished trees from what is recorded, and wait for their end
    Resume(ResumeArgs),
    /// Stop a run and everything below it
    Cancel(CancelArgs),
    /// Tell a run something that it waits for
    Signal(SignalArgs),
    /// Hand over what the outside says of a write
    Callback(CallbackArgs),
    /// How the host is
    #[command(after_help = "Examples:
  coppice status
  coppice status --json | jq .host.degraded")]
    Status,
    /// List runs
    Ls(LsArgs),
    /// Show a run's events, or a tree and its events
    Show(ShowArgs),
    /// Show a tree as text
    Watch(WatchArgs),
    /// Print recorded events
    Events(EventsArgs),
    /// Print how any NATS client connects
    Env(EnvArgs),
    /// Verify, rebuild, measure, export, import or trim the log
    #[command(
        subcommand,
        after_help = "Examples:
  coppice log verify
  coppice log rebuild TREE
  coppice log stats --json
  coppice log export all.archive"
    )]
    Log(LogCommand),
    /// Copy the whole log, at one position, while the host runs or not
    Backup(BackupArgs),
    /// Make a data directory from a backup
    Restore(RestoreArgs),
    /// List the evidence that a tree did not leave
    Audit(AuditArgs),
    /// Print the JSON Schema of a kind of file
    Schema(SchemaArgs),
    /// Write a commented starter file
    New(NewArgs),
    /// Validate files without running anything
    Check(CheckArgs),
    /// Measure
    #[command(
        subcommand,
        after_help = "Examples:
  coppice bench loop"
    )]
    Bench(BenchCommand),
    /// Simulate a host in virtual time, by seed
    #[command(
        subcommand,
        after_help = "Examples:
  coppice sim meta
  coppice sim run --seeds 1..10000
  coppice sim replay .coppice/sim/seed-7.json"
    )]
    Sim(SimCommand),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// The host process
    #[command(hide = true)]
    Host(HostArgs),
    /// The host of a benchmark
    #[command(hide = true)]
    BenchHost(BenchHostArgs),
    /// The desk process
    #[command(hide = true)]
    DeskServe(DeskServeArgs),
}

/// `coppice scenarios`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  coppice scenarios
  coppice scenarios show crash-after-write > mine.yaml && coppice run mine.yaml")]
pub struct ScenariosArgs {
    /// What to do [default: list]
    #[command(subcommand)]
    pub command: Option<ScenariosCommand>,
}

/// What can be done with scenarios.
#[derive(Debug, Subcommand)]
pub enum ScenariosCommand {
    /// List the scenarios of the library
    #[command(after_help = "Examples:
  coppice scenarios list --json")]
    List,
    /// Print one
    #[command(after_help = "Examples:
  coppice scenarios show crash-after-write > mine.yaml && coppice run mine.yaml")]
    Show {
        /// Its name
        name: String,
    },
}

/// `coppice schema`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  coppice schema topology > topology.schema.json")]
pub struct SchemaArgs {
    /// The kind of file
    #[arg(value_enum)]
    pub kind: SchemaKind,
}

/// Kinds of files that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    Topology,
    Contract,
    Tool,
    Scenario,
    Model,
    /// A Cedar schema for policies to begin with
    Policy,
}

/// Kinds of files that can be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NewKind {
    Topology,
    Contract,
    Tool,
    Scenario,
    Policy,
}

/// `coppice new`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  coppice new scenario refund-twice
  coppice new tool read_order
  coppice new policy mine")]
pub struct NewArgs {
    /// The kind of file
    #[arg(value_enum)]
    pub kind: NewKind,
    /// The name of what the file describes
    pub name: String,
}

/// `coppice check`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  coppice check mine.yaml topologies/*.yaml
  coppice check policies/mine")]
pub struct CheckArgs {
    /// Topologies, contracts, tools, model scripts, scenarios, JSON Schemas, directories of policies
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// `coppice bench`
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The store's hot path against the bare loop of the design, in one run
    #[command(after_help = "Examples:
  cargo run --release -p coppice-cli -- bench loop
  coppice bench loop --concurrency 64 --json")]
    Loop(BenchLoopArgs),
    /// Trees of 16 children with three durable steps each
    #[command(after_help = "Examples:
  coppice bench w1 --runs 400 --concurrency 1,16,64")]
    W1(BenchTreesArgs),
    /// Fifty durable steps in a row in one run
    #[command(after_help = "Examples:
  coppice bench w2 --runs 20")]
    W2(BenchRunsArgs),
    /// A host killed with many trees in flight, until all have ended under the next
    #[command(after_help = "Examples:
  coppice bench w3 --runs 100")]
    W3(BenchRunsArgs),
    /// A parent with many waiting children cancelled, until all is quiet
    #[command(after_help = "Examples:
  coppice bench w4 --children 1000,10000")]
    W4(BenchChildrenArgs),
    /// As w1, with a policy for every step, and what that costs over w1
    #[command(after_help = "Examples:
  coppice bench w5 --concurrency 16")]
    W5(BenchTreesArgs),
    /// Every event of a log folded anew
    #[command(after_help = "Examples:
  coppice bench rebuild --runs 300")]
    Rebuild(BenchRunsArgs),
    /// Everything that can be measured; the table is also written to bench.md in the data directory
    #[command(after_help = "Examples:
  coppice bench all
  coppice bench all --json")]
    All(BenchAllArgs),
}

/// `coppice bench w1`, `w5`
#[derive(Debug, Clone, Args)]
pub struct BenchTreesArgs {
    /// Trees at each concurrency
    #[arg(long, default_value_t = 400, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub runs: u32,
    /// How many trees run at one time
    #[arg(long, value_delimiter = ',', default_values_t = [1_u32, 16, 64], value_name = "N,N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub concurrency: Vec<u32>,
}

/// `coppice bench w2`, `w3`, `rebuild`
#[derive(Debug, Clone, Args)]
pub struct BenchRunsArgs {
    /// How many runs or trees
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub runs: u32,
}

/// `coppice bench w4`
#[derive(Debug, Clone, Args)]
pub struct BenchChildrenArgs {
    /// Children of the parent, each number measured by itself
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_u32, 10_000], value_name = "N,N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub children: Vec<u32>,
}

/// `coppice bench all`
#[derive(Debug, Clone, Args)]
pub struct BenchAllArgs {
    /// Trees of w1 and w5 at each concurrency
    #[arg(long, default_value_t = 400, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub runs: u32,
    #[command(flatten)]
    pub hot_path: BenchLoopArgs,
}

/// `coppice bench loop`
#[derive(Debug, Clone, Args)]
pub struct BenchLoopArgs {
    /// Commits of one round, over all chains
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub commits: u32,
    /// Rounds, the two sides in turns; the middle one counts
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// How many chains append at one time
    #[arg(long, value_delimiter = ',', default_values_t = [1_u32, 16, 64, 256], value_name = "N,N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub concurrency: Vec<u32>,
}

/// `coppice completions`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  coppice completions bash > ~/.local/share/bash-completion/completions/coppice
  coppice completions zsh > ~/.zfunc/_coppice")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The host of a benchmark: see `command::bench::witness`.
#[derive(Debug, Args)]
pub struct BenchHostArgs {
    /// How it is started, as JSON
    pub options: String,
    /// The file of its effects
    pub witness: PathBuf,
}

/// The desk process: see `coppice_scenarios::desk`.
#[derive(Debug, Args)]
pub struct DeskServeArgs {
    /// Directory of its store
    pub dir: PathBuf,
    /// How it behaves, as JSON
    pub world: String,
    /// The file that says where callbacks go
    pub outside: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
