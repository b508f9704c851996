//! The command `coppice`: parses the command line, does what it says, and ends with the exit code of `spec/scenarios.md` 1.

mod args;
mod command;
mod data;
mod elsewhere;
mod failure;
mod live;
mod memo;
mod out;
mod reach;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser as _;
use coppice_actors::host::{HostOptions, host_main};
use coppice_scenarios::desk::{self, World};
use tracing_subscriber::EnvFilter;

use crate::{
    args::{Cli, Command, DeskServeArgs},
    failure::{Failure, Problem},
};

/// What threads free was mostly allocated by others: a commit is decided on one, recorded on a second and told on a third. The system's
/// allocator made that a fifth of the host's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The hidden subcommand of the guard of nats-server; see `coppice_store::guard_main`.
const GUARD: &str = "nats-guard";

fn main() -> ExitCode {
    // Whoever builds a TLS client later finds this provider; that there is one already would be the same one.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|word| word == GUARD) {
        return coppice_store::guard_main(arguments.split_off(2));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout and are no error; clap's own code for a wrong command line is 2, as ours is.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            let _closed = error.print();
            return ExitCode::from(code);
        }
    };
    log_to_stderr(&cli.command);
    if let Command::Host(args) = &cli.command {
        return host(&args.options);
    }
    if let Command::BenchHost(args) = &cli.command {
        return command::bench::witness::host(&args.options, &args.witness);
    }
    let json = cli.common.json;
    match tell(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell(json);
            failure.code()
        }
    }
}

fn tell(cli: Cli) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::environment(&error))?;
    runtime.block_on(carry_out(cli))
}

async fn carry_out(cli: Cli) -> Result<(), Failure> {
    let common = &cli.common;
    match &cli.command {
        Command::Scenarios(args) => command::files::scenarios(args, common.json),
        Command::Schema(args) => command::files::schema(args),
        Command::New(args) => command::files::new(args, common.json),
        Command::Check(args) => command::files::check(args, common.json),
        Command::Completions(args) => command::files::completions(args),
        Command::Sim(command) => command::sim::sim(command, common.json),
        Command::DeskServe(args) => serve_desk(args).await,
        // Was answered before there was a runtime: a host has one of its own.
        Command::Host(_) | Command::BenchHost(_) => Ok(()),
        Command::Run(args) => Box::pin(command::run::run(args, common)).await,
        Command::Faults(args) => Box::pin(command::run::faults(args, common)).await,
        Command::Bench(command) => Box::pin(command::bench::bench(command, common)).await,
        Command::Up(args) => command::host::up(args, common).await,
        Command::Submit(args) => command::host::submit(args, common).await,
        Command::Resume(args) => command::host::resume(args, common).await,
        Command::Cancel(args) => command::host::cancel(args, common).await,
        Command::Signal(args) => command::host::signal(args, common).await,
        Command::Callback(args) => command::host::callback(args, common).await,
        Command::Status => command::look::status(common).await,
        Command::Ls(args) => command::look::ls(args, common).await,
        Command::Show(args) => command::look::show(args, common).await,
        Command::Watch(args) => command::look::watch(args, common).await,
        Command::Env(args) => command::look::env(args, common).await,
        Command::Audit(args) => command::look::audit(args, common).await,
        Command::Events(args) => command::events::events(args, common).await,
        Command::Log(args) => command::log::log(args, common).await,
        Command::Backup(args) => command::backup::backup(args, common).await,
        Command::Restore(args) => command::backup::restore(args, common),
    }
}

/// The host process: its options come as JSON from whoever supervises it.
fn host(options: &str) -> ExitCode {
    match serde_json::from_str::<HostOptions>(options) {
        Ok(options) => host_main(options),
        Err(error) => {
            eprintln!("coppice host: its options are not ones: {error}");
            ExitCode::from(2)
        }
    }
}

async fn serve_desk(args: &DeskServeArgs) -> Result<(), Failure> {
    let world: World = serde_json::from_str(&args.world)
        .map_err(|error| Failure::input(format!("the desk's world is not one: {error}")))?;
    let options = desk::Options {
        dir: args.dir.clone(),
        listen: ([127, 0, 0, 1], 0).into(),
        world,
        outside: args.outside.clone(),
    };
    desk::run_until_stdin_closes(options)
        .await
        .map_err(|error| Failure::Environment(Problem::of(&error)))
}

/// What the parts of the program say beside results: warnings from processes of their own and from what stays up, errors else. `RUST_LOG` asks for more.
fn log_to_stderr(command: &Command) {
    let usual = match command {
        Command::Host(_) | Command::BenchHost(_) | Command::DeskServe(_) => "warn",
        // A client that looks for its server again is said by the commands, in their own words; the host's is in its host.log.
        Command::Up(_) => "warn,async_nats=off",
        _ => "error,async_nats=off",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // What cannot be written (a full disk under host.log) is dropped: the library would say so on the same stream, and panic over it.
        .log_internal_errors(false)
        .init();
}
