//! What of an answer is kept, and how: without what the contract takes out of it, in the event or as a blob, a bad result apart.

use coppice_messages::{
    Payload, Value,
    event::effect::{Receipt, ResultCheck},
    ids::TenantId,
};
use coppice_topology::tool::Tool;

use super::{ToolBroker, answer::Inspected};
use crate::record::{self, Apart, TooLarge};

/// What stands where something was taken out.
const REDACTED: &str = "[redacted]";

/// Takes out what the contract says is never kept. What is not there is not missed.
pub(super) fn redacted(tool: &Tool, mut value: Value) -> Value {
    let pointers = tool.data.iter().flat_map(|data| &data.redact);
    for pointer in pointers {
        if let Some(place) = place(&mut value, pointer) {
            *place = Value::from(REDACTED);
        }
    }
    value
}

fn place<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Value> {
    let mut steps = pointer.strip_prefix('/')?.split('/');
    steps.try_fold(value, |value, step| match value {
        Value::Map(map) => map.get_mut(&step.replace("~1", "/").replace("~0", "~")),
        Value::List(list) => list.get_mut(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => None,
    })
}

impl ToolBroker {
    /// Keeps a value of a tool: sensitive ones out of the event.
    pub(super) async fn keep(
        &self,
        tenant: &TenantId,
        tool: &Tool,
        value: Value,
    ) -> Result<Payload, TooLarge> {
        let apart = if tool.is_sensitive() {
            Apart::Always
        } else {
            Apart::WhenLarge
        };
        record::keep(&*self.inner.record, tenant, value, apart).await
    }

    /// Keeps a result. A bad one is put into quarantine: a blob under the digest of the receipt, which no event cites as a value and nothing
    /// reads by itself.
    pub(super) async fn kept(
        &self,
        tenant: &TenantId,
        tool: &Tool,
        inspected: Inspected,
    ) -> (Receipt, ResultCheck, Payload) {
        let Inspected {
            receipt,
            check,
            value,
            bad,
            why,
        } = inspected;
        if check != ResultCheck::Ok {
            tracing::warn!(tool = %tool.tool, ?check, why, "a tool's result cannot be used");
        }
        if let Some(bad) = bad {
            record::keep_bytes(&*self.inner.record, tenant, bad).await;
        }
        match self.keep(tenant, tool, value).await {
            Ok(value) => (receipt, check, value),
            Err(too_large) => {
                tracing::warn!(tool = %tool.tool, %too_large, "a tool's result cannot be kept");
                let nothing = Payload::Inline(Value::Null);
                (receipt, ResultCheck::OutputTooLarge, nothing)
            }
        }
    }
}
