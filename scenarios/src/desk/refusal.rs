//! Every way in which the desk says no, as a status, a code and a message.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{limits, store::StoreError, world::Route};

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the body or query of {route} is malformed: {why}")]
    Malformed { route: Route, why: String },
    #[error("{field} {why}")]
    Invalid { field: &'static str, why: String },
    #[error("the header {header} must be {rule}")]
    Header {
        header: &'static str,
        rule: &'static str,
    },
    #[error("nobody vouches for this request: {0}")]
    Unvouched(String),
    #[error("the body is larger than {} bytes", limits::BODY_BYTES)]
    TooLarge,
    #[error("the query must have exactly one parameter, one of: {0}")]
    Criterion(String),
    #[error("there is no {kind} `{id}`")]
    NotFound { kind: &'static str, id: String },
    #[error("this desk offers no look-up by key")]
    LookupOff,
    #[error("there is no such route")]
    NoRoute,
    #[error("the idempotency key was used for other arguments (digest {stored}, now {given})")]
    KeyConflict { stored: String, given: String },
    #[error("the ticket `{id}` is closed already")]
    AlreadyClosed { id: String },
    #[error("`{name}` has version {current}, not {expected}")]
    VersionConflict {
        name: String,
        expected: u64,
        current: u64,
    },
    #[error("the desk refuses this {0}")]
    Refused(Route),
    #[error("too many requests for {0}: try again later")]
    TooMany(Route),
    #[error("the desk broke over this {0}")]
    Broken(Route),
    #[error("the desk is closing")]
    Closing,
    #[error("the desk's store failed: {0}")]
    Store(#[from] StoreError),
}

impl Refusal {
    /// A query that names none of the parameters of its routes, or several.
    pub(super) fn criterion(routes: &[(&str, Route)]) -> Self {
        let names: Vec<&str> = routes.iter().map(|(name, _)| *name).collect();
        Self::Criterion(names.join(", "))
    }

    fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Malformed { .. } => (StatusCode::BAD_REQUEST, "malformed"),
            Self::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid"),
            Self::Header { .. } => (StatusCode::BAD_REQUEST, "bad_header"),
            Self::Unvouched(_) => (StatusCode::UNAUTHORIZED, "unvouched"),
            Self::Criterion(_) => (StatusCode::BAD_REQUEST, "bad_query"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Self::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
            Self::LookupOff => (StatusCode::NOT_FOUND, "lookup_off"),
            Self::NoRoute => (StatusCode::NOT_FOUND, "no_route"),
            Self::KeyConflict { .. } => (StatusCode::CONFLICT, "key_conflict"),
            Self::AlreadyClosed { .. } => (StatusCode::CONFLICT, "already_closed"),
            Self::VersionConflict { .. } => (StatusCode::CONFLICT, "version_conflict"),
            Self::Refused(_) => (StatusCode::CONFLICT, "refused"),
            Self::TooMany(_) => (StatusCode::TOO_MANY_REQUESTS, "too_many"),
            Self::Broken(_) => (StatusCode::INTERNAL_SERVER_ERROR, "broken"),
            Self::Closing => (StatusCode::SERVICE_UNAVAILABLE, "closing"),
            Self::Store(_) => (StatusCode::INTERNAL_SERVER_ERROR, "store_failed"),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        (
            status,
            Json(json!({ "code": code, "message": self.to_string() })),
        )
            .into_response()
    }
}
