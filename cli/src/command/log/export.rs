//! `coppice log export` and `coppice log import`.

use std::{io::stdout, path::Path};

use coppice_actors::api::CopyOf;
use coppice_store::{
    BusOptions, GuardCommand, Log, OpenLogError, Options, Store,
    archive::{self, Reader, Selection},
    clock,
};
use serde_json::json;

use super::archive::{Fresh, Progress, Source, copy, verified};
use crate::{
    args::{BusArgs, Common, ExportArgs, ImportArgs},
    command::run::bus_options,
    data,
    failure::{Failure, Problem},
    out,
    reach::{Reach, alive, unopened},
};

/// `coppice log export`
pub async fn export(args: &ExportArgs, common: &Common) -> Result<(), Failure> {
    let reach = Reach::open(common).await?;
    let of = CopyOf::Trees(Selection {
        tenant: args.tenant.clone(),
        trees: args.trees.clone(),
        ended_before: args.ended_before.map(|when| when.from(clock::now())),
    });
    if args.file == Path::new("-") {
        copy(&reach, &of, &mut stdout().lock()).await?;
        return Ok(());
    }
    let mut file = Fresh::begin(&args.file)?;
    let bytes = copy(&reach, &of, &mut file).await?;
    let written = file.reader().map_err(archive::ReadArchiveError::from);
    let plan = verified(written.and_then(Reader::open));
    let plan = plan.map_err(|error| {
        let Problem { message, .. } = Problem::of(&error);
        let message = format!("what was written is not good: {message}");
        Failure::Environment(
            Problem::new(message)
                .help("nothing is kept of it; coppice log verify looks at the log"),
        )
    })?;
    file.keep()?;
    let shown = args.file.display().to_string();
    if common.json {
        return out::json(&json!({
            "file": shown, "bytes": bytes, "trees": plan.trees, "unfinished": plan.open.len(),
            "commits": plan.commits, "blobs": plan.blobs,
        }));
    }
    let open = match plan.open.len() {
        0 => String::new(),
        open => format!(" ({open} of them not over)"),
    };
    out::line(format!(
        "{shown}: {}{open}, {} commits, {} blobs, {bytes} bytes, verified",
        out::count(plan.trees, "tree"),
        plan.commits,
        plan.blobs
    ))
}

/// `coppice log import`
pub async fn import(args: &ImportArgs, common: &Common) -> Result<(), Failure> {
    let data = data::of_up(common.data.as_deref());
    no_host(&data, "an import").await?;
    let beside = std::env::temp_dir();
    let source = Source::open(&args.file, &beside)?;
    let plan = planned(&source, &data)?;
    if let Some((tenant, tree)) = plan.open.first().filter(|_| !args.unfinished) {
        let message = format!(
            "{} trees of the archive are not over, such as {tenant}/{tree}",
            plan.open.len()
        );
        return Err(Failure::Input(Problem::new(message).help(
            "a host that runs here would go on with them, and two hosts that drive one tree do everything twice: \
             if no other host has them any more, say --unfinished",
        )));
    }
    data::make(&data).map_err(|error| Failure::environment(&error))?;
    let store = opened(&data, &args.bus, "import").await?;
    let mut progress = Progress::new("imported");
    let done = archive::import(|| source.reader(), &store, |bytes| progress.at(bytes)).await;
    store.close().await;
    let done = done.map_err(|error| {
        let help = "what was imported stays; the same import once more goes on";
        Failure::Environment(Problem::of(&error).help(help))
    })?;
    if common.json {
        return out::json(&json!({
            "data": data.display().to_string(), "trees": plan.trees, "unfinished": plan.open.len(),
            "commits": done.commits, "new_commits": plan.new_commits, "blobs": done.blobs,
        }));
    }
    out::line(format!(
        "{}: {}, {} commits of which {} are new, {} blobs",
        data.display(),
        out::count(plan.trees, "tree"),
        done.commits,
        plan.new_commits,
        done.blobs
    ))
}

/// What the import would do to the log that is there, or to an empty one.
fn planned(source: &Source, data: &Path) -> Result<archive::Plan, Failure> {
    let mut progress = Progress::new("verified");
    let log = match data.join("format").exists() {
        true => match Log::open(data) {
            Ok(log) => Some(log),
            // An import that was killed before it had made a log; nothing says that there ever was more.
            Err(OpenLogError::Missing {
                marked: None | Some(0),
                ..
            }) => None,
            Err(error) => return Err(unopened(&error, data)),
        },
        false => None,
    };
    let reader = log.as_ref().map(Log::reader);
    let mut archive = source
        .reader()
        .map_err(|error| source.refused(&error.into()))?;
    let plan = archive::plan(&mut archive, reader.as_ref(), |bytes| progress.at(bytes));
    plan.map_err(|error| source.refused(&error))
}

/// Refuses to go on while a host runs there.
pub async fn no_host(data: &Path, what: &str) -> Result<(), Failure> {
    if alive(data).await.is_none() {
        return Ok(());
    }
    let message = format!(
        "a host runs on {}: {what} needs the data directory for itself",
        data.display()
    );
    Err(Failure::Environment(
        Problem::new(message).help("stop the host, and start it again afterwards"),
    ))
}

/// The store of a data directory, without a host.
pub async fn opened(data: &Path, bus: &BusArgs, who: &str) -> Result<Store, Failure> {
    let guard = GuardCommand::this_program().map_err(|error| Failure::environment(&error))?;
    let bus = bus_options(bus, guard)?;
    let private = matches!(bus, BusOptions::Private { .. });
    if private && data.join("log").is_dir() && !data.join("nats").is_dir() {
        let message = format!(
            "{} has a log and no stream: it was restored, or its host was told to use a NATS server",
            data.display()
        );
        return Err(Failure::Input(
            Problem::new(message).help(
                "name that server: --nats URL --realm NAME; after a restore let a host open it first: coppice up",
            ),
        ));
    }
    let host = format!("{who}-{}", std::process::id());
    let host = host
        .parse()
        .map_err(|error: coppice_messages::ids::InvalidId| Failure::environment(&error))?;
    let mut options = Options::new(data, host, bus);
    options.feed = false;
    let store = Store::open(options).await;
    store.map_err(|error| Failure::Environment(Problem::of(&error)))
}
