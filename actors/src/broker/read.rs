//! Reads that check the outside world. They need no event of their own: their answer is in the event that they lead to.

use std::sync::Arc;

use coppice_kernel::command::CheckOutcome;
use coppice_messages::{
    Value,
    event::effect::ResultCheck,
    ids::{RunId, TenantId, ToolName},
};
use coppice_store::clock;
use coppice_topology::{
    Plan,
    tool::{Meaning, Tool},
};

use super::{
    ToolBroker,
    answer::{inspect, meaning, said},
    request::{self, Filling},
    transport::Answer,
};
use crate::{
    limits::{ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST},
    record,
};

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
        let mut attempt = 0;
        loop {
            let filling = Filling {
                endpoints: &self.inner.endpoints,
                tenant: &request.tenant,
                key: None,
                trace: request.trace.as_deref(),
                arguments: &request.arguments,
            };
            let outgoing = match request::call(tool, filling) {
                Ok(outgoing) => outgoing,
                Err(unsendable) => return unreadable(unsendable.to_string()),
            };
            let exchanged = match self.inner.lanes.enter(tool, None).await {
                Ok(_place) => self.inner.transport.read(outgoing).await,
                Err(full) => return unreadable(full.to_string()),
            };
            let why = match exchanged {
                Ok(answer) => match self.see_read(&request, tool, answer).await {
                    Ok(outcome) => return outcome,
                    Err(why) => why,
                },
                Err(fault) => fault.words(),
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
        tool: &Tool,
        answer: Answer,
    ) -> Result<CheckOutcome, String> {
        let said = said(&answer);
        match meaning(tool, answer.status, said.code()) {
            Meaning::Retryable | Meaning::Unknown => return Err(said.in_words(answer.status)),
            Meaning::Declined => {
                return Ok(CheckOutcome::Unreadable {
                    why: said.in_words(answer.status),
                });
            }
            Meaning::Landed => {}
        }
        let inspected = inspect(tool, &self.inner.schemas, answer.body.as_deref());
        let unusable = |class: &str, why: &str| CheckOutcome::Unreadable {
            why: format!("{class}: {why}"),
        };
        Ok(match inspected.check {
            ResultCheck::OutputInvalid => unusable("output_invalid", &inspected.why),
            ResultCheck::OutputTooLarge => unusable("output_too_large", &inspected.why),
            ResultCheck::Ok => {
                let record = &*self.inner.record;
                match record::keep(record, &request.tenant, inspected.value).await {
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
