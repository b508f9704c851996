//! Callbacks: taken in once for each id, absorbed or refused with a reason, and answered only when that is recorded.
//!
//! What concerns a run of the tenant stands in that run's chain, also after its end. What concerns none stands in the tenant's system chain; for
//! a tenant that has no run, in that of the host.

mod late;
mod refusals;

use std::sync::Arc;

use coppice_kernel::Command;
use coppice_messages::{
    Commit, Event, Payload,
    event::{
        callback::{self, Received},
        system::{self, CallbackRefused},
    },
    ids::{EffectKey, TenantId},
};
use coppice_store::{clock, log::RowFilter};
use ractor::ActorRef;
use serde::Deserialize;
use tokio::sync::{Mutex, Semaphore};

use self::refusals::Refusals;
use super::{
    roots::RootsMessage,
    tell::{Tell, short},
};
use crate::{
    api::{ApiError, CallOutcome, CallbackRequest, Called, Code},
    callback::{CallbackSecrets, SIGNATURE_HEADER},
    limits::{
        ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST, CALLBACKS_AT_ONCE, RECORD_WAIT, REFUSALS_RECORDED_MAX,
        SIGNAL_TEXT_MAX, TELL_TIMES,
    },
    services::{Key, Services},
};

/// Takes callbacks in.
pub(super) struct Callbacks {
    services: Arc<Services>,
    roots: ActorRef<RootsMessage>,
    secrets: CallbackSecrets,
    refusals: Refusals,
    at_once: Semaphore,
    /// Held while something is appended to the chain of an ended run, which no actor drives.
    late: Mutex<()>,
}

/// What a body that nobody vouches for says of itself; kept as evidence.
#[derive(Deserialize, Default)]
struct Claims {
    key: Option<String>,
    id: Option<String>,
}

/// What a chain has of one callback.
#[derive(Default)]
struct Coming {
    times: usize,
    /// The answer to all of them.
    first: Option<Called>,
}

impl Callbacks {
    pub fn new(
        services: Arc<Services>,
        roots: ActorRef<RootsMessage>,
        secrets: CallbackSecrets,
    ) -> Self {
        Self {
            services,
            roots,
            secrets,
            refusals: Refusals::default(),
            at_once: Semaphore::new(CALLBACKS_AT_ONCE),
            late: Mutex::new(()),
        }
    }

    /// One for whose sender its signature vouches.
    pub async fn signed(
        &self,
        tenant: TenantId,
        body: &[u8],
        signature: Option<&str>,
    ) -> Result<Called, ApiError> {
        let secret = self.secrets.of(&tenant);
        let refused = match signature {
            None => Some(format!("it has no header {SIGNATURE_HEADER}")),
            Some(given) if !secret.vouches(body, given) => {
                Some(format!("its {SIGNATURE_HEADER} is not that of {tenant}"))
            }
            Some(_) => None,
        };
        let parsed = match refused {
            Some(why) => Err(ApiError::new(Code::Unsigned, why)),
            None => serde_json::from_slice(body).map_err(|error| {
                let message = format!("the callback is refused: {error}");
                ApiError::new(Code::InvalidRequest, message)
            }),
        };
        match parsed {
            Ok(request) => self.take(tenant, request).await,
            Err(error) => {
                let claims = serde_json::from_slice(body).unwrap_or_default();
                Err(self.refuse(&tenant, claims, error).await)
            }
        }
    }

    /// One whose sender is known.
    pub async fn take(
        &self,
        tenant: TenantId,
        request: CallbackRequest,
    ) -> Result<Called, ApiError> {
        let Ok(_place) = self.at_once.try_acquire() else {
            let message = "enough callbacks are being taken in: send it again in a second";
            return Err(ApiError::new(Code::Busy, message));
        };
        let claims = Claims {
            key: Some(request.key.clone()),
            id: Some(request.id.clone()),
        };
        match self.deliver(&tenant, request).await {
            Err(error) if concerns_no_run(error.code) => {
                Err(self.refuse(&tenant, claims, error).await)
            }
            delivered => delivered,
        }
    }

    async fn deliver(
        &self,
        tenant: &TenantId,
        request: CallbackRequest,
    ) -> Result<Called, ApiError> {
        short("id", &request.id)?;
        // A tool that knows a secret may send it back this way, too.
        let request = CallbackRequest {
            value: self.services.secrets.mask_value(request.value),
            id: self.services.secrets.mask(&request.id).into_owned(),
            ..request
        };
        let key: EffectKey = request
            .key
            .parse()
            .map_err(|error| ApiError::new(Code::InvalidRequest, format!("key: {error}")))?;
        let (value, blob) = Payload::of(request.value);
        if blob.is_some() {
            let message = "the value of a callback is larger than an event may carry: say where it can be read instead";
            return Err(ApiError::new(Code::TooLarge, message));
        }
        let Some(run) = self.services.store.log().holder(tenant, &key)? else {
            let message = format!("{tenant} has made no write under the key {key}");
            return Err(ApiError::new(Code::UnknownOperation, message));
        };
        let received = Received {
            key,
            id: request.id,
            value,
        };
        self.tell(&(tenant.clone(), run), received).await
    }

