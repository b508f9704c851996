//! Looking at the world around an effect: what must hold before it is sent, and whether it is there afterwards.
//!
//! A look changes nothing, so an answer that is lost is asked for again. What a look cannot tell is said as such and never taken for a yes.

use std::time::Duration;

use coppice_kernel::command::ProbeOutcome;
use coppice_messages::{Value, event::effect::Receipt};
use coppice_store::clock::{self, Mono};
use coppice_topology::{
    expr::{Scope, Source},
    tool::{Method, Probe, Tool},
};

use super::{
    SendRequest, ToolBroker, kept::redacted, leave::Kept, moment::Withheld, outgoing::Asking,
    pinned, request,
};
use crate::{
    limits::{ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST},
    record,
    schema::cut,
};

/// What one look shows.
pub(super) enum Looked {
    /// The answer.
    Body(Value),
    /// That there is nothing at this address.
    Nothing(String),
    /// Nothing: ask again.
    Silent(String),
    /// Looking does not help.
    Useless(String),
}

/// What is looked at.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) method: Method,
    pub(super) url: &'a str,
}

impl<'a> From<&'a Probe> for Look<'a> {
    fn from(probe: &'a Probe) -> Self {
        Self {
            method: probe.method,
            url: &probe.url,
        }
    }
}

/// Whether a condition on the world holds; if not, what is wanted and what is there.
pub(super) fn held(
    probe: &Probe,
    body: &Value,
    asking: Asking<'_>,
) -> Result<(), (String, String)> {
    let scope = scope(Some(body), asking);
    if probe.expect.holds(&scope) {
        return Ok(());
    }
    let compared = probe.expect.expected_and_seen(&scope);
    let (wanted, seen) =
        compared.unwrap_or_else(|| ("what the contract declares".to_owned(), body.to_string()));
    Err((cut(&wanted), cut(&seen)))
}

fn scope<'a>(body: Option<&'a Value>, asking: Asking<'a>) -> impl Scope + 'a {
    move |source: &Source| match source {
        Source::Body => body.cloned(),
        Source::Arguments => Some(asking.arguments.clone()),
        Source::Receipt => asking.receipt.map(value_of),
        Source::Input | Source::Item | Source::Node(_) | Source::Check => None,
    }
}

/// A receipt as conditions and templates see it.
fn value_of(receipt: &Receipt) -> Value {
    let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    Value::map([
        ("id", text(&receipt.id)),
        ("version", text(&receipt.version)),
    ])
}

impl ToolBroker {
    /// Looks whether the world shows an effect that its tool said it did. What is not there yet is waited for as long as the contract says that
    /// may take; who asks gives up at the run's deadline.
    pub async fn probe(&self, request: SendRequest, receipt: Receipt) -> ProbeOutcome {
        let unreadable = |why: String| ProbeOutcome::Unreadable { why };
        let tool = match pinned(&request.plan, &request.intended) {
            Ok(tool) => &tool.contract,
            Err(why) => return unreadable(why),
        };
        let Some(postcondition) = &tool.postcondition else {
            return unreadable(format!("{} has no postcondition", tool.tool));
        };
        let arguments = &request.intended.arguments;
        let arguments = record::resolve(&*self.inner.record, &request.tenant, arguments);
        let Some(arguments) = arguments else {
            return unreadable("the arguments of the intent are not in the log".to_owned());
        };
        let asking = Asking {
            tenant: &request.tenant,
            run: &request.run,
            key: Some(request.intended.key),
            arguments: &arguments,
            receipt: Some(&receipt),
            trace: request.trace.as_deref(),
        };
        let until = clock::mono() + Duration::from_millis(tool.shows_within().0);
        let mut attempt = 0;
        loop {
            // The question must be asked after that time, not only answered.
            let left = until - clock::mono();
            let not_shown = match self.look(tool, postcondition.into(), asking).await {
                Looked::Body(body) => match held(postcondition, &body, asking) {
                    Ok(()) => return self.shown(&request, tool, body).await,
                    Err(not_shown) => Some(not_shown),
                },
                Looked::Nothing(seen) => {
                    let compared = postcondition.expect.expected_and_seen(&scope(None, asking));
                    let wanted = compared.map_or("an answer".to_owned(), |(wanted, _)| wanted);
                    Some((cut(&wanted), seen))
                }
                Looked::Silent(why) => {
                    tracing::debug!(tool = %tool.tool, why, "a postcondition got no answer");
                    None
                }
                Looked::Useless(why) => return unreadable(why),
            };
            let pause = clock::backoff(attempt, ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST);
            let pause = match not_shown {
                Some((expected, seen)) if left.is_zero() => {
                    return ProbeOutcome::Contradicted { expected, seen };
                }
                Some(_) => pause.min(left),
                None => pause,
            };
            clock::pause(pause).await;
            attempt += 1;
        }
    }

