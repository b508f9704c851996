//! How far the nodes of the plan are.

use std::collections::BTreeMap;

use coppice_messages::{
    Event, Timestamp,
    event::{
        join::SlotOutcome,
        node::{self, Ended, Outcome, Started},
    },
    ids::{EffectKey, NodeName},
};
use coppice_topology::{
    node::{Join, Kind},
    plan::Progress,
};
use serde::Serialize;

use crate::{
    duty::Duty,
    limits::NODES_ENDED_AT_ONCE,
    state::{Meta, State, Turn},
};

/// How far each node is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Nodes {
    now: BTreeMap<NodeName, NodeState>,
    /// Visits of the nodes that wait for their next round.
    before: BTreeMap<NodeName, u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct NodeState {
    visit: u32,
    started_at: Timestamp,
    outcome: Option<Outcome>,
    effect: Option<EffectKey>,
    /// Of a join of its own that is decided: what became of each branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    joined: Option<Vec<SlotOutcome>>,
}

impl Nodes {
    pub(crate) fn progress(&self, node: &NodeName) -> Progress {
        match self.now.get(node).map(|node| &node.outcome) {
            None => Progress::Waiting,
            Some(None) => Progress::Started,
            Some(Some(Outcome::Done)) => Progress::Done,
            Some(Some(Outcome::Failed { .. })) => Progress::Failed,
            Some(Some(Outcome::Skipped)) => Progress::Skipped,
            // Taken back in the same step in which it is recorded.
            Some(Some(Outcome::Repeated)) => Progress::Waiting,
        }
    }

    /// Which visit the node is at, or had last; 0 before the first.
    pub(crate) fn visit(&self, node: &NodeName) -> u32 {
        let earlier = self.before.get(node).copied().unwrap_or(0);
        self.now.get(node).map_or(earlier, |state| state.visit)
    }

    /// The call of this node became an intent.
    pub(crate) fn calls(&mut self, node: &NodeName, key: EffectKey) {
        if let Some(state) = self.now.get_mut(node) {
            state.effect = Some(key);
        }
    }

    fn wait_again(&mut self, node: &NodeName) {
        if let Some(state) = self.now.remove(node) {
            self.before.insert(node.clone(), state.visit);
        }
    }

    pub(crate) fn started_at(&self, node: &NodeName) -> Option<Timestamp> {
        self.now.get(node).map(|node| node.started_at)
    }

    /// Class and message of a failed node.
    pub(crate) fn failure(&self, node: &NodeName) -> Option<(&str, &str)> {
        if let Some(Outcome::Failed { class, message }) = &self.now.get(node)?.outcome {
            Some((class, message))
        } else {
            None
        }
    }

    /// The join of its own is decided.
    pub(crate) fn join(&mut self, node: &NodeName, outcomes: &[SlotOutcome]) {
        if let Some(state) = self.now.get_mut(node) {
            state.joined = Some(outcomes.to_vec());
        }
    }

    /// What became of the branches of a decided join.
    pub(crate) fn joined(&self, node: &NodeName) -> Option<&[SlotOutcome]> {
        self.now.get(node)?.joined.as_deref()
    }

    /// The effect whose result is the node's value.
    pub(crate) fn effect(&self, node: &NodeName) -> Option<&EffectKey> {
        self.now.get(node)?.effect.as_ref()
    }

    pub(crate) fn at_work(&self) -> impl Iterator<Item = &NodeName> {
        self.now
            .iter()
            .filter(|(_, node)| node.outcome.is_none())
            .map(|(name, _)| name)
    }
}

impl State {
    /// A node's end as an event: it did what it is for; of a call with the effect whose result is its value.
    pub(crate) fn done(&self, node: &NodeName, effect: Option<EffectKey>) -> Event {
        self.node_ended(node, Outcome::Done, effect)
    }

