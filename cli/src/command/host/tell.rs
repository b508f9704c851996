//! `coppice cancel`, `coppice signal`, `coppice callback`: telling a run something through the host that is up.

use coppice_actors::api::{CallOutcome, CallbackRequest, CancelRequest, SignalRequest, Told};
use coppice_messages::{Value, ids::TenantId};
use coppice_store::clock;

use super::{
    submit::{Up, host, principal},
    wait_ended,
};
use crate::{
    args::{CallbackArgs, CancelArgs, Common, SignalArgs},
    failure::{Failure, Problem},
    out,
    reach::{failed, of_run},
};

/// `coppice cancel`
pub async fn cancel(args: &CancelArgs, common: &Common) -> Result<(), Failure> {
    let Up { client, data } = host(common.data.as_deref()).await?;
    let tenant = args.tenant.clone().unwrap_or_else(TenantId::default_tenant);
    let request = CancelRequest {
        run: args.run.clone(),
        why: args.why.clone(),
        by: principal(),
    };
    let told = client.cancel(&tenant, &request).await;
    let told = told.map_err(|error| of_run("run", &args.run, &tenant, &data, error))?;
    if args.wait && told.recorded {
        let view = wait_ended(&client, &tenant, &args.run).await?;
        let reason = view.ended.map(|ended| ended.reason);
        if !common.json {
            return out::line(format!(
                "{}: {}",
                args.run,
                reason.map_or("open".to_owned(), |reason| reason.to_string())
            ));
        }
    }
    answer(&told, common, "is cancelled, and everything below it")
}

/// `coppice signal`
pub async fn signal(args: &SignalArgs, common: &Common) -> Result<(), Failure> {
    let value = value(&args.value)?;
    let Up { client, data } = host(common.data.as_deref()).await?;
    let tenant = args.tenant.clone().unwrap_or_else(TenantId::default_tenant);
    let id = args
        .id
        .clone()
        .unwrap_or_else(|| format!("cli-{}", clock::now().0));
    let request = SignalRequest {
        run: args.run.clone(),
        name: args.name.clone(),
        id,
        value,
    };
    let told = client.signal(&tenant, &request).await;
    let told = told.map_err(|error| of_run("run", &args.run, &tenant, &data, error))?;
    answer(&told, common, "has the signal")
}

/// `coppice callback`
pub async fn callback(args: &CallbackArgs, common: &Common) -> Result<(), Failure> {
    let value = value(&args.value)?;
    let Up { client, .. } = host(common.data.as_deref()).await?;
    let tenant = args.tenant.clone().unwrap_or_else(TenantId::default_tenant);
    let request = CallbackRequest {
        key: args.key.clone(),
        id: args.id.clone(),
        value,
    };
    let called = client.callback(&tenant, &request).await;
    let called = called.map_err(failed)?;
    if common.json {
        return out::json(&called);
    }
    match called.outcome {
        CallOutcome::Received => out::line(format!("{} has the callback", called.run)),
        CallOutcome::Absorbed => out::line(format!(
            "{}: {}; nothing is changed",
            called.run,
            called.why.unwrap_or_default()
        )),
    }
}

fn value(given: &str) -> Result<Value, Failure> {
    Value::parse(given.as_bytes()).map_err(|error| {
        let cause = Problem::of(&error);
        Failure::input(format!("--value is not usable JSON: {}", cause.message))
    })
}

fn answer(told: &Told, common: &Common, what: &str) -> Result<(), Failure> {
    if let Some(note) = &told.note {
        eprintln!("{note}");
    }
    if common.json {
        return out::json(told);
    }
    match told.ended {
        Some(reason) => out::line(format!(
            "{} had ended before ({reason}): nothing is changed",
            told.run
        )),
        None => out::line(format!("{} {what}", told.run)),
    }
}
