//! One HTTP exchange with a tool, and whether a byte of it may have left when it fails.
//!
//! Redirects are not followed: where a request goes is part of the tool's contract. Proxies of the environment are not used, answers are not
//! decompressed. A request that changes something gets a connection of its own, never a kept one: a kept connection that the tool closed
//! meanwhile looks like a lost answer, and only a new one has a moment at which it stands and nothing has left.

use std::{
    error::Error as _,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use coppice_messages::{
    Millis,
    ids::{EffectKey, RunId, TenantId},
};
use reqwest::{
    Client, ClientBuilder, Response,
    header::{HeaderMap, RETRY_AFTER},
    redirect, retry,
};
use tower::{Layer, Service};

use super::moment::{MOMENT, Moment};
use crate::{
    limits::{REFUSAL_BYTES_MAX, RETRY_AFTER_MAX},
    secrets::Secrets,
};

/// For whom a request is made.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    pub(super) tenant: TenantId,
    pub(super) run: RunId,
    pub(super) key: Option<EffectKey>,
}

/// What is sent.
pub(super) struct Request {
    pub(super) of: Sender,
    pub(super) method: reqwest::Method,
    pub(super) url: reqwest::Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
    pub(super) timeout: Duration,
    pub(super) answer_bytes_max: u64,
}

impl Request {
    /// Bytes that go up: address and body.
    pub(super) fn bytes(&self) -> u64 {
        self.url.as_str().len() as u64 + self.body.as_ref().map_or(0, Vec::len) as u64
    }
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Millis>,
    /// None when it is larger than allowed; reading stopped there.
    pub(super) body: Option<Vec<u8>>,
    /// Bytes of the body that came down.
    pub(super) bytes: u64,
}

/// No whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// There was no connection, so nothing left.
    NoConnection(String),
    /// A byte may have left.
    Lost(String),
}

impl Fault {
    pub(super) fn words(self) -> String {
        match self {
            Self::NoConnection(why) | Self::Lost(why) => why,
        }
    }
}

/// The way to tools; cheap to clone.
#[derive(Clone)]
pub(super) struct Transport {
    secrets: Secrets,
    fresh: Client,
    kept: Client,
}

impl Transport {
    /// What comes back has none of these secrets.
    pub(super) fn new(secrets: Secrets) -> Result<Self, reqwest::Error> {
        // Whoever was first in this process has installed a provider as good as this one.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            secrets,
            fresh: client(|builder| builder.pool_max_idle_per_host(0))?,
            kept: client(|builder| builder)?,
        })
    }

    /// An exchange that changes something outside.
    pub(super) async fn write(
        &self,
        request: Request,
        moment: &Arc<Moment>,
    ) -> Result<Answer, Fault> {
        // Boxed: whoever waits for a tool is moved a few times before it begins, and most of its size would be this.
        let exchange = Box::pin(exchange(&self.fresh, request));
        let exchanged = MOMENT.scope(moment.clone(), exchange).await;
        self.masked(exchanged).map_err(|fault| match fault {
            Fault::Lost(why) if !moment.has_passed() => Fault::NoConnection(why),
            fault => fault,
        })
    }

    /// An exchange that changes nothing outside.
    pub(super) async fn read(&self, request: Request) -> Result<Answer, Fault> {
        self.masked(Box::pin(exchange(&self.kept, request)).await)
    }

    fn masked(&self, exchanged: Result<Answer, Fault>) -> Result<Answer, Fault> {
        match exchanged {
            Ok(answer) => Ok(Answer {
                body: answer.body.map(|body| self.secrets.mask_body(body)),
                ..answer
            }),
            Err(Fault::NoConnection(why)) => {
                Err(Fault::NoConnection(self.secrets.mask(&why).into_owned()))
            }
            Err(Fault::Lost(why)) => Err(Fault::Lost(self.secrets.mask(&why).into_owned())),
        }
    }
}

fn client(with: impl Fn(ClientBuilder) -> ClientBuilder) -> Result<Client, reqwest::Error> {
    let builder = || {
        let builder = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .user_agent("coppice")
            .connector_layer(LastLook);
        with(builder)
    };
    // A machine without root certificates still reaches plain HTTP tools; an https tool then fails with the reason.
    builder()
        .build()
        .or_else(|_| builder().tls_certs_only(Vec::new()).build())
}

async fn exchange(client: &Client, request: Request) -> Result<Answer, Fault> {
    let (timeout, most) = (request.timeout, request.answer_bytes_max);
    let mut building = client
        .request(request.method, request.url)
        .headers(request.headers)
        .timeout(timeout);
    if let Some(body) = request.body {
        building = building.body(body);
    }
    let sent = building.send().await;
    let response = sent.map_err(|error| {
        if error.is_connect() {
            Fault::NoConnection(words(error, timeout))
        } else {
            Fault::Lost(words(error, timeout))
        }
    })?;
    let most = if response.status().is_success() {
        most
    } else {
        most.max(REFUSAL_BYTES_MAX)
    };
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let (body, bytes) = read_body(response, most).await.map_err(|error| {
        let why = words(error, timeout);
        Fault::Lost(format!(
            "the answer began with status {status} and broke off: {why}"
        ))
    })?;
    Ok(Answer {
        status,
        retry_after,
        body,
        bytes,
    })
}

/// The body, or none when it is larger than `most`; and the bytes that came.
async fn read_body(
    mut response: Response,
    most: u64,
) -> Result<(Option<Vec<u8>>, u64), reqwest::Error> {
    if response
        .content_length()
        .is_some_and(|length| length > most)
    {
        return Ok((None, 0));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let bytes = (body.len() + chunk.len()) as u64;
        if bytes > most {
            return Ok((None, bytes));
        }
        body.extend_from_slice(&chunk);
    }
    let bytes = body.len() as u64;
    Ok((Some(body), bytes))
}

/// Seconds only: the other form, a date, would be compared with a clock that is not the outside's.
fn retry_after(headers: &HeaderMap) -> Option<Millis> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Millis(
        seconds.min(RETRY_AFTER_MAX.as_secs()).saturating_mul(1000),
    ))
}

/// What went wrong, down to its cause and without the address, which may hold arguments.
fn words(error: reqwest::Error, timeout: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {}", Millis(timeout.as_millis() as u64));
    }
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

/// Looks at the moment of use once more when a connection stands.
#[derive(Clone)]
struct LastLook;

impl<S> Layer<S> for LastLook {
    type Service = LookingLast<S>;
    fn layer(&self, connector: S) -> LookingLast<S> {
        LookingLast(connector)
    }
}

#[derive(Clone)]
struct LookingLast<S>(S);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<S, R> Service<R> for LookingLast<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: R) -> Self::Future {
        let connecting = self.0.call(to);
        Box::pin(async move {
            let connection = connecting.await?;
            // Reads have no such moment.
            let looked = MOMENT.try_with(|moment| moment.pass()).unwrap_or(Ok(()));
            looked.map_err(|_| "withheld at the last look")?;
            Ok(connection)
        })
    }
}