    /// Tells the run, and answers with what is recorded of the callback's first coming.
    async fn tell(&self, key: &Key, received: Received) -> Result<Called, ApiError> {
        let command = Command::Callback(received.clone());
        let tell = Tell {
            services: &self.services,
            roots: &self.roots,
            tenant: key.0.clone(),
        };
        let before = self.coming(key, &received)?.times;
        for attempt in 0..TELL_TIMES {
            let row = self.services.store.log().row(&key.0, &key.1)?;
            let decided = if row.is_some_and(|row| row.ended.is_some()) {
                self.late(key, &received, before).await?
            } else {
                tell.wake(key).await;
                tell.say(key, &command).await
            };
            // An actor that goes on to the end of its run says nothing more; the chain says that it took it in. One that has decided and recorded
            // nothing has recorded enough of this callback.
            let coming = self.coming(key, &received)?;
            if (coming.times > before || decided)
                && let Some(called) = coming.first
            {
                return Ok(called);
            }
            if !decided {
                clock::pause(clock::backoff(attempt, ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST)).await;
            }
        }
        let message = format!(
            "the run {} does not take it, or has recorded as many callbacks as it may: see coppice show {}",
            key.1, key.1
        );
        Err(ApiError::new(Code::Busy, message))
    }

    /// What is recorded of a callback.
    fn coming(&self, key: &Key, wanted: &Received) -> Result<Coming, ApiError> {
        let mut coming = Coming::default();
        for recorded in self.services.store.log().chain(&key.0, &key.1) {
            let commit = Commit::decode(&recorded?.bytes)
                .map_err(|error| ApiError::new(Code::LogUnreadable, error.to_string()))?;
            for entry in commit.events {
                let (outcome, why) = match entry.event {
                    Event::Callback(callback::Event::Received(found))
                        if found.key == wanted.key && found.id == wanted.id =>
                    {
                        (CallOutcome::Received, None)
                    }
                    Event::Callback(callback::Event::Absorbed(found))
                        if found.key == wanted.key && found.id == wanted.id =>
                    {
                        (CallOutcome::Absorbed, Some(found.why))
                    }
                    _ => continue,
                };
                coming.times += 1;
                let run = key.1.clone();
                coming.first.get_or_insert(Called { run, outcome, why });
            }
        }
        Ok(coming)
    }

    /// Records that a callback is refused. Returns the answer: the refusal, unless that cannot be recorded now.
    async fn refuse(&self, tenant: &TenantId, claims: Claims, error: ApiError) -> ApiError {
        let Some(unrecorded) = self.refusals.record(clock::mono()) else {
            let message = format!(
                "{error}; more than {REFUSALS_RECORDED_MAX} were refused in a minute, so this one is counted and not recorded"
            );
            return ApiError::new(Code::Busy, message);
        };
        let id = claims.id.filter(|id| id.len() <= SIGNAL_TEXT_MAX);
        let fact = system::Event::CallbackRefused(CallbackRefused {
            tenant: tenant.clone(),
            key: claims.key.and_then(|key| key.parse().ok()),
            id,
            code: error.code.word().to_owned(),
            why: error.message.clone(),
            unrecorded,
        });
        let chain = match self.has_runs(tenant) {
            Ok(true) => tenant.clone(),
            Ok(false) => TenantId::host(),
            Err(error) => return error,
        };
        let recorded = self.services.store.system_event(chain, fact);
        match tokio::time::timeout(RECORD_WAIT, recorded).await {
            Ok(Ok(_)) => error,
            Ok(Err(cause)) => ApiError::new(Code::LogUnavailable, cause.to_string()),
            Err(_) => silent(),
        }
    }

    /// A name that anybody can make up gets no chain of its own.
    fn has_runs(&self, tenant: &TenantId) -> Result<bool, ApiError> {
        let filter = RowFilter {
            tenant: Some(tenant.clone()),
            ..RowFilter::default()
        };
        let first = self.services.store.log().rows(filter).next().transpose()?;
        Ok(first.is_some())
    }
}

/// Whether a callback was turned away for what it is, and not because the host cannot take it now.
fn concerns_no_run(code: Code) -> bool {
    matches!(
        code,
        Code::UnknownOperation | Code::InvalidRequest | Code::TooLarge
    )
}

fn silent() -> ApiError {
    let message = "nothing can be recorded now: send it again";
    ApiError::new(Code::LogUnavailable, message)
}
