//! Joins: members known first, decided once, never waiting for what cannot come (`spec/topology.md`).

use std::collections::VecDeque;

use coppice_messages::{
    Event, Millis, Payload,
    delegation::Request,
    event::{
        join::{self, Decided, SlotOutcome},
        model::Proposal,
        run::Reason,
    },
    ids::{NodeName, RunId, SlotName},
};
use coppice_topology::node::{Conflict, FanOut, Join, Kind, OnFailure, Order, Then, Wait};

use super::{Child, Group, delegate::refusal_class};
use crate::state::{Meta, State, Turn};

/// The children of a proposal are all waited for; the model is told who failed.
const PROPOSED: Join = Join {
    of: Vec::new(),
    wait: Wait::All,
    on_failure: OnFailure::Collect,
    then: Then::LetFinish,
    order: Order::Declared,
    conflict: None,
    deadline: None,
};

const SUCCEEDED: SlotOutcome = SlotOutcome::Ended(Reason::Succeeded);

impl State {
    pub(crate) fn advance_fan_out(
        &self,
        node: &NodeName,
        fan_out: &FanOut,
        delegation: &Request,
        join: &Join,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        let Some(group) = self.children.groups.get(&fan_out.slot) else {
            return match self.items(fan_out, turn) {
                Ok(items) => match self.affords_all(delegation, items.len(), turn) {
                    Ok(()) => {
                        vec![self.open_proposed_join(node, fan_out.slot.clone(), items.len())]
                    }
                    Err((class, why)) => vec![self.failed(node, class, why)],
                },
                Err(why) => vec![self.failed(node, "result_invalid", why)],
            };
        };
        if let Some(met) = group.verdict(join) {
            return self.decide_fan_out(node, group, join, met);
        }
        if group.made == group.opened.members {
            return Vec::new();
        }
        let items = self.items(fan_out, turn).unwrap_or_default();
        let request = self.within_join(node, delegation, join);
        match self.slice(node, &fan_out.slot, &fan_out.agent, &items, &request, turn) {
            Ok(events) => events,
            Err(widening) => {
                vec![self.failed(node, refusal_class(&widening), widening.to_string())]
            }
        }
    }

    fn decide_fan_out(&self, node: &NodeName, group: &Group, join: &Join, met: bool) -> Vec<Event> {
        let conflict = if met {
            self.conflict(group, join)
        } else {
            None
        };
        let decided = Decided {
            node: node.clone(),
            outcomes: self.outcomes(group),
            rule: join.rule(),
            met: met && conflict.is_none(),
        };
        let outcome = match conflict {
            Some(class) => self.failed(
                node,
                class,
                "the members gave different answers to one question",
            ),
            None if met => self.done(node, None),
            None => {
                let failures = group.settled - group.succeeded;
                let message = format!(
                    "{}: {failures} of {} members did not succeed{}",
                    join.rule(),
                    group.opened.members,
                    self.first_failure(group)
                );
                self.failed(node, "join_failed", message)
            }
        };
        vec![Event::Join(join::Event::Decided(decided)), outcome]
    }

    /// Who was the first to come without success, and why.
    fn first_failure(&self, group: &Group) -> String {
        let came = group.came.iter().filter_map(|id| self.children.all.get(id));
        let mut failed = came.filter(|child| child.outcome != Some(SUCCEEDED));
        let Some(child) = failed.next() else {
            return String::new();
        };
        let (slot, ordinal) = (&child.delegated.slot, child.delegated.ordinal);
        let outcome = child.outcome.as_ref().unwrap_or(&SlotOutcome::Open);
        match &child.class {
            Some(class) => format!("; first {slot}[{ordinal}]: {outcome} ({class})"),
            None => format!("; first {slot}[{ordinal}]: {outcome}"),
        }
    }

    /// One outcome a member, in declared order; a member that was never made is skipped.
    fn outcomes(&self, group: &Group) -> Vec<SlotOutcome> {
        let outcome = |id: &RunId| {
            self.children
                .all
                .get(id)
                .and_then(|child| child.outcome.clone())
                .unwrap_or(SlotOutcome::Open)
        };
        let made = group.members.iter().map(outcome);
        made.chain(std::iter::repeat(SlotOutcome::Skipped))
            .take(group.opened.members as usize)
            .collect()
    }

