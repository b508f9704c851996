//! `coppice log trim`: takes trees that are over, and that an export has, out of the log.

use std::{collections::BTreeMap, path::Path};

use coppice_actors::{api::GetRequest, inspect::Inspect};
use coppice_messages::ids::{TenantId, TreeId};
use coppice_store::{
    Log, LogReader, Store,
    archive::{self, Chosen, GatherError, Held, Selection},
    clock,
    trim::{self, TrimError},
};
use serde_json::json;

use super::{
    archive::Source,
    export::{no_host, opened},
};
use crate::{
    args::{BusArgs, Common, TrimArgs},
    data,
    failure::{Failure, Problem},
    out,
    reach::unopened,
};

/// Pause between two looks whether the stream has everything.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// How long the stream may get nothing before waiting for it is given up.
const STANDS_STILL: std::time::Duration = std::time::Duration::from_secs(60);

type Exported = BTreeMap<(TenantId, TreeId), Held>;

/// What a trim of the log would do.
struct Choice {
    /// Where the log stands.
    pos: u64,
    /// The trees that go.
    go: Vec<(TenantId, TreeId)>,
    /// Those that ended before and stay, and why.
    stay: Vec<(Chosen, String)>,
}

/// `coppice log trim`
pub async fn trim(args: &TrimArgs, common: &Common) -> Result<(), Failure> {
    let chosen = data::to_read(common.data.as_deref())?;
    chosen.say();
    let data = chosen.path;
    no_host(&data, "a trim").await?;
    if !data.join("nats").is_dir() {
        let message = format!("{} has no nats-server of its own", data.display());
        return Err(Failure::Input(Problem::new(message).help(
            "only a log with a private stream is trimmed; after a restore let a host open it first: coppice up",
        )));
    }
    let exported = exported(args, &data)?;
    // Whatever the stream has is in the log before anything is decided.
    through(&data).await?;
    if !args.dry_run {
        // What an earlier trim has left that was killed; also when nothing is to go.
        trim::clear(&data).map_err(|error| failed(&error))?;
    }
    let choice = choose(args, &data, &exported)?;
    let mut report = trim::Report::default();
    if !args.dry_run && !choice.go.is_empty() {
        report = trim::trim(&data, &choice.go, (choice.pos, clock::now()), |step| {
            eprintln!("trim: {}", said(step));
            true
        })
        .map_err(|error| failed(&error))?;
        through(&data).await?;
    }
    tell(args, common, &choice, report)
}

fn said(step: trim::Step) -> &'static str {
    match step {
        trim::Step::Written => "what stays is written and verified",
        trim::Step::StreamGone => "the old stream is removed",
        trim::Step::Swapped => "the trimmed log is in place",
        trim::Step::Marked => "the new stream is filled",
    }
}

fn failed(error: &TrimError) -> Failure {
    Failure::Environment(Problem::of(error).help("nothing that stays is lost; trim once more"))
}

fn tell(
    args: &TrimArgs,
    common: &Common,
    Choice {
        go: trimmed,
        stay: kept,
        ..
    }: &Choice,
    report: trim::Report,
) -> Result<(), Failure> {
    if common.json {
        let tree = |(tenant, tree): &(TenantId, TreeId)| json!({ "tenant": tenant, "tree": tree });
        let stays = |(of, why): &(Chosen, String)| json!({ "tenant": of.tenant, "tree": of.tree, "why": why });
        return out::json(&json!({
            "dry_run": args.dry_run,
            "trimmed": trimmed.iter().map(tree).collect::<Vec<_>>(),
            "kept": kept.iter().map(stays).collect::<Vec<_>>(),
            "commits": report.commits, "blobs": report.blobs,
        }));
    }
    for (of, why) in kept {
        out::line(format!("kept {}/{}: {why}", of.tenant, of.tree))?;
    }
    if args.dry_run {
        for (tenant, tree) in trimmed {
            out::line(format!("would go {tenant}/{tree}"))?;
        }
        return out::line(format!(
            "{} would go, nothing was changed",
            out::count(trimmed.len() as u64, "tree")
        ));
    }
    out::line(format!(
        "{} trimmed: {}, {}; {} that ended before are kept",
        out::count(trimmed.len() as u64, "tree"),
        out::count(report.commits, "commit"),
        out::count(report.blobs, "blob"),
        kept.len()
    ))
}

