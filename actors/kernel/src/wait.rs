//! Durable waits: timers, signals, callbacks. What came before the wait is kept; what came twice is one.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::{
    Event, Payload, Timestamp,
    event::{
        callback::{self, Absorbed, Received, Signal},
        node::Outcome,
        timer::{self, Due, Set},
    },
    ids::{EffectKey, NodeName},
};
use coppice_topology::{
    node::{Kind, WaitFor},
    plan::Progress,
};
use serde::Serialize;

use crate::{
    command::Refusal,
    limits::{CALLBACKS_MAX, SIGNALS_MAX},
    state::{State, Turn},
};

/// What the run waits for, and what came.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Waits {
    timers: BTreeMap<NodeName, Timestamp>,
    /// Signals that no wait has taken, in the order in which they came.
    signals: Vec<Signal>,
    signal_ids: BTreeSet<String>,
    taken: BTreeMap<NodeName, Payload>,
    /// First callback of each operation.
    callbacks: BTreeMap<EffectKey, Payload>,
    callback_ids: BTreeSet<(EffectKey, String)>,
    /// Callbacks that are recorded, repetitions included. Left out of the state's hash while there is none: the state of a run without callbacks
    /// is what it was before they were counted.
    #[serde(skip_serializing_if = "is_zero")]
    callbacks_recorded: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Waits {
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.timers.values().min().copied()
    }

    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.timers.remove(node);
        self.taken.remove(node);
    }

    fn signal(&self, name: &str) -> Option<&Signal> {
        self.signals.iter().find(|signal| signal.name == name)
    }
}

impl State {
    pub(crate) fn advance_wait(
        &self,
        node: &NodeName,
        wait: &WaitFor,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        let came = match wait {
            WaitFor::Timer(_) => false,
            WaitFor::Signal(signal) => self.waits.signal(&signal.name).is_some(),
            WaitFor::Callback(callback) => self.callback_of(&callback.of).is_some(),
        };
        if came || self.is_never_called(wait) {
            return vec![self.done(node, None)];
        }
        let visit = self.nodes.visit(node);
        match (self.waits.timers.get(node), wait.longest()) {
            (None, Some(span)) => {
                let due = turn.now.plus(span);
                vec![Event::Timer(timer::Event::Set(Set {
                    node: node.clone(),
                    visit,
                    due,
                }))]
            }
            (Some(due), _) if *due <= turn.now => {
                let seen = Event::Timer(timer::Event::Due(Due {
                    node: node.clone(),
                    visit,
                }));
                let end = match wait {
                    WaitFor::Timer(_) => self.done(node, None),
                    WaitFor::Signal(_) | WaitFor::Callback(_) => self.failed(
                        node,
                        "wait_timeout",
                        "what the run waits for did not come in time",
                    ),
                };
                vec![seen, end]
            }
            (Some(_) | None, _) => Vec::new(),
        }
    }

    /// Whether the operation was not made: its node was skipped, so nobody will ever call back about it and there is nothing to wait for.
    fn is_never_called(&self, wait: &WaitFor) -> bool {
        match wait {
            WaitFor::Timer(_) | WaitFor::Signal(_) => false,
            WaitFor::Callback(callback) => self.nodes.progress(&callback.of) == Progress::Skipped,
        }
    }

    fn callback_of(&self, call: &NodeName) -> Option<&Payload> {
        self.waits.callbacks.get(self.nodes.effect(call)?)
    }

    /// What a wait that is over brought.
    pub(crate) fn waited_for(&self, node: &NodeName, wait: &WaitFor) -> Option<&Payload> {
        match wait {
            WaitFor::Timer(_) => None,
            WaitFor::Signal(_) => self.waits.taken.get(node),
            WaitFor::Callback(callback) => self.callback_of(&callback.of),
        }
    }

    /// Whatever ended a node, its timer is over, or it would fall due for nobody. A wait for a signal that is done takes the oldest one of its
    /// name.
    pub(crate) fn end_wait(&mut self, node: &NodeName, outcome: &Outcome) {
        self.waits.timers.remove(node);
        let Some(Kind::Wait(WaitFor::Signal(wanted))) = self.kind(node) else {
            return;
        };
        let named = |signal: &Signal| signal.name == wanted.name;
        if *outcome == Outcome::Done
            && let Some(at) = self.waits.signals.iter().position(named)
        {
            let signal = self.waits.signals.remove(at);
            self.waits.taken.insert(node.clone(), signal.value);
        }
    }

    pub(crate) fn decide_signal(&self, signal: Signal) -> Result<Vec<Event>, Refusal> {
        if self.waits.signal_ids.contains(&signal.id) {
            return Ok(Vec::new());
        }
        if self.waits.signals.len() >= SIGNALS_MAX {
            return Err(Refusal::TooManySignals);
        }
        Ok(vec![Event::Callback(callback::Event::Signal(signal))])
    }

    /// One callback of each operation counts, while the run lives; every other is absorbed. What an operation's outcome is, a callback does not
    /// say: it is untrusted data, and a doubt is for the look-up to settle.
    pub(crate) fn decide_callback(&self, received: Received) -> Result<Vec<Event>, Refusal> {
        if self.effects.get(&received.key).is_none() {
            return Err(Refusal::NotOpen(format!("operation {:?}", received.key)));
        }
        let Received { key, ref id, .. } = received;
        let seen = self.waits.callback_ids.contains(&(key, id.clone()));
        if self.waits.callbacks_recorded >= CALLBACKS_MAX {
            // Recorded since long; who repeats it is answered all the same.
            return if seen {
                Ok(Vec::new())
            } else {
                Err(Refusal::TooManyCallbacks)
            };
        }
        let why = if seen {
            Some("the same callback came before".to_owned())
        } else if let Some(ended) = self.ended() {
            Some(format!("the run had ended ({})", ended.reason))
        } else if self.waits.callbacks.contains_key(&key) {
            Some("another callback of this operation came before".to_owned())
        } else {
            None
        };
        Ok(vec![Event::Callback(match why {
            Some(why) => callback::Event::Absorbed(Absorbed {
                key,
                id: id.clone(),
                why,
            }),
            None => callback::Event::Received(received),
        })])
    }

    pub(crate) fn evolve_timer(&mut self, event: &timer::Event) {
        match event {
            timer::Event::Set(set) => self.waits.timers.insert(set.node.clone(), set.due),
            timer::Event::Due(due) => self.waits.timers.remove(&due.node),
        };
    }

    pub(crate) fn evolve_callback(&mut self, event: &callback::Event) {
        match event {
            callback::Event::Received(received) => {
                self.waits.callbacks_recorded += 1;
                self.waits
                    .callback_ids
                    .insert((received.key, received.id.clone()));
                self.waits
                    .callbacks
                    .insert(received.key, received.value.clone());
            }
            callback::Event::Absorbed(absorbed) => {
                self.waits.callbacks_recorded += 1;
                self.waits
                    .callback_ids
                    .insert((absorbed.key, absorbed.id.clone()));
            }
            callback::Event::Signal(signal) => {
                self.waits.signal_ids.insert(signal.id.clone());
                self.waits.signals.push(signal.clone());
            }
        }
    }
}
