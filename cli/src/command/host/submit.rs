//! `coppice submit`: starts a tree on the host that is up.

use std::{fs, path::Path};

use coppice_actors::api::{ApiClient, Ended, StartRequest};
use coppice_messages::{
    Value,
    event::run::Reason,
    ids::{ClientKey, TenantId},
};
use coppice_scenarios::library::{Shelf, Source};
use coppice_store::clock;
use coppice_topology::{Bundle, bundle};
use serde_json::json;

use crate::{
    args::{Common, SubmitArgs},
    data,
    failure::{Failure, Problem},
    out,
    reach::{alive, failed, refused},
};

/// `coppice submit`
pub async fn submit(args: &SubmitArgs, common: &Common) -> Result<(), Failure> {
    let bundle = release(&args.topology)?;
    let input = input(&args.input)?;
    let client = host(common.data.as_deref()).await?;
    let tenant = args.tenant.clone().unwrap_or_else(TenantId::default_tenant);
    let key = match &args.key {
        Some(key) => key.clone(),
        None => new_key()?,
    };
    let mut request =
        StartRequest::new(key, &bundle, input, principal()).map_err(|error| refused(&error))?;
    request.labels = args.labels.iter().cloned().collect();
    let started = client.start(&tenant, &request).await.map_err(failed)?;
    if !args.wait {
        return if common.json {
            out::json(&started)
        } else {
            let met = if started.met {
                " (was there already)"
            } else {
                ""
            };
            out::line(format!("{}{met}", started.tree))
        };
    }
    let view = client
        .wait_ended(&tenant, &started.run)
        .await
        .map_err(failed)?;
    if common.json {
        out::json(&json!({ "started": started, "run": view }))?;
    } else {
        out::line(format!("{}: {}", started.tree, said(view.ended.as_ref())))?;
    }
    succeeded([view.ended.as_ref()])
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
pub(super) fn said(ended: Option<&Ended>) -> String {
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
    let shelf = Shelf::new(source.directory.clone());
    Ok(bundle(&source.file, &source.bytes, &shelf)?)
}

/// JSON, or a file with JSON in it.
fn input(given: &str) -> Result<Value, Failure> {
    let (what, text) = if given.trim_start().starts_with(['{', '[', '"']) {
        ("--input".to_owned(), given.as_bytes().to_vec())
    } else {
        let text = fs::read(given).map_err(|error| {
            let problem = Problem::new(format!("the file {given} cannot be read: {error}"));
            Failure::Input(problem.help("--input takes a file, or JSON that begins with {"))
        })?;
        (given.to_owned(), text)
    };
    Value::parse(&text).map_err(|error| {
        let cause = Problem::of(&error);
        Failure::input(format!("{what} is not usable JSON: {}", cause.message))
    })
}

/// The host that is up: that of the data directory, else of whatever was started last.
pub(super) async fn host(given: Option<&Path>) -> Result<ApiClient, Failure> {
    let own = data::of_up(given);
    if let Some(client) = alive(&own).await {
        return Ok(client);
    }
    if given.is_none()
        && let Ok(latest) = data::to_read(None)
        && let Some(client) = alive(&latest).await
    {
        return Ok(client);
    }
    let message = format!("no host is up in {}", own.display());
    Err(Failure::Environment(Problem::new(message).help(
        "start one in another terminal: coppice up --with-desk",
    )))
}

fn new_key() -> Result<ClientKey, Failure> {
    let key = format!("submit-{:x}-{:x}", clock::now().0, std::process::id());
    key.parse()
        .map_err(|error: coppice_messages::ids::InvalidId| Failure::Input(Problem::of(&error)))
}