    /// A failed node's end as an event.
    pub(crate) fn failed(&self, node: &NodeName, class: &str, message: impl Into<String>) -> Event {
        let outcome = Outcome::Failed {
            class: class.to_owned(),
            message: message.into(),
        };
        self.node_ended(node, outcome, None)
    }

    pub(crate) fn node_ended(
        &self,
        node: &NodeName,
        outcome: Outcome,
        effect: Option<EffectKey>,
    ) -> Event {
        let visit = self.nodes.visit(node).max(1);
        Event::Node(node::Event::Ended(Ended {
            node: node.clone(),
            visit,
            outcome,
            effect,
        }))
    }

    fn started(&self, node: &NodeName) -> Event {
        let visit = self.nodes.visit(node) + 1;
        Event::Node(node::Event::Started(Started {
            node: node.clone(),
            visit,
        }))
    }

    pub(crate) fn evolve_node(&mut self, event: &node::Event, meta: Meta, touched: &mut Vec<Duty>) {
        match event {
            node::Event::Started(started) => {
                let state = NodeState {
                    visit: started.visit,
                    started_at: meta.at,
                    outcome: None,
                    effect: None,
                    joined: None,
                };
                self.nodes.now.insert(started.node.clone(), state);
                touched.extend(
                    self.check_names_of(&started.node)
                        .map(|check| Duty::Check(started.node.clone(), check)),
                );
            }
            node::Event::Ended(ended) => self.evolve_node_ended(ended, meta, touched),
        }
    }

    fn evolve_node_ended(&mut self, ended: &Ended, meta: Meta, touched: &mut Vec<Duty>) {
        self.end_wait(&ended.node, &ended.outcome);
        let fresh = NodeState {
            visit: ended.visit,
            started_at: meta.at,
            outcome: None,
            effect: None,
            joined: None,
        };
        let state = self.nodes.now.entry(ended.node.clone()).or_insert(fresh);
        state.outcome = Some(ended.outcome.clone());
        state.effect = ended.effect.or(state.effect);
        if ended.outcome == Outcome::Repeated {
            self.repeat(&ended.node);
        }
        if let Outcome::Failed { class, .. } = &ended.outcome {
            self.children.leave(&ended.node, meta.at, touched);
            // A deadline or a supervisor's word ends the run, whoever gathers.
            let is_final = class == "deadline" || class == "crashed";
            let graph = self.graph();
            let gathered = graph.is_some_and(|graph| graph.failure_is_gathered(&ended.node));
            if !gathered || is_final {
                self.close_for(&ended.outcome, meta, touched);
            }
        }
        touched.extend(
            self.check_names_of(&ended.node)
                .map(|check| Duty::Check(ended.node.clone(), check)),
        );
    }

    /// The nodes of the round wait again; what they did stays in the log and in their keys.
    fn repeat(&mut self, last: &NodeName) {
        let Some(Kind::Loop(again)) = self.kind(last) else {
            return;
        };
        let round = self
            .graph()
            .map(|graph| graph.round(&again.back_to, last))
            .unwrap_or_default();
        for node in &round {
            if let Some(Kind::FanOut(fan_out, ..)) = self.kind(node) {
                let slot = fan_out.slot.clone();
                self.children.retire(&slot);
            }
            self.nodes.wait_again(node);
            self.agents.forget(node);
            self.waits.forget(node);
        }
    }

