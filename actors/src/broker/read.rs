//! Reads that check the outside world. They need no event of their own: their answer is in the event that they lead to.

use std::sync::Arc;

use coppice_kernel::command::{CheckOutcome, EffectOutcome};
use coppice_messages::{
    Value,
    event::effect::ResultCheck,
    ids::{RunId, TenantId, ToolName},
};
use coppice_store::clock;
use coppice_topology::{Plan, tool::Tool};

use super::{ToolBroker, answer::Verdict, outgoing::Asking};
use crate::limits::{ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST};

/// One read that checks something.
#[derive(Clone)]
pub struct ReadRequest {
    /// The run's release.
    pub plan: Arc<Plan>,
    /// Whose run.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// A tool whose operation is `read`.
    pub tool: ToolName,
    /// Its arguments.
    pub arguments: Value,
    /// W3C traceparent, passed on.
    pub trace: Option<String>,
}

impl ToolBroker {
    /// Reads, again and again until there is an answer: who asks gives up at the run's deadline.
    pub async fn read(&self, request: ReadRequest) -> CheckOutcome {
        let unreadable = |why: String| CheckOutcome::Unreadable { why };
        let tool = match readable(&request.plan, &request.tool) {
            Ok(tool) => tool,
            Err(why) => return unreadable(why),
        };
        if let Err(why) = self.checked(tool, &request.arguments) {
            return unreadable(why);
        }
        let asking = Asking {
            tenant: &request.tenant,
            run: &request.run,
            key: None,
            arguments: &request.arguments,
            receipt: None,
            trace: request.trace.as_deref(),
        };
        let mut attempt = 0;
        loop {
            let outgoing = match self.inner.outgoing(tool, asking) {
                Ok(outgoing) => outgoing,
                Err(why) => return unreadable(why),
            };
            let verdict = match self.inner.lanes.enter(tool, None).await {
                Ok(_place) => self.inner.read(tool, outgoing).await,
                Err(full) => return unreadable(full.to_string()),
            };
            let why = match self.see_read(&request, verdict).await {
                Ok(outcome) => return outcome,
                Err(why) => why,
            };
            tracing::debug!(tool = %tool.tool, run = %request.run, why, "a check got no answer");
            clock::pause(clock::backoff(attempt, ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST)).await;
            attempt += 1;
        }
    }

    /// What an answer shows, or why it shows nothing yet.
    async fn see_read(
        &self,
        request: &ReadRequest,
        verdict: Verdict,
    ) -> Result<CheckOutcome, String> {
        let inspected = match verdict {
            Verdict::Landed(inspected) => inspected,
            Verdict::Not(EffectOutcome::Retryable { code, .. }) => return Err(code),
            Verdict::Not(EffectOutcome::NotSent { why } | EffectOutcome::Unknown { why }) => {
                return Err(why);
            }
            Verdict::Not(EffectOutcome::Withdrawn { why }) => {
                return Ok(CheckOutcome::Unreadable { why });
            }
            Verdict::Not(EffectOutcome::Declined { code, message, .. }) => {
                let why = format!("{code}: {message}");
                return Ok(CheckOutcome::Unreadable { why });
            }
            Verdict::Not(other) => {
                let why = format!("an answer that no read has: {other:?}");
                return Ok(CheckOutcome::Unreadable { why });
            }
        };
        let unusable = |class: &str, why: &str| CheckOutcome::Unreadable {
            why: format!("{class}: {why}"),
        };
        Ok(match inspected.check {
            ResultCheck::OutputInvalid => unusable("output_invalid", &inspected.why),
            ResultCheck::OutputTooLarge => unusable("output_too_large", &inspected.why),
            ResultCheck::Ok => {
                let tool = readable(&request.plan, &request.tool);
                let kept = match tool {
                    Ok(tool) => self.keep(&request.tenant, tool, inspected.value).await,
                    Err(why) => return Ok(CheckOutcome::Unreadable { why }),
                };
                match kept {
                    Ok(value) => CheckOutcome::Read(value),
                    Err(too_large) => unusable("output_too_large", &too_large.to_string()),
                }
            }
        })
    }
}

fn readable<'a>(plan: &'a Plan, name: &ToolName) -> Result<&'a Tool, String> {
    let tool = plan.tools.get(name);
    let tool = &tool
        .ok_or_else(|| format!("{name} is not in the release"))?
        .contract;
    if tool.is_read() {
        Ok(tool)
    } else {
        let operation = tool.operation;
        Err(format!("{name} does {operation}: a check only reads"))
    }
}