/// What the exports have; each is verified to its end.
fn exported(args: &TrimArgs, data: &Path) -> Result<Exported, Failure> {
    let mut all = Exported::new();
    for file in &args.exported {
        let source = Source::open(file, data)?;
        let read = || {
            let mut archive = source.reader()?;
            archive::plan(&mut archive, None, |_| {})?;
            Ok(archive::held(&mut source.reader()?)?)
        };
        all.extend(read().map_err(|error| source.refused(&error))?);
    }
    Ok(all)
}

fn choose(args: &TrimArgs, data: &Path, exported: &Exported) -> Result<Choice, Failure> {
    let log = Log::open(data).map_err(|error| unopened(&error, data))?;
    let reader = log.reader();
    let selection = Selection {
        tenant: args.tenant.clone(),
        trees: Vec::new(),
        ended_before: Some(args.ended_before.from(clock::now())),
    };
    let unreadable = |error: GatherError| Failure::Environment(Problem::of(&error));
    let inspect = Inspect::new(reader.clone());
    let (mut go, mut stay) = (Vec::new(), Vec::new());
    for tree in archive::choose(&reader, &selection).map_err(unreadable)? {
        match why_kept(&reader, &inspect, &tree, exported)? {
            Some(why) => stay.push((tree, why)),
            None => go.push((tree.tenant, tree.tree)),
        }
    }
    let pos = reader
        .position()
        .map_err(|error| unreadable(error.into()))?;
    Ok(Choice { pos, go, stay })
}

fn why_kept(
    reader: &LogReader,
    inspect: &Inspect,
    tree: &Chosen,
    exported: &Exported,
) -> Result<Option<String>, Failure> {
    let key = (tree.tenant.clone(), tree.tree.clone());
    let Some(held) = exported.get(&key) else {
        return Ok(Some("no export has it".to_owned()));
    };
    let recorded = archive::recorded(reader, tree);
    let recorded = recorded.map_err(|error| Failure::Environment(Problem::of(&error)))?;
    if recorded != *held {
        return Ok(Some(
            "the export is of another state of it: export it again".to_owned(),
        ));
    }
    for run in &tree.runs {
        let request = GetRequest { run: run.clone() };
        let doubts = match inspect.get(&tree.tenant, &request) {
            Ok(view) => view.ended.map_or(0, |ended| ended.in_doubt.len()),
            Err(error) => return Ok(Some(format!("{run} cannot be looked at: {error}"))),
        };
        if doubts > 0 {
            return Ok(Some(format!("{doubts} effects of {run} are in doubt")));
        }
    }
    Ok(None)
}

/// Opens the store until the log has what the stream has, and the stream what the log has.
async fn through(data: &Path) -> Result<(), Failure> {
    let bus = BusArgs::default();
    let store = opened(data, &bus, "trim").await?;
    let filled = filled(&store).await;
    store.close().await;
    filled
}

async fn filled(store: &Store) -> Result<(), Failure> {
    let (mut left, mut since) = (u64::MAX, clock::mono());
    loop {
        let now = store
            .log()
            .lost()
            .map_err(|error| Failure::environment(&error))?;
        if now == 0 {
            return Ok(());
        }
        if now < left {
            (left, since) = (now, clock::mono());
        } else if since.elapsed() > STANDS_STILL {
            let message =
                format!("the stream does not get the {now} commits and blobs that it lacks");
            return Err(Failure::Environment(Problem::new(message).help(
                "coppice up goes on with it, and coppice status says how far it is",
            )));
        }
        clock::pause(LOOK).await;
    }
}