    /// What follows from the state without anybody's doing, at most one step of each node.
    ///
    /// Returns nothing when the run only waits. Whoever calls takes the events in and calls again.
    #[must_use]
    pub fn advance(&self, turn: &Turn<'_>) -> Vec<Event> {
        if !self.is_open() {
            return Vec::new();
        }
        let steps: [fn(&Self, &Turn<'_>) -> Vec<Event>; 9] = [
            Self::advance_supervision,
            Self::advance_cancelled_children,
            Self::advance_cancel,
            Self::advance_end,
            Self::advance_deadline,
            Self::advance_decided_joins,
            Self::advance_again,
            Self::advance_at_work,
            Self::advance_ready,
        ];
        steps
            .iter()
            .map(|step| step(self, turn))
            .find(|events| !events.is_empty())
            .unwrap_or_default()
    }

    fn advance_deadline(&self, turn: &Turn<'_>) -> Vec<Event> {
        let due = self.deadline().is_some_and(|deadline| turn.now >= deadline);
        if self.lifecycle.closing.is_some() || !due {
            return Vec::new();
        }
        let class = if self.in_doubt().is_empty() {
            "deadline"
        } else {
            "unsettled"
        };
        self.fail_all(class, "the deadline passed")
    }

    /// Ends every node at work, or the first waiting one, with this class: the run closes.
    pub(crate) fn fail_all(&self, class: &str, message: &str) -> Vec<Event> {
        let at_work: Vec<_> = self
            .nodes
            .at_work()
            .take(NODES_ENDED_AT_ONCE)
            .map(|node| self.failed(node, class, message))
            .collect();
        if !at_work.is_empty() {
            return at_work;
        }
        let waiting = |node: &&NodeName| self.nodes.progress(node) == Progress::Waiting;
        let is_end = |node: &&NodeName| matches!(self.kind(node), Some(Kind::End(_)));
        let first = self.graph().and_then(|graph| {
            let mut nodes = graph.nodes.keys();
            // Where branches left every end out none waits: an end is visited after all, to say so.
            nodes.clone().find(waiting).or_else(|| nodes.find(is_end))
        });
        first.map_or_else(Vec::new, |node| {
            vec![self.started(node), self.failed(node, class, message)]
        })
    }

    fn advance_ready(&self, turn: &Turn<'_>) -> Vec<Event> {
        if self.lifecycle.closing.is_some() {
            return Vec::new();
        }
        let Some(graph) = self.graph() else {
            return Vec::new();
        };
        let skipped = graph.skipped(|node| self.nodes.progress(node));
        if !skipped.is_empty() {
            return skipped
                .into_iter()
                .take(NODES_ENDED_AT_ONCE)
                .map(|node| self.node_ended(node, Outcome::Skipped, None))
                .collect();
        }
        let cut_off = self.cut_off(graph);
        if !cut_off.is_empty() {
            return cut_off;
        }
        let late = |join: &Join| self.is_overdue(join, turn.now);
        let ready = graph.ready(|node| self.nodes.progress(node), late);
        if ready.is_empty() && self.nodes.at_work().next().is_none() {
            let why = "no node is at work and none can start: no end of the topology is reached";
            return self.fail_all("no_progress", why);
        }
        ready
            .into_iter()
            .take(NODES_ENDED_AT_ONCE)
            .map(|node| self.started(node))
            .collect()
    }

    fn advance_at_work(&self, turn: &Turn<'_>) -> Vec<Event> {
        if self.lifecycle.closing.is_some() {
            return Vec::new();
        }
        let step = |node: &NodeName| match self.kind(node) {
            Some(Kind::Call(call)) => self.advance_call(node, call, turn),
            Some(Kind::Agent(agent)) => self.advance_agent(node, agent, turn),
            Some(Kind::FanOut(fan_out, delegation, join)) => {
                self.advance_fan_out(node, fan_out, delegation, join, turn)
            }
            Some(Kind::Join(join)) => self.advance_join(node, join, turn),
            Some(Kind::Wait(wait)) => self.advance_wait(node, wait, turn),
            Some(Kind::Branch(branch)) => self.advance_branch(node, branch, turn),
            Some(Kind::Loop(again)) => self.advance_loop(node, again, turn),
            Some(Kind::End(end)) => self.advance_end_node(node, end, turn),
            None => vec![self.failed(node, "result_invalid", "the plan has no such node")],
        };
        self.nodes
            .at_work()
            .map(step)
            .find(|events| !events.is_empty())
            .unwrap_or_default()
    }
}
