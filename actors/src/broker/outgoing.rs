//! One exchange with a tool, whichever way it is called, up to what its answer means.

use std::sync::Arc;

use coppice_messages::{
    Spent, Value,
    event::effect::Receipt,
    ids::{EffectKey, RunId, TenantId},
};
use coppice_topology::tool::{Tool, Transport};

use super::{
    Inner,
    answer::{self, Verdict},
    in_process::{Prepared, ToolCall},
    moment::{Moment, Withheld},
    request::{self, Filling},
    target::Target,
    transport::{self, Fault},
};

/// For whom, and about what.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) run: &'a RunId,
    /// None in a check that only reads.
    pub(super) key: Option<EffectKey>,
    pub(super) arguments: &'a Value,
    /// Once it was done.
    pub(super) receipt: Option<&'a Receipt>,
    pub(super) trace: Option<&'a str>,
}

/// What leaves, ready.
pub(super) enum Outgoing {
    Http(transport::Request),
    InProcess(Prepared),
}

impl Outgoing {
    /// Tells the tool what it is called about and in which version that was seen, so that it refuses what has changed meanwhile.
    pub(super) fn bind(&mut self, target: &Target) {
        if let Self::Http(request) = self {
            target.write(&mut request.headers);
        }
    }
}

impl Inner {
    /// The call that leaves, made of what the contract and the log hold.
    pub(super) fn outgoing(&self, tool: &Tool, asking: Asking<'_>) -> Result<Outgoing, String> {
        match &tool.transport {
            Transport::Http(http) => request::call(tool, http, self.filling(asking))
                .map(Outgoing::Http)
                .map_err(|unsendable| unsendable.to_string()),
            Transport::InProcess(_) => self.prepared(tool, asking).map(Outgoing::InProcess),
        }
    }

    pub(super) fn filling<'a>(&'a self, asking: Asking<'a>) -> Filling<'a> {
        Filling {
            endpoints: &self.endpoints,
            tenant: asking.tenant,
            run: asking.run,
            key: asking.key,
            trace: asking.trace,
            arguments: asking.arguments,
            receipt: asking.receipt,
        }
    }

    /// A call of the function that the tool is.
    pub(super) fn prepared(&self, tool: &Tool, asking: Asking<'_>) -> Result<Prepared, String> {
        let Transport::InProcess(needed) = &tool.transport else {
            return Err(format!("{} is no function of this host", tool.tool));
        };
        let function = self.tools.of(&tool.tool, needed);
        Ok(Prepared {
            function: function.map_err(|missing| missing.to_string())?,
            call: ToolCall {
                tenant: asking.tenant.clone(),
                run: asking.run.clone(),
                key: asking.key,
                arguments: asking.arguments.clone(),
                trace: asking.trace.map(str::to_owned),
            },
            timeout: needed.timeout,
        })
    }

    /// Makes the call and says what its answer means and what it used, of what was reserved. A write is bound to the moment of its use.
    pub(super) async fn exchange(
        &self,
        tool: &Tool,
        outgoing: Outgoing,
        moment: &Arc<Moment>,
        reserved: &Spent,
    ) -> (Verdict, Spent) {
        match outgoing {
            Outgoing::Http(mut request) => {
                if let Err(kept) = self.dress(tool, &mut request).await {
                    let usage = answer::usage(tool.operation, 0, reserved);
                    return (Verdict::Not(Withheld::from(kept).into()), usage);
                }
                let sent = request.bytes();
                let exchanged = if tool.is_read() {
                    self.transport.read(request).await
                } else {
                    self.transport.write(request, moment).await
                };
                let received = exchanged.as_ref().map_or(0, |answer| answer.bytes);
                let usage = answer::usage(tool.operation, sent.saturating_add(received), reserved);
                let verdict = match (&exchanged, moment.withheld()) {
                    (Err(Fault::NoConnection(_)), Some(withheld)) => Verdict::Not(withheld.into()),
                    _ => answer::judge(tool, &self.schemas, exchanged, usage.clone()),
                };
                (verdict, usage)
            }
            Outgoing::InProcess(prepared) => {
                let usage = answer::usage(tool.operation, 0, reserved);
                // The last look: from here on the function may have done something.
                if let Err(withheld) = moment.pass() {
                    return (Verdict::Not(withheld.into()), usage);
                }
                let said = prepared.call().await;
                let verdict = answer::judge_function(tool, &self.schemas, said, usage.clone());
                (verdict, usage)
            }
        }
    }

    /// An exchange that only reads, and needs no event of its own.
    pub(super) async fn read(&self, tool: &Tool, outgoing: Outgoing) -> Verdict {
        let (schemas, usage) = (&self.schemas, Spent::default());
        match outgoing {
            Outgoing::Http(mut request) => {
                if let Err(kept) = self.dress(tool, &mut request).await {
                    return Verdict::Not(Withheld::from(kept).into());
                }
                let exchanged = self.transport.read(request).await;
                answer::judge(tool, schemas, exchanged, usage)
            }
            Outgoing::InProcess(prepared) => {
                answer::judge_function(tool, schemas, prepared.call().await, usage)
            }
        }
    }
}
