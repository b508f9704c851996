//! `coppice submit`: starts a tree on the host that is up.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use coppice_actors::{
    api::{ApiClient, Ended, RunView, StartRequest},
    endpoint::Endpoint,
};
use coppice_messages::{
    Digest, Value,
    event::run::Reason,
    ids::{ClientKey, TenantId},
};
use coppice_scenarios::library::{Shelf, Source};
use coppice_store::{clock, given};
use coppice_topology::{Bundle, Diagnostics, bundle, check::FileKind};
use serde_json::json;

use super::wait_ended;
use crate::{
    args::{Common, SubmitArgs},
    data,
    failure::{Failure, Problem},
    out,
    reach::{alive, failed, refused},
};

/// How long the bus of a host that is up may be away.
const BUS_BACK_WAIT: Duration = Duration::from_secs(10);
/// Pause between two looks for it.
const LOOK: Duration = Duration::from_millis(100);

/// Digits of a request's digest that its key has.
const KEY_DIGITS: usize = 24;

/// `coppice submit`
pub async fn submit(args: &SubmitArgs, common: &Common) -> Result<(), Failure> {
    let bundle = release(&args.topology)?;
    let input = input(&args.input)?;
    let Up { client, .. } = host(common.data.as_deref()).await?;
    let tenant = args.tenant.clone().unwrap_or_else(TenantId::default_tenant);
    let key = match &args.key {
        Some(key) => key.clone(),
        None if args.again => new_key()?,
        None => key_of(&bundle, &input)?,
    };
    let mut request =
        StartRequest::new(key, &bundle, input, principal()).map_err(|error| refused(&error))?;
    request.labels = args.labels.iter().cloned().collect();
    let started = client.start(&tenant, &request).await.map_err(failed)?;
    let met = match started.met {
        true => Some(client.get(&tenant, &started.run).await.map_err(failed)?),
        false => None,
    };
    if let Some(met) = &met {
        eprintln!("{}", said_met(args, met));
    }
    if !args.wait {
        return if common.json {
            out::json(&started)
        } else {
            let note = met.map_or("", |_| " (was there already)");
            out::line(format!("{}{note}", started.tree))
        };
    }
    eprintln!("tree {}", started.tree);
    let done = met.is_some_and(|met| met.ended.is_some());
    let view = wait_ended(&client, &tenant, &started.run).await?;
    if common.json {
        out::json(&json!({ "started": started, "run": view }))?;
    } else {
        let already = if done { "already done: " } else { "" };
        out::line(format!(
            "{}: {already}{}",
            started.tree,
            said(view.ended.as_ref())
        ))?;
    }
    succeeded([view.ended.as_ref()])
}

/// That nothing was started, and how something would be.
fn said_met(args: &SubmitArgs, met: &RunView) -> String {
    let stands = match &met.ended {
        Some(ended) => format!("its tree has ended ({}) and is not run again", ended.reason),
        None => "its tree is under way".to_owned(),
    };
    let another = match &args.key {
        Some(_) => "another --key starts another tree",
        None => "--again starts another tree",
    };
    format!("the same request was sent before: {stands}; {another}")
}

/// Who gives the command.
pub(super) fn principal() -> String {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    format!("user:{}", user.as_deref().unwrap_or("local"))
}

/// Holds when each of them succeeded.
pub(super) fn succeeded<'a>(
    all: impl IntoIterator<Item = Option<&'a Ended>>,
) -> Result<(), Failure> {
    let mut all = all.into_iter();
    let good = |ended: Option<&Ended>| ended.is_some_and(|it| it.reason == Reason::Succeeded);
    if all.all(good) {
        Ok(())
    } else {
        Err(Failure::NotHeld)
    }
}

/// How a run ended, with its answer, or in its own words why.
pub fn said(ended: Option<&Ended>) -> String {
    let Some(ended) = ended else {
        return "open".to_owned();
    };
    let answer = ended
        .answer
        .as_ref()
        .map(|answer| format!(", answer {}", String::from_utf8_lossy(&answer.canonical())));
    let message = if ended.message.is_empty() {
        String::new()
    } else {
        format!(": {}", ended.message)
    };
    format!("{}{}{message}", ended.reason, answer.unwrap_or_default())
}

