//! `coppice sim`: the simulator of one host. It needs neither a host nor nats-server.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
};

use coppice_scenarios::sim::{self, Options, Progress, Report};
use serde_json::json;

use crate::{
    args::{SimCommand, SimRunArgs},
    failure::{Failure, Problem},
    out,
};

/// Seeds between two words about how far it is.
const WORD_EVERY: u64 = 100;

/// `coppice sim`
pub fn sim(command: &SimCommand, json: bool) -> Result<(), Failure> {
    match command {
        SimCommand::Meta { seeds } => told("meta", &sim::meta(seeds.0.clone()), json),
        SimCommand::Run(args) => told("run", &run(args), json),
        SimCommand::Replay { file } => replay(file, json),
    }
}

fn run(args: &SimRunArgs) -> Report {
    let options = Options {
        directory: Some(args.failures.clone()),
        failures_max: args.at_most,
    };
    let shows = io::stderr().is_terminal();
    sim::run(args.seeds.0.clone(), &options, &mut |progress| {
        if shows && progress.seeds.is_multiple_of(WORD_EVERY) {
            say(progress);
        }
    })
}

fn say(progress: &Progress) {
    let Progress {
        seed,
        seeds,
        failures,
    } = progress;
    // Who does not read it misses nothing: the report says it all.
    let _ = writeln!(
        io::stderr(),
        "{seeds} seeds, up to {seed}, {failures} failed"
    );
}

fn told(what: &str, report: &Report, json: bool) -> Result<(), Failure> {
    if json {
        let verdict = if report.held() { "held" } else { "not_held" };
        out::json(&json!({ "sim": what, "verdict": verdict, "report": report }))?;
    } else {
        out::line(report.to_string())?;
    }
    if report.held() {
        Ok(())
    } else {
        Err(Failure::NotHeld)
    }
}

fn replay(file: &Path, json: bool) -> Result<(), Failure> {
    let replayed = sim::replay(file).map_err(|error| Failure::Input(Problem::of(&error)))?;
    let same = replayed.is_same();
    if json {
        out::json(&json!({ "sim": "replay", "same": same, "replayed": replayed }))?;
    } else if let Some(seen) = &replayed.seen {
        for line in &seen.tail {
            out::line(line)?;
        }
        out::line(format!(
            "seed {}: not held: {}: {}",
            seen.seed, seen.law, seen.what
        ))?;
        if !same {
            out::line("this is not the history of the file: another build wrote it")?;
        }
    } else {
        out::line(format!("seed {}: every law held", replayed.expected.seed))?;
    }
    if replayed.seen.is_some() {
        Err(Failure::NotHeld)
    } else {
        Ok(())
    }
}
