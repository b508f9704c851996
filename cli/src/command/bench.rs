//! `coppice bench`: how fast the product is, beside the bare loop of the design and beside what is aimed at.
//!
//! Each workload has a data directory of its own, which is removed afterwards, and a host of its own with everything on that is on in life: fsync,
//! nats-server, feed. What a workload costs the client is not counted, but is done on the same machine.

mod bare;
mod chain;
mod crash;
mod ends;
mod hot_path;
mod line;
mod product;
mod quiet;
mod rebuild;
mod release;
mod row;
mod subject;
mod usage;
mod width;
pub mod witness;

use std::{fs, path::Path, path::PathBuf};

use self::{line::Line, subject::Place, width::Width};
use crate::{
    args::{BenchAllArgs, BenchCommand, BenchTreesArgs, Common},
    failure::Failure,
    out,
};

/// The file of the table, in the data directory.
const TABLE: &str = "bench.md";
/// Trees whose log is rebuilt.
const REBUILT: u32 = 300;

/// `coppice bench`
pub async fn bench(command: &BenchCommand, common: &Common) -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        eprintln!("this is a debug build: its figures say nothing; use cargo run --release");
    }
    let data = common.data.as_deref();
    let root = data.map_or_else(|| PathBuf::from(".coppice"), Path::to_owned);
    let directory = root.join(format!("bench-{}", std::process::id()));
    fs::create_dir_all(&directory).map_err(|error| Failure::environment(&error))?;
    let mut lines = Vec::new();
    let mut say = |line: Line| {
        if common.json {
            out::json(&line)?;
        }
        lines.push(line);
        Ok(())
    };
    let measured = Box::pin(measure(command, &directory, &mut say)).await;
    // What was measured stays measured; a directory that cannot be removed is said.
    if let Err(error) = fs::remove_dir_all(&directory) {
        eprintln!("{} cannot be removed: {error}", directory.display());
    }
    let rows: Vec<_> = lines.iter().flat_map(Line::rows).collect();
    if let (BenchCommand::All(_), false) = (command, rows.is_empty()) {
        let file = root.join(TABLE);
        let table = line::markdown(&["workload", "figure", "measured", "aim"], &rows);
        fs::write(&file, table).map_err(|error| Failure::environment(&error))?;
        eprintln!("the table is in {}", file.display());
    }
    if !common.json && !rows.is_empty() {
        out::table(&["WORKLOAD", "FIGURE", "MEASURED", "AIM"], &rows)?;
    }
    measured
}

type Say<'a> = &'a mut (dyn FnMut(Line) -> Result<(), Failure> + Send);

async fn measure(command: &BenchCommand, directory: &Path, say: Say<'_>) -> Result<(), Failure> {
    match command {
        BenchCommand::Loop(args) => hot_path::measure(args, directory, say).await,
        BenchCommand::W1(args) => trees("w1", &[], args, directory, say).await.map(drop),
        BenchCommand::W2(args) => {
            say(row::measure(args.runs, Place::below(directory, "w2")).await?)
        }
        BenchCommand::W3(args) => {
            say(crash::measure(args.runs, Place::below(directory, "w3")).await?)
        }
        BenchCommand::W4(args) => quiet(&args.children, directory, say).await,
        BenchCommand::W5(args) => {
            let w1 = trees("w1", &[], args, directory, say).await?;
            trees("w5", &w1, args, directory, say).await.map(drop)
        }
        BenchCommand::Rebuild(args) => rebuilt(args.runs, directory, say).await,
        BenchCommand::All(args) => all(args, directory, say).await,
    }
}

async fn all(args: &BenchAllArgs, directory: &Path, say: Say<'_>) -> Result<(), Failure> {
    let step = |nth: u32, what: &str| eprintln!("bench {nth}/7: {what}");
    step(1, "loop: the bare loop and the store, in turns");
    hot_path::measure(&args.hot_path, directory, say).await?;
    let trees_args = BenchTreesArgs {
        runs: args.runs,
        concurrency: vec![1, 16, 64],
    };
    step(2, "w1: trees of 16 children with 3 steps each");
    let w1 = trees("w1", &[], &trees_args, directory, say).await?;
    step(3, "w2: 50 steps in a row");
    say(row::measure(20, Place::below(directory, "w2")).await?)?;
    step(4, "w3: a host killed with 100 trees in flight");
    say(crash::measure(100, Place::below(directory, "w3")).await?)?;
    step(5, "w5: as w1, with a policy for every step");
    trees("w5", &w1, &trees_args, directory, say).await?;
    step(6, "rebuild: every event of a log folded");
    rebuilt(REBUILT, directory, say).await?;
    step(7, "w4: 1,000 and 10,000 waiting children cancelled");
    quiet(&[1_000, 10_000], directory, say).await
}

async fn trees(
    workload: &'static str,
    w1: &[Width],
    args: &BenchTreesArgs,
    directory: &Path,
    say: Say<'_>,
) -> Result<Vec<Width>, Failure> {
    let mut place = Place::below(directory, workload);
    if !w1.is_empty() {
        place = place.governed()?;
    }
    let amount = (args.runs, args.concurrency.as_slice());
    let (_, measured) = width::measure(workload, w1, amount, place, say).await?;
    Ok(measured)
}

async fn quiet(children: &[u32], directory: &Path, say: Say<'_>) -> Result<(), Failure> {
    for children in children {
        let place = Place::below(directory, &format!("w4-{children}"));
        say(quiet::measure(*children, place).await?)?;
    }
    Ok(())
}

/// Makes a log of so many trees of W1, and rebuilds it.
async fn rebuilt(runs: u32, directory: &Path, say: Say<'_>) -> Result<(), Failure> {
    let place = Place::below(directory, "rebuild");
    let mut unsaid = |_| Ok(());
    let amount = (runs, [64].as_slice());
    let (place, _) = width::measure("rebuild", &[], amount, place, &mut unsaid).await?;
    say(rebuild::measure(&place)?)
}
