//! The verb `start`: the release's documents, the input against its schema, then the root.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use coppice_kernel::open;
use coppice_messages::{
    Commit, Digest, Event, Payload, Value,
    delegation::Root,
    event::run::{self, ClaimReason},
    ids::{RunId, TenantId, TreeId},
};
use coppice_store::{BlobError, Storage, clock};
use coppice_topology::{Plan, compile};
use ractor::ActorRef;
use tokio::sync::oneshot;

use super::roots::{RootsMessage, StartRoot};
use crate::{
    api::{ApiError, Code, StartRequest, Started},
    inspect::with_causes,
    limits::{AWAKE_MAX, INPUT_REFS_MAX, LOG_SILENCE_MAX},
    release::ReleaseError,
    run::{Opening, root_trace},
    services::Services,
};

/// Starts a tree, or meets the one that the key has started before. Back once its opening is recorded.
pub(super) async fn start(
    services: &Arc<Services>,
    roots: &ActorRef<RootsMessage>,
    tenant: TenantId,
    request: StartRequest,
) -> Result<Started, ApiError> {
    let run = RunId::root(&tenant, &request.key);
    let started = |met| Started {
        tenant: tenant.clone(),
        tree: TreeId::of_root(&run),
        run: run.clone(),
        met,
    };
    if services.store.log().row(&tenant, &run)?.is_some() {
        same(services, &tenant, &run, &request)?;
        return Ok(started(true));
    }
    forgotten(services, &tenant, &run, &request)?;
    admit(services)?;
    let plan = plan(services, &tenant, &request).await?;
    let input = input(services, &tenant, &plan, &request).await?;
    let opening = opening(&plan, &tenant, &run, input, request);
    let (tell, told) = oneshot::channel();
    let start = StartRoot {
        key: (tenant.clone(), run.clone()),
        opening: Some(opening),
        why: ClaimReason::Start,
        recorded: Some(tell),
    };
    let stopping = || {
        ApiError::new(
            Code::Stopping,
            "the host is stopping: ask again when it is up",
        )
    };
    roots
        .cast(RootsMessage::Start(Box::new(start)))
        .map_err(|_| stopping())?;
    let mut recorded = told.await.map_err(|_| stopping())?;
    if recorded.wait_for(|recorded| *recorded).await.is_ok() {
        return Ok(started(false));
    }
    // Nobody drives it any more; the log says whether it was opened.
    match services.store.log().row(&tenant, &run)? {
        Some(_) => Ok(started(true)),
        None => Err(ApiError::new(
            Code::Blocked,
            format!("the run {run} could not be opened: see coppice status"),
        )),
    }
}

/// A key names one request: met again with another release or input, it is a mistake of whoever asks, and nothing is started.
fn same(
    services: &Services,
    tenant: &TenantId,
    run: &RunId,
    request: &StartRequest,
) -> Result<(), ApiError> {
    let Some(first) = services.store.log().chain(tenant, run).next() else {
        return Ok(());
    };
    let unreadable =
        |error: &dyn std::error::Error| ApiError::new(Code::LogUnreadable, with_causes(error));
    let commit = Commit::decode(&first?.bytes).map_err(|error| unreadable(&error))?;
    let opened = commit
        .events
        .into_iter()
        .find_map(|entry| match entry.event {
            Event::Run(run::Event::Opened(opened)) => Some(opened),
            _ => None,
        });
    let Some(opened) = opened else { return Ok(()) };
    let what = if opened.release != request.release {
        "another release (topology, contract, tools or models)"
    } else if opened.input.digest() != request.input.digest() {
        "another input"
    } else {
        return Ok(());
    };
    let message = format!(
        "the key {} started {run} with {what}: use another key for another request",
        request.key
    );
    Err(ApiError::new(Code::KeyConflict, message))
}

/// The key of a tree that was trimmed has been used: beginning it anew would do everything twice.
fn forgotten(
    services: &Services,
    tenant: &TenantId,
    run: &RunId,
    request: &StartRequest,
) -> Result<(), ApiError> {
    let Some(tombstone) = services.store.log().tombstone(tenant, run)? else {
        return Ok(());
    };
    let message = format!(
        "the key {} started {run}, which ended at {} ({}) and was trimmed at {}: its export has it; use another key for another request",
        request.key, tombstone.ended, tombstone.reason, tombstone.trimmed
    );
    Err(ApiError::new(Code::KeyConflict, message))
}

/// Whether the host takes anything further on.
fn admit(services: &Services) -> Result<(), ApiError> {
    if services.is_stopping() {
        let message = "the host is stopping: ask again when it is up";
        return Err(ApiError::new(Code::Stopping, message));
    }
    let silent = services.store.status().silent_for;
    if silent > LOG_SILENCE_MAX {
        let message = format!(
            "nothing could be recorded for {} s: see coppice status",
            silent.as_secs()
        );
        return Err(ApiError::new(Code::LogUnavailable, message));
    }
    if let Storage::Low { why } = services.store.storage() {
        let message = format!(
            "storage_low: there is too little room for a new tree; make space and ask again: {why}"
        );
        return Err(ApiError::new(Code::StorageLow, message));
    }
    if services.awake.count() >= AWAKE_MAX {
        let message = format!("{AWAKE_MAX} runs are awake: ask again when some have ended");
        return Err(ApiError::new(Code::Busy, message));
    }
    Ok(())
}

/// Whether every base URL that a tool names is known: without it the first call would fail, with work done before.
fn reachable(services: &Services, plan: &Plan) -> Result<(), ApiError> {
    let reached = services.broker.reaches(plan);
    reached.map_err(|unknown| {
        let message = format!("{}: {unknown}", plan.name);
        ApiError::new(Code::UnknownEndpoint, message)
    })
}