fn release(topology: &str) -> Result<Bundle, Failure> {
    let source = Source::named("topology", "topologies", topology)
        .map_err(|error| Failure::Input(Problem::of(&error)))?;
    let kind = FileKind::of(&source.file, &source.bytes);
    if kind.map_err(|fault| Diagnostics(vec![fault]))? == FileKind::Scenario {
        let message = format!("{} is a scenario, which brings its own input", source.file);
        let help = format!("run it: coppice run {topology}");
        return Err(Failure::Input(Problem::new(message).help(help)));
    }
    let shelf = Shelf::new(source.directory.clone());
    Ok(bundle(&source.file, &source.bytes, &shelf)?)
}

/// JSON, or a file with JSON in it.
fn input(written: &str) -> Result<Value, Failure> {
    let (what, text) = if written.trim_start().starts_with(['{', '[', '"']) {
        ("--input".to_owned(), written.as_bytes().to_vec())
    } else {
        let text = given::read(Path::new(written)).map_err(|error| {
            let problem = Problem::new(format!("the file {written} cannot be read: {error}"));
            Failure::Input(problem.help("--input takes a file, or JSON that begins with {"))
        })?;
        (written.to_owned(), text)
    };
    Value::parse(&text).map_err(|error| {
        let cause = Problem::of(&error);
        Failure::input(format!("{what} is not usable JSON: {}", cause.message))
    })
}

/// A host that is up.
pub(super) struct Up {
    pub client: ApiClient,
    pub data: PathBuf,
}

/// The host that is up: that of the data directory, else of whatever was started last.
pub(super) async fn host(given: Option<&Path>) -> Result<Up, Failure> {
    let own = data::of_up(given);
    if let Some(client) = answering(&own).await? {
        return Ok(Up { client, data: own });
    }
    if given.is_none()
        && let Ok(latest) = data::to_read(None)
        && let Some(client) = alive(&latest.path).await
    {
        latest.say();
        let data = latest.path;
        return Ok(Up { client, data });
    }
    let message = format!("no host is up in {}", own.display());
    Err(Failure::Environment(Problem::new(message).help(
        "start one in another terminal: coppice up --with-desk",
    )))
}

/// The host of this directory, if there is one; while its bus is away for a moment, it is waited for.
async fn answering(data: &Path) -> Result<Option<ApiClient>, Failure> {
    let from = clock::mono();
    loop {
        if let Some(client) = alive(data).await {
            return Ok(Some(client));
        }
        let Some(endpoint) = Endpoint::read(data).ok().filter(|_| data::in_use(data)) else {
            return Ok(None);
        };
        if from.elapsed() > BUS_BACK_WAIT {
            let message = format!(
                "the host of {} is up (process {}), but its bus does not answer at {}",
                data.display(),
                endpoint.pid,
                endpoint.nats_url
            );
            let help = "the host starts its own nats-server again when that dies: ask again in a moment; one that you run yourself is yours to start";
            return Err(Failure::Environment(Problem::new(message).help(help)));
        }
        clock::pause(LOOK).await;
    }
}

/// The key of a request that names none: the same topology with the same input is the same request, and meets the same tree.
fn key_of(bundle: &Bundle, input: &Value) -> Result<ClientKey, Failure> {
    let request = [&bundle.release.0[..], &input.canonical()].concat();
    made_key(&format!(
        "submit-{}",
        Digest::of(&request).hex_prefix(KEY_DIGITS)
    ))
}

fn new_key() -> Result<ClientKey, Failure> {
    let now = clock::now().0;
    made_key(&format!("submit-{now:x}-{:x}", std::process::id()))
}

fn made_key(key: &str) -> Result<ClientKey, Failure> {
    key.parse()
        .map_err(|error: coppice_messages::ids::InvalidId| Failure::Input(Problem::of(&error)))
}
