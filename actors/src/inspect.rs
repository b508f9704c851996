//! Looking at what is recorded: the replies of the API, made from a log alone. The host answers with these, and so does the command line when no
//! host is alive.

mod audit;
mod copy;
mod list;
mod tail;
mod verify;
mod view;

use std::fmt::Write as _;

use coppice_messages::ids::{RunId, TenantId, TreeId};
use coppice_store::{LogReader, ReadError, verify::VerifyStreamError};

use self::copy::Copies;
pub(crate) use self::verify::Live;
pub use self::verify::differs;
use crate::{
    api::{ApiError, Code},
    release::Releases,
    run::FoldChainError,
};

/// What is recorded, to be looked at. Cheap to clone.
#[derive(Clone)]
pub struct Inspect {
    log: LogReader,
    releases: Releases,
    copies: Copies,
}

impl Inspect {
    /// A look at this log.
    #[must_use]
    pub fn new(log: LogReader) -> Self {
        Self::with_releases(log, Releases::new())
    }

    /// A look that shares compiled releases.
    #[must_use]
    pub fn with_releases(log: LogReader, releases: Releases) -> Self {
        Self {
            log,
            releases,
            copies: Copies::default(),
        }
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &LogReader {
        &self.log
    }
}

fn unknown_run(tenant: &TenantId, run: &RunId) -> ApiError {
    let message = format!("the tenant {tenant} has no run {run}");
    ApiError::new(Code::UnknownRun, message)
}

fn unknown_tree(tenant: &TenantId, tree: &TreeId) -> ApiError {
    let message = format!("the tenant {tenant} has no tree {tree}");
    ApiError::new(Code::UnknownRun, message)
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        Self::new(Code::LogUnreadable, with_causes(&error))
    }
}

impl From<VerifyStreamError> for ApiError {
    fn from(error: VerifyStreamError) -> Self {
        let code = match &error {
            VerifyStreamError::Log(_) => Code::LogUnreadable,
            // That nats-server is away says nothing about what the stream has.
            VerifyStreamError::Stream { .. } => Code::LogUnavailable,
        };
        Self::new(code, with_causes(&error))
    }
}

impl From<FoldChainError> for ApiError {
    fn from(error: FoldChainError) -> Self {
        Self::new(Code::LogUnreadable, with_causes(&error))
    }
}

/// An error and what caused it, in one line.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Libraries repeat in their own words what caused them.
        if !text.ends_with(&said) {
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_cannot_be_read_for_now_is_no_difference_but_a_reason_to_ask_again() {
        let silent = VerifyStreamError::Stream {
            said: "it fell silent".to_owned(),
        };
        let refused = ApiError::from(silent);
        assert_eq!(refused.code, Code::LogUnavailable);
        assert!(refused.message.contains("it fell silent"));
    }
}
