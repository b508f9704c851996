//! Scripted models: turns that are written down.
//!
//! Which turn is next is no state of this host: it is worked out anew from the recorded calls, by taking the script's turns for each of them
//! again. So a restart changes nothing, and a lost call meets the same turn.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use coppice_kernel::Turned;
use coppice_messages::{Digest, Value, event::model::Proposal};
use coppice_store::clock;
use coppice_topology::{
    expr::{Scope, Source},
    load,
    script::{Script, Turn},
};

use super::{AskRequest, Failure, Offer, Spoken};
use crate::{
    limits::SCRIPTS_KEPT,
    record::{self, Record},
};

/// Scripts as they were read, by digest; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Scripts(Arc<Mutex<HashMap<Digest, Arc<Script>>>>);

impl Scripts {
    /// The next turn of a script, after the time that it takes.
    pub(super) async fn speak(
        &self,
        record: &dyn Record,
        request: &AskRequest,
        digest: &Digest,
    ) -> Result<Spoken, Failure> {
        let script = self.get(record, request, digest)?;
        let results = resolve_results(record, request)?;
        let shown = |calls| Shown {
            input: &request.input,
            turns: &request.turns[..calls],
            results: &results[..calls],
        };
        let Some(at) = next(&script, request.turns.len(), shown) else {
            return Err(Failure::new(
                "script_exhausted",
                format!(
                    "no turn of the script {} is left for call {}",
                    script.model, request.asked.call
                ),
            ));
        };
        let turn = &script.turns[at];
        clock::pause(Duration::from_millis(turn.after.0)).await;
        Ok(Spoken {
            offer: offer(turn, at, &shown(request.turns.len())),
            tokens: turn.tokens,
        })
    }

    fn get(
        &self,
        record: &dyn Record,
        request: &AskRequest,
        digest: &Digest,
    ) -> Result<Arc<Script>, Failure> {
        // The map is whole after a panic: entries are only added or all taken away.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(digest) {
            return Ok(known.clone());
        }
        let unavailable = |message: String| Failure::new("unavailable", message);
        let route = &request.asked.route;
        let bytes = record.blob(&request.tenant, digest).ok_or_else(|| {
            unavailable(format!(
                "the script {route} of the release is not in the log"
            ))
        })?;
        let script = load::script(route, &bytes)
            .map_err(|diagnostic| unavailable(diagnostic.to_string()))?
            .value;
        let script = Arc::new(script);
        let mut all = lock();
        if all.len() >= SCRIPTS_KEPT {
            all.clear();
        }
        all.insert(*digest, script.clone());
        Ok(script)
    }
}

/// The result of each recorded call, where it has one.
fn resolve_results(
    record: &dyn Record,
    request: &AskRequest,
) -> Result<Vec<Option<Value>>, Failure> {
    let resolve = |turned: &Turned| {
        let Some(result) = &turned.result else {
            return Ok(None);
        };
        let value = record::resolve(record, &request.tenant, result);
        value.map(Some).ok_or_else(|| {
            let message = format!("the result of call {} is not in the log", turned.call);
            Failure::new("unavailable", message)
        })
    };
    request.turns.iter().map(resolve).collect()
}

/// What the model is shown before a call: the calls before it.
struct Shown<'a> {
    input: &'a Value,
    turns: &'a [Turned],
    results: &'a [Option<Value>],
}

impl Scope for Shown<'_> {
    fn value(&self, source: &Source) -> Option<Value> {
        match source {
            Source::Input | Source::Item => Some(self.input.clone()),
            Source::Arguments => {
                let call = i64::try_from(self.turns.len() + 1).ok()?;
                Some(Value::map([("call", Value::Int(call))]))
            }
            Source::Body => self.results.iter().rev().find_map(Option::clone),
            Source::Check => {
                let of_tools = self.turns.iter().zip(self.results).filter_map(called);
                let results = Value::List(of_tools.cloned().collect());
                Some(Value::map([("results", results)]))
            }
            Source::Receipt | Source::Node(_) => None,
        }
    }
}

/// The result of a call that proposed a tool call.
fn called<'a>((turned, result): (&Turned, &'a Option<Value>)) -> Option<&'a Value> {
    matches!(turned.proposal, Some(Proposal::Call { .. }))
        .then_some(result.as_ref())
        .flatten()
}

/// Which turn is taken for call number `calls`, from 0: the first whose condition holds and which has repeats left after all calls before.
fn next<'a>(script: &Script, calls: usize, shown: impl Fn(usize) -> Shown<'a>) -> Option<usize> {
    let mut left: Vec<u32> = script.turns.iter().map(|turn| turn.repeat).collect();
    let mut take = |call| {
        let shown = shown(call);
        let fits = |(at, turn): &(usize, &Turn)| {
            left[*at] > 0 && turn.when.as_ref().is_none_or(|when| when.holds(&shown))
        };
        let (at, _) = script.turns.iter().enumerate().find(fits)?;
        left[at] -= 1;
        Some(at)
    };
    for call in 0..calls {
        // A call for which nothing was left has failed, and took nothing.
        let _taken = take(call);
    }
    take(calls)
}

fn offer(turn: &Turn, at: usize, shown: &Shown<'_>) -> Result<Offer, Failure> {
    let dangling = |dangling: coppice_topology::expr::Dangling| {
        Failure::malformed(format!("turns[{at}]: {dangling}"))
    };
    let Turn {
        say,
        propose,
        delegate,
        answer,
        fail,
        ..
    } = turn;
    match (say, propose, delegate, answer, fail) {
        (Some(text), None, None, None, None) => Ok(Offer::Say(text.clone())),
        (None, Some(call), None, None, None) => Ok(Offer::Call {
            tool: call.tool.clone(),
            arguments: call.arguments.resolve(shown).map_err(dangling)?,
        }),
        (None, None, Some(wanted), None, None) => Ok(Offer::Delegate(Box::new(wanted.clone()))),
        (None, None, None, Some(answer), None) => {
            Ok(Offer::Answer(answer.resolve(shown).map_err(dangling)?))
        }
        (None, None, None, None, Some(class)) => Err(Failure::new(
            class,
            format!("turns[{at}] of the script fails"),
        )),
        _ => Err(Failure::malformed(format!(
            "turns[{at}] must have one of say, propose, delegate, answer, fail"
        ))),
    }
}
