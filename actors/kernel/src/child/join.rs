//! Fan-outs and joins: members known first, delegated in slices, decided once.

use coppice_messages::{
    Event, Millis, Spent, Value,
    delegation::{Field, Request, Widening},
    event::{
        child,
        join::{self, Decided, SlotOutcome},
        run::Reason,
    },
    ids::{AgentName, NodeName, SlotName},
};
use coppice_topology::{
    node::{FanOut, Join, Kind, OnFailure},
    plan::Progress,
};

use super::{Group, Wanted};
use crate::{
    agent::{refused, slot_of},
    limits::{CHILDREN_MAX, SLICE_BYTES, SLICE_CHILDREN},
    progress::{done, failed},
    state::{State, Turn},
};

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
                Ok(items) => vec![self.open_proposed_join(node, fan_out.slot.clone(), items.len())],
                Err(why) => vec![failed(node, "result_invalid", why)],
            };
        };
        if group.made < group.opened.members {
            let items = self.items(fan_out, turn).unwrap_or_default();
            let request = self.within_join(node, delegation, join);
            return match self.slice(node, &fan_out.slot, &fan_out.agent, &items, &request, turn) {
                Ok(events) => events,
                Err(widening) => vec![failed(node, refusal_class(&widening), widening.to_string())],
            };
        }
        if !group.is_complete() {
            return Vec::new();
        }
        let decided = self.decide_join(node, group, join.on_failure);
        let outcome = if decided.met {
            done(node, None)
        } else {
            let failures = decided
                .outcomes
                .iter()
                .filter(|outcome| **outcome != SlotOutcome::Ended(Reason::Succeeded))
                .count();
            failed(
                node,
                "join_failed",
                format!(
                    "{failures} of {} children did not succeed",
                    decided.outcomes.len()
                ),
            )
        };
        vec![Event::Join(join::Event::Decided(decided)), outcome]
    }

    fn items(&self, fan_out: &FanOut, turn: &Turn<'_>) -> Result<Vec<Value>, String> {
        let items = match (&fan_out.over, fan_out.width) {
            (Some(over), _) => match over.resolve(&self.scope(turn)) {
                Ok(Value::List(items)) => items,
                Ok(other) => return Err(format!("fan_out over {other}: it is no list")),
                Err(dangling) => return Err(format!("fan_out over: {dangling}")),
            },
            (None, width) => (0..width.unwrap_or(0))
                .map(|at| Value::Int(i64::from(at)))
                .collect(),
        };
        if items.len() > CHILDREN_MAX as usize {
            return Err(format!(
                "fan_out over {} items: a run has at most {CHILDREN_MAX} children",
                items.len()
            ));
        }
        Ok(items)
    }

    /// The children's deadline is no later than the join's.
    fn within_join(&self, node: &NodeName, delegation: &Request, join: &Join) -> Request {
        let mut request = delegation.clone();
        let (Some(span), Some(started), Some(opened)) =
            (join.deadline, self.nodes.started_at(node), self.opened())
        else {
            return request;
        };
        let latest = opened
            .envelope
            .deadline()
            .minus(opened.envelope.join_reserve());
        let join_deadline = started.plus(span).min(latest);
        request.deadline = Some(
            request
                .deadline
                .map_or(join_deadline, |asked| asked.min(join_deadline)),
        );
        request
    }

    /// The next children of a group, as many as fit one commit.
    fn slice(
        &self,
        node: &NodeName,
        slot: &SlotName,
        agent: &AgentName,
        items: &[Value],
        request: &Request,
        turn: &Turn<'_>,
    ) -> Result<Vec<Event>, Widening> {
        let Some(group) = self.children.groups.get(slot) else {
            return Ok(Vec::new());
        };
        let share = self.share_of(group);
        let (mut events, mut before, mut bytes) = (Vec::new(), Spent::default(), 0);
        let rest = items
            .iter()
            .enumerate()
            .skip(group.made as usize)
            .take(SLICE_CHILDREN as usize);
        for (before_count, (ordinal, item)) in rest.enumerate() {
            bytes += item.canonical().len();
            if bytes > SLICE_BYTES && !events.is_empty() {
                break;
            }
            let wanted = Wanted {
                node,
                slot,
                ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
                agent,
                item: item.clone(),
                request,
                share: &share,
                before: &before,
                before_count: u32::try_from(before_count).unwrap_or(u32::MAX),
            };
            let delegated = self.delegate(wanted, turn)?;
            before = before.plus(delegated.envelope.budget());
            events.push(Event::Child(child::Event::Delegated(Box::new(delegated))));
        }
        Ok(events)
    }

    /// An equal share of what is left for every child still to be made, and one for this run itself.
    fn share_of(&self, group: &Group) -> Spent {
        let to_make = u64::from(group.opened.members - group.made);
        self.account.left().share(to_make + 1)
    }

    fn decide_join(&self, node: &NodeName, group: &Group, on_failure: OnFailure) -> Decided {
        let outcome = |id| {
            self.children
                .all
                .get(id)
                .and_then(|child| child.outcome.clone())
                .unwrap_or(SlotOutcome::Unreachable)
        };
        let outcomes: Vec<SlotOutcome> = group.members.iter().map(outcome).collect();
        let all_succeeded = outcomes
            .iter()
            .all(|outcome| *outcome == SlotOutcome::Ended(Reason::Succeeded));
        let (rule, met) = match on_failure {
            OnFailure::Collect => ("all, collect", true),
            OnFailure::Fail => ("all, fail", all_succeeded),
        };
        Decided {
            node: node.clone(),
            outcomes,
            rule: rule.to_owned(),
            met,
        }
    }

    /// The first slice of an agent's proposal stands in one commit with the join, so that a refusal leaves nothing behind.
    pub(crate) fn open_delegation(
        &self,
        node: &NodeName,
        call: u32,
        agent: &AgentName,
        items: &[Value],
        request: &Request,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        let Some(slot) = slot_of(node, call) else {
            return vec![refused(
                node,
                call,
                "/delegate",
                "no usable slot name".to_owned(),
            )];
        };
        if items.is_empty() {
            return vec![refused(
                node,
                call,
                "/delegate/items",
                "there are no items: give one for each child".to_owned(),
            )];
        }
        let share = self.account.left().share(items.len() as u64 + 1);
        let mut before = Spent::default();
        for (ordinal, item) in items.iter().enumerate() {
            let count = u32::try_from(ordinal).unwrap_or(u32::MAX);
            let wanted = Wanted {
                node,
                slot: &slot,
                ordinal: count,
                agent,
                item: item.clone(),
                request,
                share: &share,
                before: &before,
                before_count: count,
            };
            match self.delegate(wanted, turn) {
                Ok(delegated) => before = before.plus(delegated.envelope.budget()),
                Err(widening) => {
                    return vec![refused(
                        node,
                        call,
                        &format!("/delegate/{}", widening.field),
                        widening.to_string(),
                    )];
                }
            }
        }
        vec![self.open_proposed_join(node, slot, items.len())]
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
        if group.made < group.opened.members {
            let Some(coppice_messages::event::model::Proposal::Delegate {
                agent,
                items,
                delegation,
            }) = self.agents.last_proposal(node)
            else {
                return Vec::new();
            };
            return match self.slice(node, slot, agent, items, delegation, turn) {
                Ok(events) => events,
                Err(widening) => vec![failed(node, refusal_class(&widening), widening.to_string())],
            };
        }
        if !group.is_complete() {
            return Vec::new();
        }
        vec![Event::Join(join::Event::Decided(self.decide_join(
            node,
            group,
            OnFailure::Collect,
        )))]
    }

    pub(crate) fn advance_join(&self, node: &NodeName, join: &Join) -> Vec<Event> {
        let lost: Vec<_> = join
            .of
            .iter()
            .filter(|of| self.nodes.progress(of) == Progress::Failed)
            .collect();
        match (join.on_failure, lost.first()) {
            (OnFailure::Fail, Some(first)) => {
                vec![failed(
                    node,
                    "join_failed",
                    format!(
                        "{} of {} branches failed, first {first}",
                        lost.len(),
                        join.of.len()
                    ),
                )]
            }
            (OnFailure::Fail, None) | (OnFailure::Collect, _) => {
                vec![done(node, None)]
            }
        }
    }

    pub(crate) fn evolve_join(&mut self, event: &join::Event) {
        match event {
            join::Event::Opened(opened) => {
                let concurrency = match self.kind(&opened.node) {
                    Some(Kind::FanOut(fan_out, ..)) => fan_out.concurrency.max(1),
                    Some(
                        Kind::Agent(_)
                        | Kind::Call(_)
                        | Kind::Join(_)
                        | Kind::Wait(_)
                        | Kind::End(_),
                    )
                    | None => self.held_concurrency(),
                };
                let group = Group {
                    opened: opened.clone(),
                    made: 0,
                    members: Vec::new(),
                    settled: 0,
                    live: 0,
                    queue: std::collections::VecDeque::new(),
                    concurrency: concurrency.min(self.held_concurrency()),
                    outcomes: None,
                };
                self.agents.delegating(&opened.node, &opened.slot);
                self.children.groups.insert(opened.slot.clone(), group);
            }
            join::Event::Decided(decided) => {
                let open = |group: &&mut Group| {
                    group.opened.node == decided.node && group.outcomes.is_none()
                };
                if let Some(group) = self.children.groups.values_mut().find(open) {
                    group.outcomes = Some(decided.outcomes.clone());
                }
            }
        }
    }

    /// A run that may delegate at all has at least one child at work.
    fn held_concurrency(&self) -> u32 {
        let held = self
            .opened()
            .map_or(1, |opened| opened.envelope.held().concurrency);
        u32::try_from(held).unwrap_or(u32::MAX).max(1)
    }
}

fn refusal_class(widening: &Widening) -> &'static str {
    if matches!(widening.field, Field::Budget | Field::Operations) {
        "budget_refused"
    } else {
        "delegation_refused"
    }
}

/// Longest wait between two restarts, whatever the backoff has grown to.
pub(super) const BACKOFF_MAX: Millis = Millis(60_000);
