//! What the desk saw and did, whatever it answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    arrival::{Arrival, sha256},
    limits,
    store::{Durable, Rows, Store, StoreError},
    webhooks::{self, Delivery},
    world::Route,
};

/// The testimony of a desk, over the life of its store and all tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Witness {
    /// Every request that came, by tenant, route, key and argument digest.
    pub requests: Vec<RequestCount>,
    /// Tickets that exist.
    pub tickets: u64,
    /// Refunds that were paid.
    pub refunds: u64,
    /// Files that exist.
    pub files: u64,
    /// Commits beyond the first of their tenant, route and key: effects that happened twice.
    pub duplicates: u64,
    /// Requests that change nothing, look-ups included.
    pub reads: u64,
    /// Every callback, and what was answered.
    pub callbacks: Vec<Delivery>,
}

/// How often one thing was asked for, and how often it was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestCount {
    /// From the header `Coppice-Tenant`.
    pub tenant: String,
    /// From the header `Idempotency-Key`; empty without one.
    pub key: String,
    /// What was asked for.
    pub route: Route,
    /// SHA-256 of the canonical arguments without the annotation `note`.
    pub argument_digest: String,
    /// Requests that arrived.
    pub count: u64,
    /// Effects that were committed.
    pub committed: u64,
}

/// Why there is no testimony.
#[derive(Debug, thiserror::Error)]
#[error("the witness of the desk at {url} cannot be read: is the desk running?")]
pub struct WitnessError {
    /// Address of the desk.
    pub url: String,
    /// What the client said.
    pub source: reqwest::Error,
}

/// Asks a running desk, such as `http://127.0.0.1:7801`, for its testimony.
///
/// # Errors
///
/// When the desk does not answer, or not as a desk does.
pub async fn witness(url: &str) -> Result<Witness, WitnessError> {
    let asked = async {
        let reply = client()?.get(format!("{}/witness", url.trim_end_matches('/')));
        reply.send().await?.error_for_status()?.json().await
    };
    asked.await.map_err(|source| WitnessError {
        url: url.to_owned(),
        source,
    })
}

/// Tells a running desk that the tree has ended: callbacks that wait for that are sent.
///
/// # Errors
///
/// When the desk does not answer.
pub async fn tree_ended(url: &str) -> Result<(), WitnessError> {
    let told = async {
        let reply = client()?.post(format!("{}/tree-ended", url.trim_end_matches('/')));
        reply.send().await?.error_for_status().map(drop)
    };
    told.await.map_err(|source| WitnessError {
        url: url.to_owned(),
        source,
    })
}

fn client() -> reqwest::Result<reqwest::Client> {
    // The client cannot be built without a provider; losing the race to install one is as good as winning it.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(limits::WITNESS_TIMEOUT)
        .no_proxy()
        .build()
}

const REQUESTS: &str = "request/";

fn row(arrival: &Arrival) -> String {
    let key = sha256(arrival.key.as_bytes());
    let (tenant, route, digest) = (&arrival.tenant, arrival.route, &arrival.digest);
    format!("{REQUESTS}{tenant}/{route}/{key}/{digest}")
}

fn counted(store: &Store, arrival: &Arrival) -> Result<RequestCount, StoreError> {
    let known = store.get(&row(arrival))?;
    Ok(known.unwrap_or_else(|| RequestCount {
        tenant: arrival.tenant.clone(),
        key: arrival.key.clone(),
        route: arrival.route,
        argument_digest: arrival.digest.clone(),
        count: 0,
        committed: 0,
    }))
}

/// Counts a request, durably, and returns its number among those of its route, from 1.
pub(super) fn arrived(store: &Store, arrival: &Arrival) -> Result<u64, StoreError> {
    let total = format!("arrived/{}", arrival.route);
    let nth = store.get::<u64>(&total)?.unwrap_or(0) + 1;
    let mut request = counted(store, arrival)?;
    request.count += 1;
    let mut rows = Rows::default();
    rows.put(total, &nth)?;
    rows.put(row(arrival), &request)?;
    let durable = if arrival.route.writes() {
        Durable::Disk
    } else {
        Durable::Process
    };
    store.write(rows, durable)?;
    Ok(nth)
}

/// Adds to an effect's rows that it was committed.
pub(super) fn committed(
    store: &Store,
    arrival: &Arrival,
    rows: &mut Rows,
) -> Result<(), StoreError> {
    let mut request = counted(store, arrival)?;
    request.committed += 1;
    rows.put(row(arrival), &request)
}

/// The whole testimony.
pub(super) fn testimony(store: &Store) -> Result<Witness, StoreError> {
    let requests: Vec<RequestCount> = store.scan(REQUESTS)?;
    let mut effects: BTreeMap<(&str, Route, &str), u64> = BTreeMap::new();
    for request in requests.iter().filter(|request| !request.key.is_empty()) {
        *effects
            .entry((&request.tenant, request.route, &request.key))
            .or_default() += request.committed;
    }
    let duplicates = effects
        .values()
        .map(|commits| commits.saturating_sub(1))
        .sum();
    let reads = requests
        .iter()
        .filter(|request| !request.route.writes())
        .map(|request| request.count)
        .sum();
    Ok(Witness {
        tickets: store.count("ticket/")?,
        refunds: store.count("refund/")?,
        files: store.count("file/")?,
        duplicates,
        reads,
        callbacks: webhooks::all(store)?,
        requests,
    })
}