/// The release of a request, which this host can carry out.
async fn plan(
    services: &Services,
    tenant: &TenantId,
    request: &StartRequest,
) -> Result<Arc<Plan>, ApiError> {
    if let Some(plan) = services.releases.known(tenant, request.release) {
        able(services, &plan)?;
        return Ok(plan);
    }
    // One new release at a time: many starts of it at once would all compile and store the same.
    let _turn = services.releasing.lock().await;
    let plan = new_plan(services, tenant, request).await?;
    able(services, &plan)?;
    Ok(plan)
}

fn able(services: &Services, plan: &Plan) -> Result<(), ApiError> {
    let able = services.broker.check(plan);
    able.map_err(|missing| ApiError::new(Code::InvalidRelease, missing.to_string()))?;
    reachable(services, plan)?;
    opens(services, plan)
}

/// Whether this host may take every credential that a tool needs.
fn opens(services: &Services, plan: &Plan) -> Result<(), ApiError> {
    let Some((tool, from)) = services.broker.unknown_credential(plan) else {
        return Ok(());
    };
    let message = format!(
        "the tool {tool} of {} needs the credential {from}, and this host was not told that it may use it: start it with --credential '{from}'",
        plan.name
    );
    Err(ApiError::new(Code::UnknownCredential, message))
}

/// One that the log has needs no documents; of another they are compiled before anything is stored.
async fn new_plan(
    services: &Services,
    tenant: &TenantId,
    request: &StartRequest,
) -> Result<Arc<Plan>, ApiError> {
    if let Some(plan) = services.releases.known(tenant, request.release) {
        return Ok(plan);
    }
    let log = services.store.log();
    let invalid =
        |error: &dyn std::error::Error| ApiError::new(Code::InvalidRelease, with_causes(error));
    if log.blob_size(tenant, &request.release)?.is_none() {
        let documents: BTreeMap<Digest, &String> = request
            .documents
            .iter()
            .map(|text| (Digest::of(text.as_bytes()), text))
            .collect();
        let document = |digest: &Digest| documents.get(digest).map(|text| text.as_bytes().to_vec());
        let plan = compile(request.release, &document).map_err(|e| invalid(&e))?;
        able(services, &plan)?;
        // The manifest last: where it is, all that it names is.
        let manifest = documents.get(&request.release).copied();
        let others = documents
            .iter()
            .filter(|(digest, _)| **digest != request.release);
        for text in others.map(|(_, text)| *text).chain(manifest) {
            put(services, tenant, text.clone().into_bytes()).await?;
        }
    }
    let plan = services.releases.plan(log, tenant, request.release);
    plan.map_err(|error| match error {
        ReleaseError::Log { .. } => ApiError::new(Code::LogUnreadable, with_causes(&error)),
        ReleaseError::Refused { .. } => invalid(&error),
    })
}

/// Holds the input against its schema and, when it is large, stores it.
async fn input(
    services: &Services,
    tenant: &TenantId,
    plan: &Plan,
    request: &StartRequest,
) -> Result<Payload, ApiError> {
    if let Some(schema) = &plan.input_schema {
        services
            .schemas
            .check(schema, &request.input)
            .map_err(|mismatch| {
                let message = format!("the input of {} is refused: {mismatch}", plan.name);
                ApiError::new(Code::InvalidInput, message)
            })?;
    }
    let (kind, name) = request.principal.split_once(':').unwrap_or_default();
    if !matches!(kind, "user" | "workload") || name.is_empty() {
        let message = format!(
            "the principal {:?} is none: expected user:NAME or workload:NAME",
            request.principal
        );
        return Err(ApiError::new(Code::InvalidRequest, message));
    }
    let (input, bytes) = Payload::of(request.input.clone());
    if let Some(bytes) = bytes {
        put(services, tenant, bytes).await?;
    }
    Ok(input)
}

async fn put(services: &Services, tenant: &TenantId, bytes: Vec<u8>) -> Result<(), ApiError> {
    let stored = services.store.put_blob(tenant.clone(), bytes).await;
    stored.map(|_| ()).map_err(|error| {
        let code = match error {
            BlobError::TooLarge { .. } => Code::TooLarge,
            BlobError::LogUnreadable => Code::LogUnreadable,
            BlobError::Unknown => Code::LogUnavailable,
        };
        ApiError::new(code, error.to_string())
    })
}

fn opening(
    plan: &Plan,
    tenant: &TenantId,
    run: &RunId,
    input: Payload,
    request: StartRequest,
) -> Opening {
    let boundary = &plan.contract.task_boundary;
    let root = Root {
        run: run.clone(),
        tenant: tenant.clone(),
        principal: request.principal,
        objective: request
            .objective
            .unwrap_or_else(|| boundary.unit_of_work.clone()),
        result_schema: plan.result_schema.clone(),
        input_refs: references(&request.input),
    };
    let opened = open::root(plan, root, input, request.labels, clock::now());
    Opening {
        opened: Box::new(opened),
        parent: None,
        trace: root_trace(run),
    }
}

/// The texts of an input: what a root may read from the start and name in a delegation.
fn references(input: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![input];
    while let Some(value) = open.pop() {
        match value {
            Value::Text(text) if found.len() < INPUT_REFS_MAX && is_reference(text) => {
                found.insert(text.clone());
            }
            Value::List(list) => open.extend(list),
            Value::Map(map) => open.extend(map.values()),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => {}
        }
    }
    found
}

/// A reference is a name: prose is none.
fn is_reference(text: &str) -> bool {
    !text.is_empty() && text.len() <= 128 && !text.contains(char::is_whitespace)
}
