//! The API over NATS: one service, one endpoint a verb; each request is answered by a task of its own.

use std::sync::Arc;

use async_nats::{
    HeaderMap,
    service::{Request, ServiceExt as _},
};
use coppice_messages::{
    Timestamp,
    ids::{RunId, TenantId},
};
use coppice_store::{Storage, verify::StreamVerified};
use futures::{StreamExt as _, stream::SelectAll};
use ractor::ActorRef;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{HostError, VERSION, callbacks::Callbacks, roots::RootsMessage, start, tell};
use crate::{
    api::{
        ApiError, Code, Compared, Finding, PoliciesReport, Refused, StatusReport, StatusRequest,
        Verb, VerifyReport, VerifyRequest,
    },
    inspect::{Inspect, Live, differs},
    limits::{FINDINGS_MAX, LIVE_WAIT, MESSAGE_BYTES_MAX},
    run::Message,
    services::Services,
};

/// Name of the service, as `nats micro ls` shows it.
const SERVICE: &str = "coppice";

/// Where replies go. A request names the place, and elsewhere a reply could be an order to somebody who trusts this host.
const INBOX: &str = "_INBOX";

/// What answering needs; cheap to clone.
#[derive(Clone)]
pub(super) struct Api {
    pub services: Arc<Services>,
    pub roots: ActorRef<RootsMessage>,
    pub callbacks: Arc<Callbacks>,
    pub inspect: Inspect,
    pub started_at: Timestamp,
}

/// Offers the API until the task is aborted.
pub(super) async fn start(api: Api) -> Result<JoinHandle<()>, HostError> {
    let offered = |e: &dyn std::fmt::Display| HostError::Api {
        said: e.to_string(),
    };
    let store = &api.services.store;
    let service = store
        .client()
        .service_builder()
        .description("Supervised agent trees with a durable log")
        .start(SERVICE, VERSION)
        .await
        .map_err(|e| offered(&e))?;
    let mut requests = SelectAll::new();
    for verb in Verb::ALL {
        let subjects = [
            (verb.word().to_owned(), store.realm().api("*", verb.word())),
            (
                format!("host-{verb}"),
                store
                    .realm()
                    .host_api(api.services.host.as_str(), verb.word()),
            ),
        ];
        for (name, subject) in subjects {
            let endpoint = service.endpoint_builder().name(name).add(subject).await;
            let endpoint = endpoint.map_err(|e| offered(&e))?;
            requests.push(endpoint.map(move |request| (verb, request)).boxed());
        }
    }
    // Whoever reads the endpoint and asks at once finds that the server has the subscriptions.
    let flushed = store.client().flush().await;
    flushed.map_err(|e| offered(&e))?;
    Ok(tokio::spawn(async move {
        // Dropped, the service would withdraw its endpoints.
        let _service = service;
        while let Some((verb, request)) = requests.next().await {
            tokio::spawn(api.clone().answer(verb, request));
        }
    }))
}

impl Api {
    async fn answer(self, verb: Verb, request: Request) {
        let place = request.message.reply.as_deref().unwrap_or_default();
        if !place.starts_with(INBOX) {
            tracing::warn!(%verb, place, "a request whose reply would not go to an inbox is not answered");
            return;
        }
        let reply = self.reply(verb, &request).await;
        let (body, headers) = match reply {
            Ok(body) if body.len() <= MESSAGE_BYTES_MAX => (body, HeaderMap::new()),
            Ok(body) => {
                let message = format!("the reply has {} bytes: ask for less", body.len());
                refused(ApiError::new(Code::TooLarge, message))
            }
            Err(error) => refused(error),
        };
        let sent = request.respond_with_headers(Ok(body.into()), headers).await;
        if let Err(error) = sent {
            tracing::debug!(%error, %verb, "a reply was not sent");
        }
    }

