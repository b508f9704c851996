//! How a group's children are made: narrowed one by one, in slices that fit a commit.

use coppice_messages::{
    Event, Spent, Value,
    delegation::{Field, Request, Standing, Widening},
    event::child::{self, Delegated},
    ids::{AgentName, NodeName, RunId, SlotName},
};
use coppice_topology::node::{FanOut, Join};

use super::Group;
use crate::{
    agent::{refused, slot_of},
    limits::{CHILDREN_MAX, SLICE_BYTES, SLICE_CHILDREN},
    state::{State, Turn},
};

/// One child to be made.
pub(crate) struct Wanted<'a> {
    pub node: &'a NodeName,
    pub slot: &'a SlotName,
    pub ordinal: u32,
    pub agent: &'a AgentName,
    pub item: Value,
    pub request: &'a Request,
    /// What an absent spent dimension gets.
    pub share: &'a Spent,
    /// Reserved by children made earlier in the same commit.
    pub before: &'a Spent,
    /// Children made earlier in the same commit.
    pub before_count: u32,
}

impl State {
    /// Narrows this run's envelope for a child and records the delegation.
    pub(crate) fn delegate(
        &self,
        wanted: Wanted<'_>,
        turn: &Turn<'_>,
    ) -> Result<Delegated, Widening> {
        let widening = |field, asked: String, had: String| Widening { field, asked, had };
        let opened = self.opened().ok_or_else(|| {
            widening(
                Field::ParentRunId,
                "a child".into(),
                "not been opened".into(),
            )
        })?;
        let agent = self.plan.agents.get(wanted.agent).ok_or_else(|| {
            widening(
                Field::PermittedTools,
                format!("agent {}", wanted.agent),
                "no agent of that name".into(),
            )
        })?;
        let made = self.children.count() + wanted.before_count;
        if made >= CHILDREN_MAX {
            return Err(widening(
                Field::ChildrenLeft,
                (made + 1).to_string(),
                CHILDREN_MAX.to_string(),
            ));
        }
        let mut account = self.account.clone();
        account.children = account.children.plus(wanted.before);
        let child = RunId::child(&self.run, wanted.slot, wanted.ordinal);
        let schema = self.plan.agent_schema(agent);
        let standing = Standing {
            account: &account,
            child: &child,
            children_made: made,
            made_within_minute: self.children.made_within_minute(turn.now) + wanted.before_count,
            share: wanted.share,
            agent_tools: &agent.tools,
            tool_access: &|tool| {
                self.plan
                    .tools
                    .get(tool)
                    .map(|tool| tool.contract.operation.access())
            },
            result_schema: schema.as_ref(),
        };
        let mut request = wanted.request.clone();
        request.objective = request
            .objective
            .replace("{item}", &item_text(&wanted.item));
        let envelope = opened.envelope.narrow(&request, &standing, turn.now)?;
        Ok(Delegated {
            node: wanted.node.clone(),
            slot: wanted.slot.clone(),
            ordinal: wanted.ordinal,
            agent: wanted.agent.clone(),
            item: turn.keep(wanted.item),
            envelope,
        })
    }

    pub(super) fn items(&self, fan_out: &FanOut, turn: &Turn<'_>) -> Result<Vec<Value>, String> {
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

    /// Whether every member of a fan-out can be made, so that none is made, and spends, for a group that can never be whole.
    pub(super) fn affords_all(
        &self,
        request: &Request,
        members: usize,
        turn: &Turn<'_>,
    ) -> Result<(), (&'static str, String)> {
        let Some(opened) = self.opened() else {
            return Ok(());
        };
        let (members, held) = (members as u64, opened.envelope.held());
        let share = self.account.left().share(members + 1);
        if let Err(over) = self.account.affords(&request.spent(&share).times(members)) {
            let why = format!(
                "{members} children need {} {}, {} is left",
                over.asked, over.dimension, over.left
            );
            return Err(("budget_refused", why));
        }
        let made = u64::from(self.children.count()) + members;
        if made > u64::from(held.children_left) {
            return Err((
                "delegation_refused",
                format!("{made} children, the run may make {}", held.children_left),
            ));
        }
        let within_minute = u64::from(self.children.made_within_minute(turn.now)) + members;
        if within_minute > u64::from(held.spawn_per_minute) {
            let why = format!(
                "{within_minute} children within a minute, the run may make {}",
                held.spawn_per_minute
            );
            return Err(("delegation_refused", why));
        }
        Ok(())
    }

    /// The children's deadline is no later than the join's.
    pub(super) fn within_join(
        &self,
        node: &NodeName,
        delegation: &Request,
        join: &Join,
    ) -> Request {
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
    pub(super) fn slice(
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
                ordinal: group
                    .opened
                    .first
                    .saturating_add(u32::try_from(ordinal).unwrap_or(u32::MAX)),
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
}

/// The class of the end of a node that may not delegate what it wants to.
pub(super) fn refusal_class(widening: &Widening) -> &'static str {
    if matches!(widening.field, Field::Budget | Field::Operations) {
        "budget_refused"
    } else {
        "delegation_refused"
    }
}

fn item_text(item: &Value) -> String {
    item.as_text()
        .map_or_else(|| item.to_string(), str::to_owned)
}
