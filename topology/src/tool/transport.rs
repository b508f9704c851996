//! How a tool is called: over HTTP, or as a function that the host's own program brings.

use coppice_messages::{Bytes, Millis};
use serde::{Deserialize, Serialize};

use super::Credential;
use crate::expr::Condition;

/// How a tool is called.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// Over HTTP.
    Http(Box<Http>),
    /// As a function of the host's program.
    InProcess(InProcess),
}

/// How an HTTP tool is called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// The call itself.
    pub request: HttpRequest,
    /// Where the proof stands in the answer.
    #[serde(default)]
    pub receipt: ReceiptPointers,
    /// How an unclear outcome is found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup_by_key: Option<Lookup>,
    /// What a status means, before the general rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorRow>,
    /// What happens with an unclear outcome.
    #[serde(default)]
    pub on_unknown: OnUnknown,
    /// What opens the outside's door; sent as a bearer token. Absent: none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
}

/// One HTTP request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpRequest {
    /// Such as GET.
    pub method: Method,
    /// With `{desk}` and `{arguments.NAME}`; values are percent-encoded.
    pub url: String,
    /// The header that carries the idempotency key; absent: none is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// From connecting to the last byte of the answer.
    pub timeout: Millis,
    /// Greatest size of the answer.
    pub max_bytes: Bytes,
}

/// The HTTP methods that tools use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads.
    Get,
    /// Makes.
    Post,
    /// Replaces.
    Put,
    /// Changes.
    Patch,
    /// Removes.
    Delete,
}

/// JSON Pointers into the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReceiptPointers {
    /// The outside's id of what was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Version of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// How an unclear outcome is found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lookup {
    /// GET, or a POST that only reads.
    pub method: Method,
    /// With `{desk}`, `{key}` and `{arguments.NAME}`.
    pub url: String,
    /// Holds of the answer's `body` when the effect happened.
    pub found: Condition,
    /// Where in the answer the effect's own result stands.
    #[serde(default = "first_item")]
    pub result: String,
    /// Whether "not found" after `settles_within` proves that it will not happen.
    #[serde(default)]
    pub absent_is_final: bool,
    /// Longest time from the last byte sent until the look-up shows it.
    #[serde(default = "thirty_seconds")]
    pub settles_within: Millis,
}

fn first_item() -> String {
    "/0".to_owned()
}

fn thirty_seconds() -> Millis {
    Millis(30_000)
}

/// What one status means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRow {
    /// The HTTP status.
    pub status: u16,
    /// Only with this `code` in the body; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What it means.
    #[serde(rename = "as")]
    pub meaning: Meaning,
}

/// What a status means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// The outside said no.
    Declined,
    /// Not now.
    Retryable,
    /// Nobody knows.
    Unknown,
    /// It happened all the same.
    Landed,
}

/// What happens with an unclear outcome. There is no way to say "retry".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// It is looked up by key.
    #[default]
    Reconcile,
    /// A person finds out.
    Person,
}

/// A tool that is a function of the host's own program. A host that has no function of this name starts no tree that needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InProcess {
    /// The name under which the host has it.
    pub function: String,
    /// How long one call may take; then the function is dropped, and what it did is unknown.
    pub timeout: Millis,
    /// Greatest size of the result, as canonical JSON.
    pub max_bytes: Bytes,
    /// Where the proof stands in the result.
    #[serde(default)]
    pub receipt: ReceiptPointers,
    /// That the function finds out by key what became of an effect; absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup_by_key: Option<InProcessLookup>,
    /// Whether a second call with the same key does nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicates: bool,
    /// What happens with an unclear outcome.
    #[serde(default)]
    pub on_unknown: OnUnknown,
}

/// What a function's look-up by key is worth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InProcessLookup {
    /// Whether "not found" after `settles_within` proves that it will not happen.
    #[serde(default)]
    pub absent_is_final: bool,
    /// Longest time until the look-up shows what a call did, from the call's end: its return, its timeout, or the end of its host. Not
    /// 0 when the function hands its work to somebody else.
    #[serde(default = "thirty_seconds")]
    pub settles_within: Millis,
}
