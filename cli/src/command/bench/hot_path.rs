//! `coppice bench loop`: the store's hot path against the bare loop of the design (ARCHITECTURE.md), in one run on one nats-server.
//!
//! Both append the same bytes: chains of small commits, each chain waiting for its own record before its next. The bare loop is NATS and
//! fjall with nothing in between but what cannot be left out: batches, the hash of each commit, and the same number of index inserts.

use std::{path::Path, time::Duration};

use coppice_store::{BusOptions, GuardCommand, Options, Role, Store, clock};
use serde::Serialize;

use super::{bare, line::Line, product};
use crate::{
    args::BenchLoopArgs,
    failure::{Failure, Problem},
};

/// One line of the result.
#[derive(Debug, Serialize)]
pub struct Loop {
    workload: &'static str,
    pub concurrency: u32,
    pub feed: bool,
    pub bare_per_s: f64,
    pub coppice_per_s: f64,
    pub ratio: f64,
    pub bare_p50_ms: f64,
    pub coppice_p50_ms: f64,
}

/// What one side did.
pub(crate) struct Measured {
    /// From the first commit to the record of the last.
    pub took: Duration,
    /// How long each commit waited for its record.
    pub waits: Vec<Duration>,
}

/// Measures both sides, feed off and on.
pub async fn measure(
    args: &BenchLoopArgs,
    directory: &Path,
    say: &mut (dyn FnMut(Line) -> Result<(), Failure> + Send),
) -> Result<(), Failure> {
    for feed in [false, true] {
        let data = directory.join(if feed { "with-feed" } else { "without-feed" });
        let store = open(&data, feed).await?;
        let endpoint = store.endpoint(Role::Host).await;
        let bare = bare::Bare::open(&endpoint, &data.join("bare"), feed).await?;
        for concurrency in &args.concurrency {
            let of_each = (args.commits / concurrency).max(1);
            let (mut of_bare, mut of_product) = (Vec::new(), Vec::new());
            // In turns, so that whatever else the machine does meets both.
            for _ in 0..args.rounds {
                of_bare.push(bare.run(*concurrency, of_each).await?);
                of_product.push(product::run(&store, *concurrency, of_each).await?);
            }
            let (of_bare, of_product) = (middle(of_bare), middle(of_product));
            let line = line(*concurrency, of_each, feed, of_bare, of_product);
            say(Line::Loop(line))?;
        }
        bare.close().await?;
        store.close().await;
    }
    Ok(())
}

async fn open(data: &Path, feed: bool) -> Result<Store, Failure> {
    let guard = GuardCommand::this_program().map_err(|error| Failure::environment(&error))?;
    let host = "bench"
        .parse()
        .map_err(|error: coppice_messages::ids::InvalidId| Failure::environment(&error))?;
    let mut options = Options::new(data, host, BusOptions::Private { guard });
    options.feed = feed;
    Store::open(options)
        .await
        .map_err(|error| Failure::Environment(Problem::of(&error)))
}

/// The round that took neither the least nor the most time.
fn middle(mut rounds: Vec<Measured>) -> Measured {
    rounds.sort_by_key(|round| round.took);
    let at = rounds.len() / 2;
    rounds.swap_remove(at)
}

fn line(concurrency: u32, of_each: u32, feed: bool, bare: Measured, product: Measured) -> Loop {
    let commits = f64::from(concurrency) * f64::from(of_each);
    let per_s = |measured: &Measured| (commits / measured.took.as_secs_f64()).round();
    let (bare_per_s, coppice_per_s) = (per_s(&bare), per_s(&product));
    Loop {
        workload: "loop",
        concurrency,
        feed,
        bare_per_s,
        coppice_per_s,
        ratio: (coppice_per_s / bare_per_s * 100.0).round() / 100.0,
        bare_p50_ms: median_ms(bare.waits),
        coppice_p50_ms: median_ms(product.waits),
    }
}

fn median_ms(mut waits: Vec<Duration>) -> f64 {
    waits.sort_unstable();
    let middle = waits.get(waits.len() / 2).copied().unwrap_or_default();
    (middle.as_secs_f64() * 1e5).round() / 100.0
}

/// Runs `chains` tasks to their end and gathers how long their commits waited.
pub(crate) async fn gathered(
    chains: Vec<tokio::task::JoinHandle<Result<Vec<Duration>, Failure>>>,
) -> Result<Measured, Failure> {
    let from = clock::mono();
    let mut waits = Vec::new();
    for chain in chains {
        let ended = chain.await.map_err(|error| Failure::environment(&error))?;
        waits.extend(ended?);
    }
    Ok(Measured {
        took: from.elapsed(),
        waits,
    })
}
