//! Finding out by key what became of an effect. It never sends the effect.
//!
//! "Not found" counts as "did not happen" only when the contract says that absence is final, and only in an answer to a question asked later
//! than `send_by`, the call's timeout and `settles_within` together: until then the effect may still be on its way. That time is waited for
//! on both clocks, so that a clock set forward while it is waited for does not shorten it. A call of a function that was intended by a process
//! which is gone is over: for it `settles_within` alone is waited for.

use std::time::Duration;

use coppice_kernel::{command::EffectOutcome, limits::SEND_WITHIN_MS};
use coppice_messages::{Millis, Timestamp, Value, event::effect::Source};
use coppice_store::clock::{self, Mono};
use coppice_topology::{
    expr,
    tool::{Absence, Lookup, Tool, Transport},
};

use super::{
    SendRequest, ToolBroker,
    answer::{Inspected, inspect_value},
    in_process::NoAnswer,
    leave::Kept,
    outgoing::Asking,
    probe::Look,
    request,
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

/// From when on it counts that a look-up does not show the effect.
enum Settling {
    /// Until then it may be on its way; on both clocks.
    OnItsWay { wall: Timestamp, mono: Mono },
    /// It was a call in a process that is gone: only what a call leaves behind can still come.
    Here { since: Mono, within: Duration },
}

impl Settling {
    /// How long it is until then; zero from then on.
    fn left(&mut self, under_way: bool) -> Duration {
        match self {
            Self::OnItsWay { wall, mono } => {
                let left = *mono - clock::mono();
                if clock::now() > *wall && left.is_zero() {
                    return Duration::ZERO;
                }
                let wall = Duration::from_millis(wall.since(clock::now()).0);
                // A millisecond more: the times compared above are finer than these.
                wall.max(left) + Duration::from_millis(1)
            }
            Self::Here { since, within } if under_way => {
                *since = clock::mono();
                ASK_AGAIN_FIRST.max(*within)
            }
            Self::Here { since, within } => (*since + *within) - clock::mono(),
        }
    }
}

impl ToolBroker {
    /// Asks until the tool knows, however long that takes: who asks gives up at the run's deadline.
    pub(super) async fn look_up(&self, request: &SendRequest, tool: &Tool) -> EffectOutcome {
        let useless = |why: String| EffectOutcome::Unresolvable { why };
        let Some(absence) = tool.absence() else {
            return useless(format!("{} has no look-up by key", tool.tool));
        };
        let mut settling = self.settling(request, tool, absence);
        let mut silent = 0;
        loop {
            // The question must be asked after that time, not only answered.
            let left = settling.left(self.is_under_way(request));
            let seen = self.ask(request, tool).await;
            let pause = match seen {
                Seen::Landed(inspected) => return self.found(request, tool, inspected).await,
                Seen::Useless(why) => return useless(why),
                Seen::Absent if left.is_zero() && absence.is_final => {
                    return EffectOutcome::Reconciled {
                        landed: None,
                        source: Source::Lookup,
                    };
                }
                Seen::Absent if left.is_zero() => {
                    return useless(format!(
                        "{} does not show the effect, and its contract does not say that what is absent will stay absent",
                        tool.tool
                    ));
                }
                Seen::Absent => {
                    silent = 0;
                    left
                }
                Seen::Silent(why) => {
                    tracing::debug!(tool = %tool.tool, key = %request.intended.key, why, "a look-up got no answer");
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

    /// From when on it counts that the look-up does not show the effect.
    fn settling(&self, request: &SendRequest, tool: &Tool, absence: Absence) -> Settling {
        let within = absence.settles_within;
        if matches!(tool.transport, Transport::InProcess(_)) && self.is_older(request) {
            return Settling::Here {
                since: clock::mono(),
                within: Duration::from_millis(within.0),
            };
        }
        let after = Millis(tool.timeout().0.saturating_add(within.0));
        let wall = request.intended.send_by.plus(after);
        let longest = after.0.saturating_add(SEND_WITHIN_MS);
        let left = wall.since(clock::now()).0.min(longest);
        Settling::OnItsWay {
            wall,
            mono: clock::mono() + Duration::from_millis(left),
        }
    }

    /// Whether the effect was intended by a process that is gone.
    fn is_older(&self, request: &SendRequest) -> bool {
        let (key, attempt) = (&request.intended.key, request.intended.attempt);
        let record = &self.inner.record;
        record
            .intent_pos(&request.tenant, &request.run, key, attempt)
            .is_some_and(|pos| pos <= self.inner.begins_at)
    }

    /// Whether a request with this key, of whichever run, is under way in this host.
    fn is_under_way(&self, request: &SendRequest) -> bool {
        let key = (request.tenant.clone(), request.intended.key);
        self.inner.flights.is_under_way(&key)
    }

    async fn ask(&self, request: &SendRequest, tool: &Tool) -> Seen {
        let intended = &request.intended;
        let record = &*self.inner.record;
        let Some(arguments) = record::resolve(record, &request.tenant, &intended.arguments) else {
            return Seen::Useless("the arguments of the intent are not in the log".to_owned());
        };
        let asking = Asking {
            tenant: &request.tenant,
            run: &request.run,
            key: Some(intended.key),
            arguments: &arguments,
            receipt: None,
            trace: request.trace.as_deref(),
        };
        match &tool.transport {
            Transport::Http(http) => match &http.lookup_by_key {
                Some(lookup) => self.ask_over_http(tool, lookup, asking).await,
                None => Seen::Useless(format!("{} has no look-up by key", tool.tool)),
            },
            Transport::InProcess(_) => self.ask_function(tool, asking).await,
        }
    }

    async fn ask_function(&self, tool: &Tool, asking: Asking<'_>) -> Seen {
        let prepared = match self.inner.prepared(tool, asking) {
            Ok(prepared) => prepared,
            Err(why) => return Seen::Useless(why),
        };
        let _place = self.inner.lanes.enter_host().await;
        match prepared.look_up().await {
            Ok(Some(value)) => Seen::Landed(inspect_value(tool, &self.inner.schemas, value)),
            Ok(None) => Seen::Absent,
            Err(NoAnswer(why)) => Seen::Silent(why),
        }
    }

    async fn ask_over_http(&self, tool: &Tool, lookup: &Lookup, asking: Asking<'_>) -> Seen {
        let most = tool.result_bytes_max().0.saturating_add(LOOKUP_FRAME_BYTES);
        let look = Look {
            method: lookup.method,
            url: &lookup.url,
        };
        let mut asked = match request::read(tool, look, self.inner.filling(asking), most) {
            Ok(asked) => asked,
            Err(unsendable) => return Seen::Useless(unsendable.to_string()),
        };
        let _place = self.inner.lanes.enter_host().await;
        if let Err(kept) = self.inner.dress(tool, &mut asked).await {
            return match kept {
                Kept::Never(why) => Seen::Useless(why),
                Kept::NotNow(why) => Seen::Silent(why),
            };
        }
        let exchanged = self.inner.transport.read(asked).await;
        self.see(tool, lookup, exchanged, asking.arguments)
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