    async fn reply(&self, verb: Verb, request: &Request) -> Result<Vec<u8>, ApiError> {
        let tenant = tenant_of(&request.message.subject)?;
        let payload = &request.message.payload;
        match verb {
            Verb::Start => {
                let request = read(payload)?;
                json(&start::start(&self.services, &self.roots, tenant, request).await?)
            }
            Verb::Verify => json(&self.verify(tenant, read(payload)?).await?),
            Verb::Status => {
                let StatusRequest {} = read(payload)?;
                json(&self.status())
            }
            Verb::Cancel => {
                let tell = tell::Tell {
                    services: &self.services,
                    roots: &self.roots,
                    tenant,
                };
                json(&tell.cancel(read(payload)?).await?)
            }
            Verb::Signal => {
                let tell = tell::Tell {
                    services: &self.services,
                    roots: &self.roots,
                    tenant,
                };
                json(&tell.signal(read(payload)?).await?)
            }
            Verb::Callback => json(&self.callbacks.take(tenant, read(payload)?).await?),
            Verb::Get => self.look(tenant, payload, Inspect::get).await,
            Verb::List => self.look(tenant, payload, Inspect::list).await,
            Verb::Tree => self.look(tenant, payload, Inspect::tree_page).await,
            Verb::Tail => self.look(tenant, payload, Inspect::tail).await,
            Verb::Audit => self.look(tenant, payload, Inspect::audit).await,
            Verb::Copy => self.look(tenant, payload, Inspect::copy).await,
        }
    }

    /// Answers from the log, away from the threads on which the actors run.
    async fn look<Q, A>(
        &self,
        tenant: TenantId,
        payload: &[u8],
        look: fn(&Inspect, &TenantId, &Q) -> Result<A, ApiError>,
    ) -> Result<Vec<u8>, ApiError>
    where
        Q: DeserializeOwned + Send + 'static,
        A: Serialize + Send + 'static,
    {
        let request: Q = read(payload)?;
        let inspect = self.inspect.clone();
        in_background(move || json(&look(&inspect, &tenant, &request)?)).await
    }

    async fn verify(
        &self,
        tenant: TenantId,
        request: VerifyRequest,
    ) -> Result<VerifyReport, ApiError> {
        let live = self.live(&tenant, &request).await?;
        let inspect = self.inspect.clone();
        let of = tenant.clone();
        let mut report = in_background(move || {
            let mut report = inspect.verify(&of, &request)?;
            let differences: Vec<Finding> = live
                .iter()
                .filter_map(|live| inspect.verify_live(&of, live))
                .collect();
            report.live = compared(differences.is_empty(), live.len() as u64);
            report.findings.extend(differences);
            Ok(report)
        })
        .await?;
        let seen = self.services.store.verify_stream().await?;
        compare_stream(&seen, &mut report);
        report.findings.truncate(FINDINGS_MAX);
        Ok(report)
    }

    /// What the actors of a tenant say of their states.
    async fn live(
        &self,
        tenant: &TenantId,
        request: &VerifyRequest,
    ) -> Result<Vec<Live>, ApiError> {
        let mut asked: Vec<(RunId, oneshot::Receiver<_>)> = Vec::new();
        for ((of, run), actor) in self.services.awake.all() {
            let wanted =
                of == *tenant && self.inspect.is_of(tenant, &run, request.tree.as_ref())?;
            let (tell, told) = oneshot::channel();
            if wanted && actor.cast(Message::Hash(tell)).is_ok() {
                asked.push((run, told));
            }
        }
        let mut live = Vec::new();
        for (run, told) in asked {
            // An actor that ends meanwhile, or stands still on purpose, says nothing; its chain does.
            if let Ok(Ok((head, state))) = tokio::time::timeout(LIVE_WAIT, told).await {
                live.push(Live { run, head, state });
            }
        }
        Ok(live)
    }

