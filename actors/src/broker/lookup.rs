//! Finding out by key what became of an effect. It never sends the effect.
//!
//! "Not found" counts as "did not happen" only when the contract says that absence is final, and only in an answer to a question asked later
//! than `send_by`, the call's timeout and `settles_within` together: until then the effect may still be on its way. That time is waited for
//! on both clocks, so that a clock set forward while it is waited for does not shorten it.

use std::time::Duration;

use coppice_kernel::{command::EffectOutcome, limits::SEND_WITHIN_MS};
use coppice_messages::{Millis, Value, event::effect::Source};
use coppice_store::clock;
use coppice_topology::{
    expr,
    tool::{Lookup, Tool},
};

use super::{
    SendRequest, ToolBroker,
    answer::{Inspected, inspect_value},
    request::{self, Filling},
    transport::{Answer, Fault},
};
use crate::{
    limits::{ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST, LOOKUP_FRAME_BYTES},
    record,
};

/// What one look-up says.
enum Seen {
    Landed(Inspected),
    Absent,
    /// Nothing about the effect: ask again.
    Silent(String),
    /// Looking up does not help.
    Useless(String),
}

impl ToolBroker {
    /// Asks until the tool knows, however long that takes: who asks gives up at the run's deadline.
    pub(super) async fn look_up(&self, request: &SendRequest, tool: &Tool) -> EffectOutcome {
        let useless = |why: String| EffectOutcome::Unresolvable { why };
        let Some(lookup) = &tool.http.lookup_by_key else {
            return useless(format!("{} has no look-up by key", tool.tool));
        };
        let intended = &request.intended;
        let settled_at = intended.send_by.plus(settling(tool, lookup));
        let left = settled_at.since(clock::now()).0;
        let longest = settling(tool, lookup).0.saturating_add(SEND_WITHIN_MS);
        let settled = clock::mono() + Duration::from_millis(left.min(longest));
        let mut silent = 0;
        loop {
            // The question must be asked after that time, not only answered.
            let is_settled = clock::now() > settled_at && (settled - clock::mono()).is_zero();
            let seen = self.ask(request, tool, lookup).await;
            let pause = match seen {
                Seen::Landed(inspected) => return self.found(request, tool, inspected).await,
                Seen::Useless(why) => return useless(why),
                Seen::Absent if is_settled && lookup.absent_is_final => {
                    return EffectOutcome::Reconciled {
                        landed: None,
                        source: Source::Lookup,
                    };
                }
                Seen::Absent if is_settled => {
                    return useless(format!(
                        "{} does not show the effect, and its contract does not say that what is absent will stay absent",
                        tool.tool
                    ));
                }
                Seen::Absent => {
                    silent = 0;
                    let wall = Duration::from_millis(settled_at.since(clock::now()).0);
                    // A millisecond more: the times compared above are finer than these.
                    wall.max(settled - clock::mono()) + Duration::from_millis(1)
                }
                Seen::Silent(why) => {
                    tracing::debug!(tool = %tool.tool, key = %intended.key, why, "a look-up got no answer");
                    silent += 1;
                    clock::backoff(silent - 1, ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST)
                }
            };
            clock::pause(pause).await;
        }
    }

    async fn found(
        &self,
        request: &SendRequest,
        tool: &Tool,
        inspected: Inspected,
    ) -> EffectOutcome {
        let landed = self.kept(&request.tenant, tool, inspected).await;
        EffectOutcome::Reconciled {
            landed: Some(landed),
            source: Source::Lookup,
        }
    }

    async fn ask(&self, request: &SendRequest, tool: &Tool, lookup: &Lookup) -> Seen {
        let intended = &request.intended;
        let record = &*self.inner.record;
        let Some(arguments) = record::resolve(record, &request.tenant, &intended.arguments) else {
            return Seen::Useless("the arguments of the intent are not in the log".to_owned());
        };
        let filling = Filling {
            endpoints: &self.inner.endpoints,
            tenant: &request.tenant,
            key: Some(intended.key),
            trace: request.trace.as_deref(),
            arguments: &arguments,
        };
        let most = tool
            .http
            .request
            .max_bytes
            .0
            .saturating_add(LOOKUP_FRAME_BYTES);
        let asked = match request::lookup(tool, lookup, filling, most) {
            Ok(asked) => asked,
            Err(unsendable) => return Seen::Useless(unsendable.to_string()),
        };
        let _place = self.inner.lanes.enter_host().await;
        let exchanged = self.inner.transport.read(asked).await;
        self.see(tool, lookup, exchanged, &arguments)
    }

    fn see(
        &self,
        tool: &Tool,
        lookup: &Lookup,
        exchanged: Result<Answer, Fault>,
        arguments: &Value,
    ) -> Seen {
        let answer = match exchanged {
            Ok(answer) => answer,
            Err(fault) => return Seen::Silent(fault.words()),
        };
        let status = answer.status;
        match status {
            200..=299 => {}
            408 | 425 | 429 | 500..=599 => return Seen::Silent(format!("status {status}")),
            // Also 404: that there is no look-up, or not here, says nothing about the effect.
            _ => {
                return Seen::Useless(format!(
                    "the look-up of {} answers with status {status}, which says nothing about the effect",
                    tool.tool
                ));
            }
        }
        let unusable = |why: &str| {
            let tool = &tool.tool;
            Seen::Useless(format!("the look-up of {tool} gives an answer {why}"))
        };
        let Some(body) = answer.body else {
            return unusable("that is larger than a result may be");
        };
        let Ok(body) = Value::parse(&body) else {
            return unusable("that is no JSON data");
        };
        let scope = |source: &expr::Source| match source {
            expr::Source::Body => Some(body.clone()),
            expr::Source::Arguments => Some(arguments.clone()),
            _ => None,
        };
        if !lookup.found.holds(&scope) {
            return Seen::Absent;
        }
        let result = body.at(&lookup.result).cloned().unwrap_or_default();
        Seen::Landed(inspect_value(tool, &self.inner.schemas, result))
    }
}

fn settling(tool: &Tool, lookup: &Lookup) -> Millis {
    let timeout = tool.http.request.timeout.0;
    Millis(timeout.saturating_add(lookup.settles_within.0))
}
