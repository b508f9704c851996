//! The small simulator: one host in virtual time. The same driver, kernel, admission, following and publisher's hold as in the product run
//! over a simulated stream, log, desk and model; faults are drawn by seed; after each step the laws of `spec/scenarios.md` 6 are checked; at
//! the end the weather is fair and everything must converge.
//!
//! One seed is one history: [`meta`] shows it. No clock, no thread and no other random source than the seed is used in here.
//!
//! What it does not show: the real nats-server, fjall, ractor and HTTP, which the scenarios do; several hosts; storage that fills or rots.

mod agenda;
mod desk;
mod faults;
mod file;
mod host;
mod laws;
pub mod log;
mod model;
mod report;
mod seed;
mod server;
mod step;
pub mod stream;
mod trace;
mod weather;
mod workload;
mod world;

use std::ops::RangeInclusive;

pub use self::{
    file::{FileError, Replayed, replay},
    report::{Failure, Options, Progress, Report},
};
use self::{trace::Trace, world::World};

/// What became of one seed.
struct History {
    failure: Option<Failure>,
    digest: coppice_messages::Digest,
    steps: u64,
    commits: u64,
    hosts: u64,
}

fn history(seed: u64) -> History {
    let mut world = match World::new(seed, Trace::default()) {
        Ok(world) => world,
        Err(unusable) => return History::unusable(seed, &unusable),
    };
    world.run();
    let (commits, hosts, steps) = (world.log.len() as u64, world.host.nth, world.steps);
    let violation = world.violation.take();
    let (digest, _, tail) = world.trace.finish();
    let failure = violation.map(|violation| Failure {
        seed,
        law: violation.law.to_owned(),
        what: violation.what,
        steps,
        history: digest,
        tail,
        file: None,
    });
    History {
        failure,
        digest,
        steps,
        commits,
        hosts,
    }
}

impl History {
    fn unusable(seed: u64, unusable: &workload::Unusable) -> Self {
        let digest = coppice_messages::Digest::ZERO;
        let source = std::error::Error::source(unusable);
        let failure = Failure {
            seed,
            law: "the simulated topology is valid".to_owned(),
            what: format!(
                "{unusable}\n{}",
                source.map(ToString::to_string).unwrap_or_default()
            ),
            steps: 0,
            history: digest,
            tail: Vec::new(),
            file: None,
        };
        Self {
            failure: Some(failure),
            digest,
            steps: 0,
            commits: 0,
            hosts: 0,
        }
    }
}

/// Runs each seed twice: equal seeds must give equal histories, byte for byte.
#[must_use]
pub fn meta(seeds: RangeInclusive<u64>) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        let (first, second) = (history(seed), history(seed));
        let differs = first.digest != second.digest;
        report.add(&first);
        if differs {
            report.failures.push(Failure {
                seed,
                law: "one seed is one history".to_owned(),
                what: format!("{} and {}", first.digest, second.digest),
                steps: first.steps,
                history: first.digest,
                tail: Vec::new(),
                file: None,
            });
        }
    }
    report
}

/// Runs seeds; each that breaks a law leaves a file that [`replay`] repeats.
pub fn run(
    seeds: RangeInclusive<u64>,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        let history = history(seed);
        report.add(&history);
        if let Some(mut failure) = history.failure {
            failure.leave(options);
            report.failures.push(failure);
        }
        progress(&Progress {
            seed,
            seeds: report.seeds,
            failures: report.failures.len() as u64,
        });
        if report.failures.len() >= options.failures_max {
            break;
        }
    }
    report
}