    fn status(&self) -> StatusReport {
        let store = self.services.store.status();
        let mut degraded = self.services.blocked.reasons();
        if !store.connected {
            degraded.push("the bus is not connected".to_owned());
        }
        if let Some(said) = store.refused {
            degraded.push(format!(
                "the server refuses what this host sends or asks for; give its user the permission: {said}"
            ));
        }
        if let Storage::Low { why } = self.services.store.storage() {
            degraded.push(format!(
                "storage_low: new trees are refused and new effects wait: {why}"
            ));
        }
        let policies = self.services.policies.standing();
        if let Some(why) = policies.as_ref().and_then(|set| set.refused.as_ref()) {
            degraded.push(format!(
                "the policies on disk are not in force, those from before them are: {why}"
            ));
        }
        if let Some((why, since)) = store.unstored {
            let since = since.as_secs();
            degraded.push(format!(
                "the stream has stored nothing for {since} s: {why}"
            ));
        }
        let lost = self.services.store.refilling();
        if lost > 0 {
            degraded.push(format!(
                "the stream went back: {lost} commits and blobs are being put back"
            ));
        }
        if store.silent_for > crate::limits::LOG_SILENCE_MAX {
            let silent = store.silent_for.as_secs();
            degraded.push(format!(
                "log_unavailable: nothing was recorded for {silent} s"
            ));
        }
        StatusReport {
            host: self.services.host.clone(),
            version: VERSION.to_owned(),
            pid: std::process::id(),
            started_at: self.started_at,
            realm: self.services.store.realm().to_string(),
            degraded,
            policies: policies.map(|set| PoliciesReport {
                directory: set.directory.display().to_string(),
                version: set.version,
            }),
            connected: store.connected,
            pos: store.pos,
            stream: store.stream,
            waiting: store.waiting as u64,
            awake: self.services.awake.count() as u64,
            asleep: self.services.sleepers.count() as u64,
            dropped: store.dropped,
            quarantined: store.quarantined,
            batches: store.batches,
        }
    }
}

fn compared(equal: bool, count: u64) -> Compared {
    if equal {
        Compared::Equal(count)
    } else {
        Compared::Different
    }
}

fn compare_stream(seen: &StreamVerified, report: &mut VerifyReport) {
    report.stream = compared(seen.faults.is_empty(), seen.commits);
    report.findings.extend(seen.faults.iter().map(differs));
}

/// The tenant is the token before the verb; on a host's own subject it is the default one.
fn tenant_of(subject: &str) -> Result<TenantId, ApiError> {
    let mut tokens = subject.rsplit('.').skip(1);
    let tenant = match tokens.next().unwrap_or_default() {
        "api" => return Ok(TenantId::default_tenant()),
        tenant => tenant,
    };
    if tenant == TenantId::host().as_str() {
        return Ok(TenantId::host());
    }
    tenant
        .parse()
        .map_err(|e| ApiError::new(Code::InvalidRequest, format!("{e}")))
}

fn read<Q: DeserializeOwned>(payload: &[u8]) -> Result<Q, ApiError> {
    // No body is a request that leaves everything out.
    let payload = if payload.is_empty() { b"{}" } else { payload };
    serde_json::from_slice(payload)
        .map_err(|e| ApiError::new(Code::InvalidRequest, format!("the request is refused: {e}")))
}

fn json<A: Serialize>(answer: &A) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(answer).map_err(|e| {
        ApiError::new(
            Code::LogUnreadable,
            format!("the reply cannot be written: {e}"),
        )
    })
}

fn refused(error: ApiError) -> (Vec<u8>, HeaderMap) {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Service-Error", error.code.word());
    headers.insert("Nats-Service-Error-Code", error.code.status().to_string());
    let body = serde_json::to_vec(&Refused { error }).unwrap_or_default();
    (body, headers)
}

async fn in_background<A: Send + 'static>(
    work: impl FnOnce() -> Result<A, ApiError> + Send + 'static,
) -> Result<A, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(error) => Err(ApiError::new(Code::LogUnreadable, error.to_string())),
    }
}
