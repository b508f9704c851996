//! `coppice run` and `coppice faults`: a scenario from start to verdict, once or many times.

mod faults;
mod print;
mod repeat;

use std::path::{Path, PathBuf};

use coppice_actors::host::BusChoice;
use coppice_scenarios::{
    library::Source,
    runner::{self, RunError, RunOptions},
    scenario::Scenario,
    verdict::{Report, Verdict},
};
use coppice_store::{BusOptions, Credentials, GuardCommand, Realm, ServerAddress, clock};
use coppice_topology::{Diagnostics, check::FileKind};

pub use self::{faults::faults, print::invoked};
use crate::{
    args::{BusArgs, Common, RunArgs},
    data,
    failure::{Failure, Problem},
    live::Live,
    out,
};

/// `coppice run`
pub async fn run(args: &RunArgs, common: &Common) -> Result<(), Failure> {
    let scenario = found(&args.scenario)?;
    let seed = seed(args.seed, &scenario);
    if args.repeat > 1 {
        return repeat::repeat(args, common, &scenario, seed).await;
    }
    let report = once(args, common.data.as_deref(), &scenario, seed).await?;
    if common.json {
        out::json(&report)?;
    } else {
        out::text(&print::report(&report))?;
        if report.verdict == Verdict::NotHeld {
            out::text(&print::again(args, &report))?;
        }
        if !args.discard {
            out::text(&print::next_commands(&report))?;
        }
    }
    if args.discard {
        data::discard(&report.data)?;
    }
    held(report.verdict)
}

/// The scenario that a person named; a topology that was named instead is said to be one.
fn found(name: &str) -> Result<Scenario, Failure> {
    let source = Source::named("scenario", "scenarios", name)
        .map_err(|error| Failure::Input(Problem::of(&error)))?;
    let kind = FileKind::of(&source.file, &source.bytes);
    if kind.map_err(|fault| Diagnostics(vec![fault]))? == FileKind::Topology {
        let message = format!("{} is a topology, and no scenario", source.file);
        let help = format!(
            "start a tree of it: coppice submit {name} --input JSON, or write a scenario that names it: coppice new scenario NAME"
        );
        return Err(Failure::Input(Problem::new(message).help(help)));
    }
    Ok(Scenario::read(source)?)
}

fn held(verdict: Verdict) -> Result<(), Failure> {
    match verdict {
        Verdict::Held => Ok(()),
        Verdict::NotHeld => Err(Failure::NotHeld),
    }
}

/// The seed that was given, else the scenario's, else a new one.
fn seed(given: Option<u64>, scenario: &Scenario) -> u64 {
    given.or(scenario.document.seed).unwrap_or_else(|| {
        let micros = u64::try_from(clock::now().0).unwrap_or_default();
        micros % 1_000_000_000
    })
}

/// Runs it once, in a directory of its own.
async fn once(
    args: &RunArgs,
    given: Option<&Path>,
    scenario: &Scenario,
    seed: u64,
) -> Result<Report, Failure> {
    let document = &scenario.document;
    let data = data::of_run(given, document.scenario.as_str())?;
    let desk = runner::desk_of(scenario, seed).map_err(|error| failed(&error.into()))?;
    let world = document.world.desk.clone();
    let mut live = Live::new().remembering(data.clone(), world, desk);
    let options = RunOptions {
        program: program()?,
        scenario: scenario.clone(),
        seed,
        data: data.clone(),
        tenant: args.tenant.clone(),
        faults: args.all_faults(),
        people: args.cancels.iter().cloned().map(Into::into).collect(),
        bus: bus(&args.bus)?,
    };
    live.say(&format!(
        "{}: {} (seed {seed})",
        document.scenario, document.about
    ));
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler Ctrl-C ends this process, and the host and the desk with it.
            std::future::pending::<()>().await;
        }
    };
    let report = runner::run(options, &mut live, interrupted).await;
    let started = live.has_started();
    if report.is_err() && given.is_none() && !started {
        // Nothing ever ran there.
        data::discard(&data)?;
    }
    report.map_err(|error| ended_before(&error, &data, started))
}

/// There is no verdict: why, and what is left to go on with.
fn ended_before(error: &RunError, data: &Path, started: bool) -> Failure {
    let told = match error {
        RunError::Interrupted => Failure::Interrupted,
        RunError::DeskGone(_) => Failure::Environment,
        error => return failed(error),
    };
    let help = if started {
        let program = print::invoked();
        format!("go on with: {program} resume --data {}", data.display())
    } else {
        "nothing had been started".to_owned()
    };
    told(Problem::of(error).help(help))
}

fn failed(error: &RunError) -> Failure {
    let problem = Problem::of(error);
    if error.is_bad_input() {
        Failure::Input(problem)
    } else {
        Failure::Environment(problem)
    }
}

/// This program, to be started again as host, desk and guard.
pub fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::environment(&error))
}

/// The NATS server that was asked for.
pub fn bus(args: &BusArgs) -> Result<BusChoice, Failure> {
    let (Some(url), Some(realm)) = (&args.nats, &args.realm) else {
        return Ok(BusChoice::Private);
    };
    let (url, credentials) = server(url, args)?;
    let (user, password, credentials_file) = match credentials {
        Credentials::None => (None, None, None),
        Credentials::Password { user, password } => (Some(user), Some(password), None),
        Credentials::File(file) => (None, None, Some(file)),
    };
    Ok(BusChoice::Shared {
        url,
        realm: realm.clone(),
        user,
        password,
        credentials_file,
    })
}

/// Where the server is, and who connects.
fn server(url: &str, args: &BusArgs) -> Result<(ServerAddress, Credentials), Failure> {
    let read = ServerAddress::with_credentials(url);
    let (url, in_url) = read.map_err(|error| Failure::Input(Problem::of(&error)))?;
    match (&args.nats_creds, in_url) {
        (None, credentials) => Ok((url, credentials)),
        (Some(file), Credentials::None) => Ok((url, Credentials::File(file.clone()))),
        (Some(_), _) => Err(Failure::input(
            "--nats has a user and --nats-creds names one too: leave one of them out",
        )),
    }
}

/// The same for a store that no host opens.
pub fn bus_options(args: &BusArgs, guard: GuardCommand) -> Result<BusOptions, Failure> {
    let (Some(url), Some(realm)) = (&args.nats, &args.realm) else {
        return Ok(BusOptions::Private { guard });
    };
    let (url, credentials) = server(url, args)?;
    Ok(BusOptions::Shared {
        url,
        realm: Realm::shared(realm).map_err(|error| Failure::Input(Problem::of(&error)))?,
        credentials,
    })
}
