//! The host's HTTP port: `POST /callbacks/<tenant>`. Bounded in connections, in what each may hold, and in how long it may last.

mod listener;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Path, State},
    http::{HeaderMap, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use coppice_messages::ids::TenantId;
use futures::StreamExt as _;
use tokio::{net::TcpListener, task::JoinHandle};

use self::listener::{Bounded, Seat, Seated};
use super::{HostError, HttpChoice, callbacks::Callbacks};
use crate::{
    api::{ApiError, Called, Code, Refused},
    callback::SIGNATURE_HEADER,
    limits::{CALLBACK_BYTES_MAX, HTTP_DISCARDED_MAX, HTTP_PORT},
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
        let service = router.into_make_service_with_connect_info::<Seated>();
        tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, service).await {
                tracing::error!(%error, "the HTTP port is closed");
            }
        })
    }
}

async fn call_back(
    State(callbacks): State<Arc<Callbacks>>,
    ConnectInfo(Seated(seat)): ConnectInfo<Seated>,
    Path(tenant): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match take(&callbacks, &seat, &tenant, &headers, body).await {
        Ok(called) => Json(called).into_response(),
        Err(error) => refused(&error),
    }
}

async fn take(
    callbacks: &Arc<Callbacks>,
    seat: &Arc<Seat>,
    tenant: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Called, ApiError> {
    let tenant: TenantId = tenant
        .parse()
        .map_err(|error| ApiError::new(Code::InvalidRequest, format!("{error}")))?;
    let signature = headers.get(SIGNATURE_HEADER);
    let signature = signature.map(|value| value.to_str().unwrap_or_default().to_owned());
    let body = whole(body).await?;
    let _keeps_its_place = seat.work();
    let callbacks = Arc::clone(callbacks);
    // A task of its own: what a sender that goes away has asked for is still taken in whole.
    let taken =
        tokio::spawn(async move { callbacks.signed(tenant, &body, signature.as_deref()).await });
    taken.await.unwrap_or_else(|_| {
        let message = "the callback could not be taken in: send it again";
        Err(ApiError::new(Code::Stopping, message))
    })
}

/// The body. One that is too large is read on for a while and thrown away: many a client reads no answer before it has sent everything.
async fn whole(body: Body) -> Result<Bytes, ApiError> {
    let mut chunks = body.into_data_stream();
    let mut kept = Vec::new();
    let mut come: usize = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| {
            ApiError::new(Code::InvalidRequest, "the body ended before all of it came")
        })?;
        come = come.saturating_add(chunk.len());
        if come <= CALLBACK_BYTES_MAX {
            kept.extend_from_slice(&chunk);
        } else if come > HTTP_DISCARDED_MAX {
            break;
        }
    }
    if come > CALLBACK_BYTES_MAX {
        let message = format!("a callback has at most {CALLBACK_BYTES_MAX} bytes");
        return Err(ApiError::new(Code::TooLarge, message));
    }
    Ok(kept.into())
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
