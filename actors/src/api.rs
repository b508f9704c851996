//! The API: what can be asked of a host over NATS, JSON in and JSON out, and the client that asks.
//!
//! A verb of tenant T is asked on `coppice.v1.<realm>.api.<T>.<verb>`. An answer is the verb's reply, or `{"error": {"code", "message"}}`; the
//! two NATS service headers say the same. Whoever has only the log uses [`crate::inspect`], which makes the same replies.

mod client;
mod copy;
mod feed;
pub(crate) mod request;
mod view;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

pub use self::{
    client::{Address, ApiClient, ClientError, HostIs},
    copy::{CopyOf, CopyPage, CopyRequest},
    feed::Feed,
    request::{
        AuditRequest, CallbackRequest, CancelRequest, EventFilter, GetRequest, ListRequest,
        RunStateFilter, SignalRequest, StartRequest, StatusRequest, TailRequest, TreeRequest,
        VerifyRequest, glob,
    },
    view::{
        AuditReport, CallOutcome, Called, Compared, Ended, EventView, Finding, Law, ListReply,
        PoliciesReport, RunRow, RunView, Started, StatusReport, TailPage, Told, TreePage,
        VerifyReport,
    },
};

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// [`StartRequest`] → [`Started`]
    Start,
    /// [`GetRequest`] → [`RunView`]
    Get,
    /// [`ListRequest`] → [`ListReply`]
    List,
    /// [`TreeRequest`] → [`TreePage`]
    Tree,
    /// [`TailRequest`] → [`TailPage`]
    Tail,
    /// [`VerifyRequest`] → [`VerifyReport`]
    Verify,
    /// [`AuditRequest`] → [`AuditReport`]
    Audit,
    /// [`StatusRequest`] → [`StatusReport`]
    Status,
    /// [`CancelRequest`] → [`Told`]
    Cancel,
    /// [`SignalRequest`] → [`Told`]
    Signal,
    /// [`CopyRequest`] → [`CopyPage`]
    Copy,
    /// [`CallbackRequest`] → [`Called`]
    Callback,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 12] = [
        Self::Start,
        Self::Get,
        Self::List,
        Self::Tree,
        Self::Tail,
        Self::Verify,
        Self::Audit,
        Self::Status,
        Self::Cancel,
        Self::Signal,
        Self::Copy,
        Self::Callback,
    ];

    /// The word in the subject.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Get => "get",
            Self::List => "list",
            Self::Tree => "tree",
            Self::Tail => "tail",
            Self::Verify => "verify",
            Self::Audit => "audit",
            Self::Status => "status",
            Self::Cancel => "cancel",
            Self::Signal => "signal",
            Self::Copy => "copy",
            Self::Callback => "callback",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Verb {
    type Err = ApiError;
    fn from_str(word: &str) -> Result<Self, ApiError> {
        Self::ALL
            .into_iter()
            .find(|verb| verb.word() == word)
            .ok_or_else(|| ApiError::new(Code::UnknownVerb, format!("there is no verb {word:?}")))
    }
}

/// Why a request is refused. The texts are part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is not JSON of the verb's shape.
    InvalidRequest,
    /// The input does not meet the topology's input schema.
    InvalidInput,
    /// The release's documents are incomplete or refused.
    InvalidRelease,
    /// A tool of the release names a base URL that the host was not told.
    UnknownEndpoint,
    /// A tool's credential stands where this host may not take one from.
    UnknownCredential,
    /// The key started a tree of another release or input.
    KeyConflict,
    /// There is no such run or tree.
    UnknownRun,
    /// The tenant has made no write under this key.
    UnknownOperation,
    /// Nobody vouches for a callback: its signature is missing or wrong.
    Unsigned,
    /// There is no such verb.
    UnknownVerb,
    /// A request or a reply does not fit into one message.
    TooLarge,
    /// Enough runs are awake.
    Busy,
    /// The recorder is silent: nothing can be recorded now.
    LogUnavailable,
    /// There is too little room for anything new.
    StorageLow,
    /// The log holds something that cannot be read.
    LogUnreadable,
    /// This host cannot drive the run.
    Blocked,
    /// The host is stopping.
    Stopping,
}

impl Code {
    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidInput => "invalid_input",
            Self::InvalidRelease => "invalid_release",
            Self::UnknownEndpoint => "unknown_endpoint",
            Self::UnknownCredential => "unknown_credential",
            Self::KeyConflict => "key_conflict",
            Self::UnknownRun => "unknown_run",
            Self::UnknownOperation => "unknown_operation",
            Self::Unsigned => "unsigned",
            Self::UnknownVerb => "unknown_verb",
            Self::TooLarge => "too_large",
            Self::Busy => "busy",
            Self::LogUnavailable => "log_unavailable",
            Self::StorageLow => "storage_low",
            Self::LogUnreadable => "log_unreadable",
            Self::Blocked => "blocked",
            Self::Stopping => "stopping",
        }
    }

    /// The code in the NATS service header, with the meaning that HTTP gives it.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest
            | Self::InvalidInput
            | Self::InvalidRelease
            | Self::UnknownEndpoint
            | Self::UnknownCredential => 400,
            Self::KeyConflict => 409,
            Self::Unsigned => 401,
            Self::UnknownRun | Self::UnknownOperation | Self::UnknownVerb => 404,
            Self::TooLarge => 413,
            Self::Busy => 429,
            Self::LogUnreadable | Self::Blocked => 500,
            Self::LogUnavailable | Self::Stopping => 503,
            Self::StorageLow => 507,
        }
    }
}

/// A refusal: what, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Which kind.
    pub code: Code,
    /// One sentence for people.
    pub message: String,
}

impl ApiError {
    /// A refusal.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// The body of a refused request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Why.
    pub error: ApiError,
}
