//! Tool contracts: what a tool takes, gives and does, and how an unclear outcome of it is resolved (`spec/effects.md` 1).

use std::collections::BTreeSet;

use coppice_messages::{Bytes, Millis, Operation, Value, ids::ToolName};
use serde::{Deserialize, Serialize};

use crate::expr::{Condition, Reference};

/// One tool's contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    pub tool: ToolName,
    /// Which system it belongs to.
    pub namespace: String,
    /// Who answers for it.
    pub owner: String,
    /// Raised by hand with each change.
    pub version: u32,
    /// What it does to the outside.
    pub operation: Operation,
    /// How much harm a wrong call can do.
    pub effect: EffectClass,
    /// JSON Schema of the arguments.
    pub input: Value,
    /// Arguments that a model may word freely: outside the action digest.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub annotations: BTreeSet<String>,
    /// JSON Schema of the result.
    pub output: Value,
    /// How it is called.
    pub http: Http,
    /// Business key and repeats.
    #[serde(default)]
    pub idempotency: Idempotency,
    /// Rate and concurrency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

/// How much harm a wrong call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// None.
    Read,
    /// Can be undone.
    ReversibleWrite,
    /// Cannot be undone.
    IrreversibleWrite,
    /// Somebody reads it.
    Communication,
    /// Money moves.
    Payment,
    /// Code runs.
    CodeExecution,
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

/// Business key and repeats.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Idempotency {
    /// What makes two operations one: references to input and item only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub business_key: Vec<Reference>,
    /// Whether it may be sent again by itself.
    pub attempts: Attempts,
}

/// Whether an effect may be sent again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempts {
    /// Never; lost work is reported as lost.
    #[default]
    AtMostOnce,
    /// When it provably did not happen, or the tool deduplicates by key.
    AtLeastOnce,
}

/// Rate and concurrency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Calls a minute over the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_minute: Option<u32>,
    /// Calls at one time over the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

impl Tool {
    /// Whether a call changes nothing outside.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.operation == Operation::Read
    }

    /// When an unclear outcome may at the earliest be called "not happened": this long after `send_by`.
    #[must_use]
    pub fn settles_after(&self) -> Option<Millis> {
        let lookup = self.http.lookup_by_key.as_ref()?;
        Some(Millis(
            self.http
                .request
                .timeout
                .0
                .saturating_add(lookup.settles_within.0),
        ))
    }
}
