//! The simulated outside: it does what it is asked, counts what it did by key, and is the witness at the end.

use std::{collections::BTreeMap, sync::Arc};

use coppice_messages::{
    Digest, Operation, Payload, Value,
    event::effect::{Intended, Receipt},
    ids::{EffectKey, ToolName},
};

/// A request on its way to the desk.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub intended: Arc<Intended>,
    /// Which sending of the host's broker it is.
    pub sending: u64,
    pub answer: Answer,
    /// The reply does not come back.
    pub mute: bool,
}

/// What the desk is going to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It does it.
    Done,
    /// It refuses for now and does nothing.
    Later,
    /// It refuses.
    No,
}

/// What was done under one key.
#[derive(Debug, Clone)]
struct Work {
    tool: ToolName,
    request: Option<String>,
    times: u32,
}

/// The desk.
#[derive(Debug)]
pub(super) struct Desk {
    /// It honours keys.
    dedupe: bool,
    done: BTreeMap<EffectKey, Work>,
}

impl Desk {
    /// A desk that has done nothing yet; whether it honours keys.
    pub fn new(dedupe: bool) -> Self {
        Self {
            dedupe,
            done: BTreeMap::new(),
        }
    }

    /// Does what is asked, if it is a write; under a key that it knows and honours it does nothing further.
    pub fn work(&mut self, intended: &Intended) {
        if intended.operation == Operation::Read {
            return;
        }
        let request = match &intended.arguments {
            Payload::Inline(arguments) => arguments.at("/request_id").and_then(Value::as_text),
            Payload::Blob { .. } => None,
        };
        let work = self.done.entry(intended.key).or_insert_with(|| Work {
            tool: intended.tool.clone(),
            request: request.map(str::to_owned),
            times: 0,
        });
        if work.times == 0 || !self.dedupe {
            work.times += 1;
        }
    }

    /// Whether something was done under the key.
    pub fn has(&self, key: &EffectKey) -> bool {
        self.done.contains_key(key)
    }

    /// Keys under which something was done, and how often.
    pub fn counts(&self) -> impl Iterator<Item = (&EffectKey, u32)> {
        self.done.iter().map(|(key, work)| (key, work.times))
    }

    /// How many tickets a request has led to.
    pub fn tickets_of(&self, request: &str) -> u32 {
        self.done
            .values()
            .filter(|work| work.tool.as_str() == "create_ticket")
            .filter(|work| work.request.as_deref() == Some(request))
            .map(|work| work.times)
            .sum()
    }
}

/// The proof that the desk gives.
pub(super) fn receipt(key: &EffectKey) -> Receipt {
    Receipt {
        id: Some(format!("desk-{}", key.0.hex_prefix(8))),
        version: None,
        result: Digest::ZERO,
    }
}

/// The result that the desk gives.
pub(super) fn result(intended: &Intended) -> Value {
    Value::map([
        (
            "id",
            Value::Text(format!("desk-{}", intended.key.0.hex_prefix(8))),
        ),
        ("version", Value::Int(1)),
        ("severity", Value::from("high")),
    ])
}
