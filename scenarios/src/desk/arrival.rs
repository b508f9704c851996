//! One request as it arrived: who, under which key, with which arguments.

use axum::{
    body::{Bytes, to_bytes},
    extract::Request,
    http::HeaderMap,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{limits, refusal::Refusal, world::Route};

/// The field that a model words freely: outside the argument digest, as it is outside the action digest of the tools.
const ANNOTATION: &str = "note";

/// A request that will be counted.
pub(super) struct Arrival {
    pub(super) route: Route,
    pub(super) tenant: String,
    /// `Idempotency-Key`, or empty.
    pub(super) key: String,
    /// What it is about, as `kind/id`, and the version in which its sender saw that.
    pub(super) seen: Option<(String, u64)>,
    /// SHA-256 over the canonical arguments without the annotation; of the bytes, where they are no arguments.
    pub(super) digest: String,
    /// Path, query and body as one object, or why they are none.
    pub(super) arguments: Result<Value, Refusal>,
}

impl Arrival {
    /// Who and under which key, for what follows once the arguments are used up.
    pub(super) fn clone_without_arguments(&self) -> Self {
        Self {
            route: self.route,
            tenant: self.tenant.clone(),
            key: self.key.clone(),
            seen: None,
            digest: self.digest.clone(),
            arguments: Ok(Value::Null),
        }
    }

    /// Reads a request; `place` is what its path or query says.
    pub(super) async fn read(
        route: Route,
        place: Map<String, Value>,
        request: Request,
    ) -> Result<Self, Refusal> {
        let tenant = tenant(request.headers())?;
        let key = key(request.headers())?;
        let seen = seen(request.headers())?;
        let (digest, arguments) = if route.writes() {
            match to_bytes(request.into_body(), limits::BODY_BYTES).await {
                Ok(bytes) => body(route, place, &bytes),
                Err(_) => (sha256(b""), Err(Refusal::TooLarge)),
            }
        } else {
            digested(route, place)
        };
        Ok(Self {
            route,
            tenant,
            key,
            seen,
            digest,
            arguments,
        })
    }
}

pub(super) fn tenant(headers: &HeaderMap) -> Result<String, Refusal> {
    let Some(value) = headers.get("Coppice-Tenant") else {
        return Ok("default".to_owned());
    };
    let fits = |text: &&str| {
        (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    value
        .to_str()
        .ok()
        .filter(fits)
        .map(str::to_owned)
        .ok_or(Refusal::Header {
            header: "Coppice-Tenant",
            rule: "1 to 64 of letters, digits, `_` and `-`",
        })
}

pub(super) fn key(headers: &HeaderMap) -> Result<String, Refusal> {
    let Some(value) = headers.get("Idempotency-Key") else {
        return Ok(String::new());
    };
    let fits = |text: &&str| (1..=limits::KEY_BYTES).contains(&text.len()) && !text.contains(' ');
    value
        .to_str()
        .ok()
        .filter(fits)
        .map(str::to_owned)
        .ok_or(Refusal::Header {
            header: "Idempotency-Key",
            rule: "1 to 255 visible ASCII characters",
        })
}

/// What the request is about in the version in which its sender saw it, if it says so.
fn seen(headers: &HeaderMap) -> Result<Option<(String, u64)>, Refusal> {
    let text = |name| headers.get(name).map(|value| value.to_str().ok());
    let (Some(resource), Some(version)) =
        (text("Coppice-Resource"), text("Coppice-Resource-Version"))
    else {
        return Ok(None);
    };
    let version = version.and_then(|version| version.parse().ok());
    match (resource, version) {
        (Some(resource), Some(version)) => Ok(Some((resource.to_owned(), version))),
        _ => Err(Refusal::Header {
            header: "Coppice-Resource-Version",
            rule: "a whole number, with the resource beside it",
        }),
    }
}

/// The body's object with the path's fields in it; where both name a field they must agree.
fn body(
    route: Route,
    place: Map<String, Value>,
    bytes: &Bytes,
) -> (String, Result<Value, Refusal>) {
    let malformed = |why: String| (sha256(bytes), Err(Refusal::Malformed { route, why }));
    let mut fields: Map<String, Value> = if bytes.is_empty() {
        Map::new()
    } else {
        match serde_json::from_slice(bytes) {
            Ok(fields) => fields,
            Err(error) => return malformed(error.to_string()),
        }
    };
    for (name, value) in place {
        if fields.get(&name).is_some_and(|given| *given != value) {
            return malformed(format!("`{name}` is not the one of the path"));
        }
        fields.insert(name, value);
    }
    digested(route, fields)
}

fn digested(route: Route, fields: Map<String, Value>) -> (String, Result<Value, Refusal>) {
    let arguments = Value::Object(fields);
    let mut bound = arguments.clone();
    if let Some(fields) = bound.as_object_mut() {
        fields.remove(ANNOTATION);
    }
    match serde_json_canonicalizer::to_vec(&bound) {
        Ok(canonical) => (sha256(&canonical), Ok(arguments)),
        Err(error) => {
            let why = error.to_string();
            (sha256(b""), Err(Refusal::Malformed { route, why }))
        }
    }
}

/// SHA-256 in hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