    /// The class of the node's end when members contradict each other and the rule does not say which one counts.
    fn conflict(&self, group: &Group, join: &Join) -> Option<&'static str> {
        let rule = join.conflict?;
        let answers = self.children.answers(group);
        let differ = answers.windows(2).any(|pair| pair[0] != pair[1]);
        if !differ || !self.children.is_one_question(group) {
            return None;
        }
        match rule {
            Conflict::First => None,
            Conflict::Majority => self
                .children
                .majority(group)
                .is_none()
                .then_some("conflict"),
            Conflict::Fail => Some("conflict"),
            Conflict::Person => Some("unsettled"),
        }
    }

    /// Children of a proposal that was accepted: the next slice, or the join once all are settled.
    pub(crate) fn advance_proposed_children(
        &self,
        node: &NodeName,
        slot: &SlotName,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        let Some(group) = self.children.groups.get(slot) else {
            return Vec::new();
        };
        if let Some(met) = group.verdict(&PROPOSED) {
            let outcomes = self.outcomes(group);
            let decided = Decided {
                node: node.clone(),
                outcomes,
                rule: PROPOSED.rule(),
                met,
            };
            return vec![Event::Join(join::Event::Decided(decided))];
        }
        let Some(Proposal::Delegate {
            agent,
            items,
            delegation,
        }) = self.agents.last_proposal(node)
        else {
            return Vec::new();
        };
        if group.made == group.opened.members {
            return Vec::new();
        }
        match self.slice(node, slot, agent, items, delegation, turn) {
            Ok(events) => events,
            Err(widening) => {
                vec![self.failed(node, refusal_class(&widening), widening.to_string())]
            }
        }
    }

    pub(crate) fn evolve_join(
        &mut self,
        event: &join::Event,
        meta: Meta,
        touched: &mut Vec<crate::duty::Duty>,
    ) {
        match event {
            join::Event::Opened(opened) => {
                let (concurrency, join, one_question) = match self.kind(&opened.node) {
                    Some(Kind::FanOut(fan_out, _, join)) => {
                        (fan_out.concurrency.max(1), join, fan_out.width.is_some())
                    }
                    Some(
                        Kind::Agent(_)
                        | Kind::Call(_)
                        | Kind::Join(_)
                        | Kind::Wait(_)
                        | Kind::Branch(_)
                        | Kind::Loop(_)
                        | Kind::End(_),
                    )
                    | None => (self.held_concurrency(), &PROPOSED, false),
                };
                let group = Group {
                    opened: opened.clone(),
                    then: join.then,
                    order: join.order,
                    one_question,
                    made: 0,
                    members: Vec::new(),
                    came: Vec::new(),
                    settled: 0,
                    succeeded: 0,
                    live: 0,
                    queue: VecDeque::new(),
                    concurrency: concurrency.min(self.held_concurrency()),
                    outcomes: None,
                    decided_at: None,
                    left_at: None,
                };
                self.agents.delegating(&opened.node, &opened.slot);
                self.children.groups.insert(opened.slot.clone(), group);
            }
            join::Event::Decided(decided) if self.is_gathering(&decided.node) => {
                self.nodes.join(&decided.node, &decided.outcomes)
            }
            join::Event::Decided(decided) => {
                let open = |group: &&mut Group| {
                    group.opened.node == decided.node && group.outcomes.is_none()
                };
                if let Some(group) = self.children.groups.values_mut().find(open) {
                    group.outcomes = Some(decided.outcomes.clone());
                    group.decided_at = Some(meta.at);
                    let open = group.members.iter().filter(|_| group.settled < group.made);
                    touched.extend(open.cloned().map(crate::duty::Duty::Child));
                }
            }
        }
    }

    fn is_gathering(&self, node: &NodeName) -> bool {
        matches!(self.kind(node), Some(Kind::Join(_)))
    }

    /// A run that may delegate at all has at least one child at work.
    fn held_concurrency(&self) -> u32 {
        let held = self
            .opened()
            .map_or(1, |opened| opened.envelope.held().concurrency);
        u32::try_from(held).unwrap_or(u32::MAX).max(1)
    }
}

impl Group {
    /// What the rule says of the members that have come.
    fn verdict(&self, join: &Join) -> Option<bool> {
        if self.is_decided() {
            return None;
        }
        join.verdict(
            self.succeeded,
            self.settled - self.succeeded,
            self.opened.members,
        )
    }
}

impl super::Children {
    /// Answers of the members that succeeded, in the order in which they came.
    fn answers(&self, group: &Group) -> Vec<&Payload> {
        let succeeded = |id: &RunId| {
            self.all
                .get(id)
                .filter(|child| child.outcome == Some(SUCCEEDED))
        };
        group
            .came
            .iter()
            .filter_map(succeeded)
            .filter_map(|child: &Child| child.answer.as_ref())
            .collect()
    }

    /// Whether all members were asked the same: one item, or a `width`.
    fn is_one_question(&self, group: &Group) -> bool {
        let item = |id: &RunId| self.all.get(id).map(|child| &child.delegated.item);
        group.one_question
            || group
                .members
                .windows(2)
                .all(|pair| item(&pair[0]) == item(&pair[1]))
    }

    /// The answer that more than half of those who succeeded gave.
    fn majority(&self, group: &Group) -> Option<&Payload> {
        let answers = self.answers(group);
        let count = |answer: &Payload| answers.iter().filter(|other| ***other == *answer).count();
        answers
            .iter()
            .find(|answer| count(answer) * 2 > answers.len())
            .copied()
    }

    /// The one answer of a group that was asked one question: the majority's, else the first that came.
    pub(super) fn agreed(&self, group: &Group) -> Option<&Payload> {
        if !self.is_one_question(group) {
            return None;
        }
        self.majority(group)
            .or_else(|| self.answers(group).first().copied())
    }
}

/// Longest wait between two restarts, whatever the backoff has grown to.
pub(super) const BACKOFF_MAX: Millis = Millis(60_000);
