//! The host's HTTP port: `POST /callbacks/<tenant>`. Bounded in connections, in what each may hold, and in how long it may last.

mod listener;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use coppice_messages::ids::TenantId;
use tokio::{net::TcpListener, task::JoinHandle};

use self::listener::Bounded;
use super::{HostError, HttpChoice, callbacks::Callbacks};
use crate::{
    api::{ApiError, Called, Code, Refused},
    callback::SIGNATURE_HEADER,
    limits::{CALLBACK_BYTES_MAX, HTTP_PORT},
};

/// A bound port; nothing is answered yet.
pub(super) struct HttpPort {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl HttpPort {
    /// Takes the port.
    pub async fn bind(choice: HttpChoice) -> Result<Self, HostError> {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (first, second) = match choice {
            HttpChoice::Free => (loopback(0), None),
            HttpChoice::Usual => (loopback(HTTP_PORT), Some(loopback(0))),
            HttpChoice::At(address) => (address, None),
        };
        let mut bound = TcpListener::bind(first).await;
        if let (Err(_), Some(second)) = (&bound, second) {
            bound = TcpListener::bind(second).await;
        }
        let refused = |source| HostError::Http {
            address: first,
            source,
        };
        let listener = bound.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, address })
    }

    /// Answers until the task is aborted.
    pub fn serve(self, callbacks: Arc<Callbacks>) -> JoinHandle<()> {
        let router = Router::new()
            .route("/callbacks/{tenant}", post(call_back))
            .fallback(async || refused(&no_route()))
            .method_not_allowed_fallback(async || refused(&no_route()))
            .with_state(callbacks);
        let listener = Bounded::new(self.listener);
        tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the HTTP port is closed");
            }
        })
    }
}

async fn call_back(
    State(callbacks): State<Arc<Callbacks>>,
    Path(tenant): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match take(&callbacks, &tenant, &headers, body).await {
        Ok(called) => Json(called).into_response(),
        Err(error) => refused(&error),
    }
}

async fn take(
    callbacks: &Arc<Callbacks>,
    tenant: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Called, ApiError> {
    let tenant: TenantId = tenant
        .parse()
        .map_err(|error| ApiError::new(Code::InvalidRequest, format!("{error}")))?;
    let signature = headers.get(SIGNATURE_HEADER);
    let signature = signature.map(|value| value.to_str().unwrap_or_default().to_owned());
    let body = to_bytes(body, CALLBACK_BYTES_MAX).await.map_err(|_| {
        let message = format!("a callback has at most {CALLBACK_BYTES_MAX} bytes");
        ApiError::new(Code::TooLarge, message)
    })?;
    let callbacks = Arc::clone(callbacks);
    // A task of its own: what a sender that goes away has asked for is still taken in whole.
    let taken =
        tokio::spawn(async move { callbacks.signed(tenant, &body, signature.as_deref()).await });
    taken.await.unwrap_or_else(|_| {
        let message = "the callback could not be taken in: send it again";
        Err(ApiError::new(Code::Stopping, message))
    })
}

fn no_route() -> ApiError {
    let message = "there is only POST /callbacks/<tenant>: see docs/callbacks.md";
    ApiError::new(Code::UnknownVerb, message)
}

fn refused(error: &ApiError) -> Response {
    let status = StatusCode::from_u16(error.code.status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = Json(Refused {
        error: error.clone(),
    });
    let again = matches!(
        error.code,
        Code::Busy | Code::LogUnavailable | Code::Stopping
    );
    if again {
        return (status, [(RETRY_AFTER, "1")], body).into_response();
    }
    (status, body).into_response()
}
