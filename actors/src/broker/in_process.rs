//! Tools that are functions of the host's own program: the port, the functions that a host has, and one call of one.
//!
//! The broker does for them what it does for tools over HTTP. A function that panics or outlasts its timeout is dropped where it stands, and
//! what it did is unknown.

use std::{
    any::Any, collections::BTreeMap, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc,
    time::Duration,
};

use coppice_messages::{
    Millis, Value,
    ids::{EffectKey, RunId, TenantId, ToolName},
};
use coppice_store::clock;
use coppice_topology::{
    Plan,
    tool::{InProcess, Transport},
};
use futures::FutureExt as _;

/// What a function gives back, later.
pub type ToolFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A tool that is a function of the host's own program.
///
/// Every `Fn(ToolCall) -> impl Future<Output = Result<Value, ToolFailure>>` is one without a look-up. It runs on the host's runtime: work that
/// blocks belongs into `tokio::task::spawn_blocking`, and then `settles_within` of its contract is how long that may go on after the timeout.
pub trait InProcessTool: Send + Sync + 'static {
    /// Does the work. What is recorded before is the intent; what is recorded after is what this says.
    fn call(&self, call: ToolCall) -> ToolFuture<'_, Result<Value, ToolFailure>>;

    /// What became of the call with this key: its result, or none when it is not there. It changes nothing.
    fn look_up(&self, call: ToolCall) -> ToolFuture<'_, Result<Option<Value>, NoAnswer>> {
        let _ = call;
        Box::pin(async { Err(NoAnswer("the function has no look-up".to_owned())) })
    }
}

impl<F, T> InProcessTool for F
where
    F: Fn(ToolCall) -> T + Send + Sync + 'static,
    T: Future<Output = Result<Value, ToolFailure>> + Send + 'static,
{
    fn call(&self, call: ToolCall) -> ToolFuture<'_, Result<Value, ToolFailure>> {
        Box::pin(self(call))
    }
}

/// One call of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// For whom.
    pub tenant: TenantId,
    /// Which run.
    pub run: RunId,
    /// The effect's key, the same on every attempt; none in a check that only reads.
    pub key: Option<EffectKey>,
    /// Meets the contract's input schema.
    pub arguments: Value,
    /// W3C traceparent, to pass on.
    pub trace: Option<String>,
}

/// Why a call has no result. Whoever cannot say which of them it is says [`ToolFailure::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolFailure {
    /// No, and nothing was done.
    #[error("{code}: {message}")]
    Declined {
        /// For programs.
        code: String,
        /// For people.
        message: String,
    },
    /// Not now; nothing was done, or doing it again does nothing.
    #[error("{code}")]
    Retryable {
        /// For programs.
        code: String,
        /// How long to wait.
        after: Option<Duration>,
    },
    /// Provably nothing was done: it may be called again.
    #[error("{why}")]
    NotDone {
        /// For people.
        why: String,
    },
    /// It may have been done.
    #[error("{why}")]
    Unknown {
        /// For people.
        why: String,
    },
}

/// A look-up that cannot say: it is asked again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

/// The functions of a host, by name; cheap to clone.
#[derive(Clone, Default)]
pub struct InProcessTools(BTreeMap<String, Arc<dyn InProcessTool>>);

/// A release that needs a function which the host does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tool {tool} is the function {function:?} of the host's own program, and this host has {known}: start it with a program that brings the function, or change in_process.function"
)]
pub struct MissingFunction {
    /// Which tool.
    pub tool: ToolName,
    /// Which function.
    pub function: String,
    /// What the host has.
    pub known: String,
}

impl InProcessTools {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// These and one more, under the name that a contract gives in `in_process.function`. A second of the same name takes the place of the first.
    #[must_use]
    pub fn with(mut self, function: impl Into<String>, tool: impl InProcessTool) -> Self {
        self.0.insert(function.into(), Arc::new(tool));
        self
    }

    /// Whether every function that a release needs is there.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), MissingFunction> {
        for (tool, pinned) in &plan.tools {
            match &pinned.contract.transport {
                Transport::InProcess(needed) => drop(self.of(tool, needed)?),
                Transport::Http(_) => {}
            }
        }
        Ok(())
    }

    pub(super) fn of(
        &self,
        tool: &ToolName,
        needed: &InProcess,
    ) -> Result<Arc<dyn InProcessTool>, MissingFunction> {
        let function = self.0.get(&needed.function).cloned();
        function.ok_or_else(|| MissingFunction {
            tool: tool.clone(),
            function: needed.function.clone(),
            known: self.names(),
        })
    }

    fn names(&self) -> String {
        if self.0.is_empty() {
            return "none".to_owned();
        }
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        format!("only {}", names.join(", "))
    }
}

/// One call, ready to be made.
pub(super) struct Prepared {
    pub(super) function: Arc<dyn InProcessTool>,
    pub(super) call: ToolCall,
    pub(super) timeout: Millis,
}

impl Prepared {
    /// Calls the function, at most as long as the contract says.
    pub(super) async fn call(self) -> Result<Value, ToolFailure> {
        let unknown = |why| Err(ToolFailure::Unknown { why });
        match bounded(self.timeout, async { self.function.call(self.call).await }).await {
            Ok(said) => said,
            Err(why) => unknown(why),
        }
    }

    /// Asks the function what became of the call.
    pub(super) async fn look_up(self) -> Result<Option<Value>, NoAnswer> {
        let asked = async { self.function.look_up(self.call).await };
        match bounded(self.timeout, asked).await {
            Ok(said) => said,
            Err(why) => Err(NoAnswer(why)),
        }
    }
}

/// What the work comes to, or why it does not: it takes too long, or it panics.
async fn bounded<T>(timeout: Millis, work: impl Future<Output = T>) -> Result<T, String> {
    let work = AssertUnwindSafe(work).catch_unwind();
    tokio::select! {
        biased;
        done = work => done.map_err(|panic| format!("the function panicked: {}", words(&*panic))),
        () = clock::pause(Duration::from_millis(timeout.0)) => Err(format!("no result within {timeout}")),
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without words")
}