    /// What must hold of the world at the moment of use; else nothing is sent.
    pub(super) async fn look_before(
        &self,
        tool: &Tool,
        asking: Asking<'_>,
        latest: Mono,
    ) -> Result<(), Withheld> {
        let Some(precondition) = &tool.precondition else {
            return Ok(());
        };
        let withdrawn = |why: String| Err(Withheld::Withdrawn(format!("precondition: {why}")));
        let wanted = || {
            let compared = precondition.expect.expected_and_seen(&scope(None, asking));
            compared.map_or("an answer".to_owned(), |(wanted, _)| cut(&wanted))
        };
        match self
            .look_until(tool, precondition.into(), asking, latest)
            .await
        {
            Looked::Body(body) => match held(precondition, &body, asking) {
                Ok(()) => Ok(()),
                Err((wanted, found)) => withdrawn(format!("expected {wanted}, found {found}")),
            },
            Looked::Nothing(found) => withdrawn(format!("expected {}, found {found}", wanted())),
            Looked::Useless(why) => withdrawn(format!("it cannot be read: {why}")),
            Looked::Silent(why) => {
                let why = format!("precondition: it could not be read in time: {why}");
                Err(Withheld::NotSent(why))
            }
        }
    }

    /// Looks again and again until there is an answer or it is too late to send.
    pub(super) async fn look_until(
        &self,
        tool: &Tool,
        look: Look<'_>,
        asking: Asking<'_>,
        latest: Mono,
    ) -> Looked {
        let mut attempt = 0;
        loop {
            let left = latest - clock::mono();
            let looked = tokio::select! {
                looked = self.look(tool, look, asking) => looked,
                () = clock::pause(left) => Looked::Silent("no answer".to_owned()),
            };
            let pause = clock::backoff(attempt, ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST);
            if !matches!(looked, Looked::Silent(_)) || clock::mono() + pause >= latest {
                return looked;
            }
            clock::pause(pause).await;
            attempt += 1;
        }
    }

    async fn shown(&self, request: &SendRequest, tool: &Tool, body: Value) -> ProbeOutcome {
        match self.keep(&request.tenant, tool, redacted(tool, body)).await {
            Ok(seen) => ProbeOutcome::Holds(seen),
            Err(too_large) => ProbeOutcome::Unreadable {
                why: too_large.to_string(),
            },
        }
    }

    /// One look.
    pub(super) async fn look(&self, tool: &Tool, look: Look<'_>, asking: Asking<'_>) -> Looked {
        let most = tool.result_bytes_max().0;
        let asked = request::read(tool, look, self.inner.filling(asking), most);
        let mut asked = match asked {
            Ok(asked) => asked,
            Err(unsendable) => return Looked::Useless(unsendable.to_string()),
        };
        let path = asked.url.path().to_owned();
        let _place = self.inner.lanes.enter_host().await;
        if let Err(kept) = self.inner.dress(tool, &mut asked).await {
            return match kept {
                Kept::Never(why) => Looked::Useless(why),
                Kept::NotNow(why) => Looked::Silent(why),
            };
        }
        let answer = match self.inner.transport.read(asked).await {
            Ok(answer) => answer,
            Err(fault) => return Looked::Silent(fault.words()),
        };
        let status = answer.status;
        match status {
            200..=299 => {}
            404 | 410 => return Looked::Nothing(format!("status {status} at {path}")),
            408 | 425 | 429 | 500..=599 => return Looked::Silent(format!("status {status}")),
            _ => return Looked::Useless(format!("{path} answers with status {status}")),
        }
        let Some(body) = answer.body else {
            return Looked::Useless(format!(
                "the answer of {path} is larger than a result may be"
            ));
        };
        match Value::parse(&body) {
            Ok(body) => Looked::Body(body),
            Err(_) => Looked::Useless(format!("the answer of {path} is no JSON data")),
        }
    }
}
