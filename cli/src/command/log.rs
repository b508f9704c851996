//! `coppice log`: verify, rebuild, stats, export, import, trim.

mod alone;
mod archive;
mod export;
mod remedy;
mod trim;
mod verify;

use std::collections::BTreeMap;

use coppice_actors::api::{EventFilter, ListRequest, RunView, TailRequest};
use serde::Serialize;

pub use self::archive::{Fresh, Progress, Source, copy};
use self::{
    export::{export, import},
    trim::trim,
    verify::verify,
};
use crate::{
    args::{Common, LogCommand, RebuildArgs},
    failure::Failure,
    out,
    reach::Reach,
};

/// `coppice log`
pub async fn log(command: &LogCommand, common: &Common) -> Result<(), Failure> {
    match command {
        LogCommand::Verify => verify(common).await,
        LogCommand::Rebuild(args) => rebuild(args, common).await,
        LogCommand::Stats => stats(common).await,
        LogCommand::Export(args) => export(args, common).await,
        LogCommand::Trim(args) => Box::pin(trim(args, common)).await,
        LogCommand::Import(args) => Box::pin(import(args, common)).await,
    }
}

/// Each run of a tree folded from its events, twice: the two are equal, or the fold depends on something that is not recorded.
async fn rebuild(args: &RebuildArgs, common: &Common) -> Result<(), Failure> {
    let reach = Reach::open(common).await?;
    let tenant = reach.tenant(args.tree.tenant.as_ref());
    let tree = reach.the_tree(&tenant, args.tree.tree.as_ref()).await?;
    let (mut rebuilt, mut equal) = (Vec::new(), true);
    for row in reach.runs_of(&tenant, &tree).await? {
        let first = reach.get(&tenant, &row.run).await?;
        let second = reach.get(&tenant, &row.run).await?;
        // A run that is at work may have gone on in between.
        equal &= first.state == second.state || first.head != second.head;
        rebuilt.push(second);
    }
    rebuilt.sort_by(|one, other| one.row.path.cmp(&other.row.path));
    if common.json {
        out::json(&rebuilt)?;
    } else {
        let row = |view: &RunView| {
            let state = view.state.hex_prefix(16);
            let ended = view
                .row
                .reason
                .map_or("open".to_owned(), |reason| reason.to_string());
            vec![
                view.row.path.clone(),
                view.events.to_string(),
                view.epoch.to_string(),
                state,
                ended,
            ]
        };
        out::table(
            &["PATH", "EVENTS", "EPOCH", "STATE", "ENDED"],
            &rebuilt.iter().map(row).collect::<Vec<_>>(),
        )?;
        out::line(format!(
            "{tree}: rebuilt twice, {}",
            if equal { "equal" } else { "DIFFERENT" }
        ))?;
    }
    if equal { Ok(()) } else { Err(Failure::NotHeld) }
}

/// How much there is of what.
#[derive(Debug, Default, Serialize)]
struct Stats {
    tenant: String,
    pos: u64,
    trees: u64,
    runs: u64,
    open: u64,
    events: u64,
    disk_bytes: u64,
    kinds: BTreeMap<String, u64>,
}

async fn stats(common: &Common) -> Result<(), Failure> {
    let reach = Reach::open(common).await?;
    let tenant = reach.tenant(None);
    let mut stats = Stats {
        tenant: tenant.to_string(),
        disk_bytes: size(&reach.data.join("log")),
        ..Stats::default()
    };
    for row in reach.all(&tenant, ListRequest::default()).await? {
        stats.runs += 1;
        stats.trees += u64::from(row.parent.is_none());
        stats.open += u64::from(row.reason.is_none());
    }
    let mut request = TailRequest {
        filter: EventFilter::default(),
        ..TailRequest::default()
    };
    loop {
        let page = reach.tail(&tenant, &request).await?;
        for event in page.events {
            stats.pos = event.pos;
            stats.events += 1;
            *stats.kinds.entry(event.kind).or_default() += 1;
        }
        request.from = page.next;
        if page.end {
            break;
        }
    }
    if common.json {
        return out::json(&stats);
    }
    out::line(format!(
        "tenant {}: {}, {} ({} open), {}, last position {}, {} KiB on disk",
        stats.tenant,
        out::count(stats.trees, "tree"),
        out::count(stats.runs, "run"),
        stats.open,
        out::count(stats.events, "event"),
        stats.pos,
        stats.disk_bytes / 1024
    ))?;
    let row = |(kind, count): (&String, &u64)| vec![kind.clone(), count.to_string()];
    out::table(
        &["KIND", "EVENTS"],
        &stats.kinds.iter().map(row).collect::<Vec<_>>(),
    )
}

/// Bytes of all files below a directory.
fn size(directory: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
