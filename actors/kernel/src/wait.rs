//! Durable waits: a timer is set once with an absolute due time, and once seen to be due it is due.

use std::collections::BTreeMap;

use coppice_messages::{
    Event, Timestamp,
    event::timer::{self, Due, Set},
    ids::NodeName,
};
use coppice_topology::node::WaitFor;
use serde::Serialize;

use crate::{
    progress::done,
    state::{State, Turn},
};

/// When the nodes that wait for a time are due.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Waits(BTreeMap<NodeName, Timestamp>);

impl Waits {
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.0.values().min().copied()
    }
}

impl State {
    pub(crate) fn advance_wait(
        &self,
        node: &NodeName,
        wait: &WaitFor,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        let WaitFor::Timer(span) = wait;
        let node_of = || node.clone();
        match self.waits.0.get(node) {
            None => vec![Event::Timer(timer::Event::Set(Set {
                node: node_of(),
                visit: 1,
                due: turn.now.plus(*span),
            }))],
            Some(due) if *due <= turn.now => {
                vec![
                    Event::Timer(timer::Event::Due(Due {
                        node: node_of(),
                        visit: 1,
                    })),
                    done(node, None),
                ]
            }
            Some(_) => Vec::new(),
        }
    }

    pub(crate) fn evolve_timer(&mut self, event: &timer::Event) {
        match event {
            timer::Event::Set(set) => self.waits.0.insert(set.node.clone(), set.due),
            timer::Event::Due(due) => self.waits.0.remove(&due.node),
        };
    }
}
