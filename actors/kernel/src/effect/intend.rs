//! Intents: which operation a call is, whether it may be called, and what it reserves.

use coppice_messages::{
    Digest, Event, Payload, Spent, Value,
    budget::Overdrawn,
    digest::LengthPrefixed,
    event::effect::{self, Conflicted, Intended},
    ids::{EffectKey, NodeName, ToolName},
};
use coppice_topology::{node::Call, plan::PinnedTool};

use super::{
    Resolution, exhausted,
    govern::{Denied, recorded},
};
use crate::state::{Room, State, Turn};

/// Why a call does not become an intent.
pub(crate) enum NotIntended {
    /// The run may not call it, or its arguments lead to nothing.
    Refused {
        class: &'static str,
        message: String,
    },
    /// Too little is left.
    Budget(Overdrawn),
    /// The operation is done already, with equal arguments.
    DoneBefore(EffectKey),
    /// The operation is under way or in doubt, with equal arguments: what becomes of it counts for whoever else wants it.
    UnderWay,
    /// The store has no room for a further intent: decided anew once there is.
    NoRoom,
    /// The policy set does not let it happen.
    Denied(Denied),
    /// The key stands for other arguments.
    Conflict(Conflicted),
}

fn refused<T>(class: &'static str, message: impl Into<String>) -> Result<T, NotIntended> {
    Err(NotIntended::Refused {
        class,
        message: message.into(),
    })
}

impl State {
    pub(crate) fn tool(&self, tool: &ToolName) -> Option<&PinnedTool> {
        self.plan.tools.get(tool)
    }

    /// What one call reserves: a step, one operation of its class, and the largest answer that it may bring.
    fn reservation(tool: &PinnedTool) -> Spent {
        Spent {
            steps: 1,
            network: tool.contract.network_bytes_max().0,
            operations: [(tool.contract.operation, 1)].into(),
            ..Spent::default()
        }
    }

    /// The operation's name within the lineage: the business key where the contract has one, else the place in the plan.
    fn operation(
        &self,
        tool: &PinnedTool,
        node: &NodeName,
        call: u32,
        turn: &Turn<'_>,
    ) -> Result<String, NotIntended> {
        let business_key = &tool.contract.idempotency.business_key;
        if business_key.is_empty() {
            let path = self
                .opened()
                .map(|opened| opened.path.as_str())
                .unwrap_or_default();
            let visit = self.nodes.visit(node);
            return Ok(format!("at:{path}/{node}.{visit}.{call}"));
        }
        let scope = self.scope(turn);
        let parts = business_key
            .iter()
            .map(|reference| reference.resolve(&scope));
        match parts.collect::<Result<Vec<Value>, _>>() {
            Ok(parts) => Ok(format!("business:{}", Value::List(parts))),
            Err(dangling) => refused(
                "result_invalid",
                format!("business key of {}: {dangling}", tool.contract.tool),
            ),
        }
    }

    /// The contract of a tool that this run may call.
    fn callable(&self, tool: &ToolName) -> Result<&PinnedTool, NotIntended> {
        let (Some(pinned), Some(opened)) = (self.tool(tool), self.opened()) else {
            return refused("refused_tool", format!("{tool} is not in the release"));
        };
        if !opened.envelope.permitted_tools().contains(tool) {
            return refused(
                "refused_tool",
                format!("{tool} is not among the tools that this run may call"),
            );
        }
        let needed = pinned.contract.operation.access();
        if needed > opened.envelope.access() {
            return refused(
                "refused_tool",
                format!(
                    "{tool} needs {needed}, the run has {}",
                    opened.envelope.access()
                ),
            );
        }
        Ok(pinned)
    }

    /// Whether the envelope lets this run touch the resource that the arguments name, `kind/id`.
    fn within_resources(
        &self,
        tool: &PinnedTool,
        arguments: &Payload,
        turn: &Turn<'_>,
    ) -> Result<(), NotIntended> {
        let (Some(resource), Some(opened)) = (&tool.contract.resource, self.opened()) else {
            return Ok(());
        };
        let given = turn.resolve(arguments).unwrap_or_default();
        let name = match resource.id_in(&given) {
            Some(id) => format!("{}/{id}", resource.kind),
            None => resource.kind.clone(),
        };
        if opened.envelope.resources().refuses(&name) {
            let tool = &tool.contract.tool;
            return refused(
                "refused_resource",
                format!(
                    "{tool} would touch {name}, which the resources of this run's envelope do not allow"
                ),
            );
        }
        Ok(())
    }

    /// The intent to call a tool, with what it needs reserved; or why not.
    pub(crate) fn intend(
        &self,
        node: &NodeName,
        call: u32,
        tool: &ToolName,
        arguments: Payload,
        turn: &Turn<'_>,
    ) -> Result<Vec<Event>, NotIntended> {
        let pinned = self.callable(tool)?;
        self.controlled(pinned)?;
        self.within_resources(pinned, &arguments, turn)?;
        let operation = self.operation(pinned, node, call, turn)?;
        let lineage = self.opened().map_or(&self.run, |opened| &opened.lineage);
        let key = EffectKey::derive(&self.tenant, tool, lineage, &operation);
        let action = self.action_digest(pinned, &arguments, key);
        let had = self.effects.get(&key);
        // What was put off and then left by the node that wanted it is intended anew by the next that means the same operation.
        let left = had.filter(|had| self.is_left(had));
        if let Some(had) = had.filter(|_| left.is_none()) {
            if had.intended.action != action {
                return Err(NotIntended::Conflict(Conflicted {
                    key,
                    had: had.intended.action,
                    asked: action,
                }));
            }
            return Err(match self.resolution(had) {
                Resolution::Pending => NotIntended::UnderWay,
                Resolution::Value(_) => NotIntended::DoneBefore(key),
                Resolution::Failed { class, message } => NotIntended::Refused { class, message },
            });
        }
        let reserved = Self::reservation(pinned);
        self.account
            .affords(&reserved)
            .map_err(NotIntended::Budget)?;
        if turn.room == Room::Low {
            return Err(NotIntended::NoRoom);
        }
        let intended = Intended {
            key,
            node: node.clone(),
            call,
            tool: tool.clone(),
            tool_digest: pinned.digest,
            operation: pinned.contract.operation,
            arguments,
            action,
            attempt: left.map_or(1, |left| left.intended.attempt + 1),
            send_by: Self::send_by(turn.now),
            reserved,
            policy: None,
        };
        self.governed(intended, turn).map_err(NotIntended::Denied)
    }

    fn action_digest(&self, tool: &PinnedTool, arguments: &Payload, key: EffectKey) -> Digest {
        let principal = self
            .opened()
            .map(|opened| opened.envelope.principal())
            .unwrap_or_default();
        LengthPrefixed::new()
            .part(tool.contract.tool.as_str().as_bytes())
            .part(&tool.digest.0)
            .part(&arguments.digest().0)
            .part(principal.as_bytes())
            .part(self.tenant.as_str().as_bytes())
            .part(self.run.as_str().as_bytes())
            .part(&key.0.0)
            .finish()
    }

    pub(crate) fn advance_call(&self, node: &NodeName, call: &Call, turn: &Turn<'_>) -> Vec<Event> {
        if let Some((key, effect)) = self
            .nodes
            .effect(node)
            .and_then(|key| Some((key, self.effects.get(key)?)))
        {
            return match self.resolution(effect) {
                Resolution::Pending => Vec::new(),
                Resolution::Value(_) => vec![self.done(node, Some(*key))],
                Resolution::Failed { class, message } => vec![self.failed(node, class, message)],
            };
        }
        let (arguments, large) = match call.arguments.resolve(&self.scope(turn)) {
            Ok(arguments) => Payload::of(arguments),
            Err(dangling) => {
                return vec![self.failed(node, "result_invalid", format!("arguments: {dangling}"))];
            }
        };
        match self.intend(node, 0, &call.tool, arguments.clone(), turn) {
            Ok(events) => {
                turn.keep_bytes(&arguments, large);
                events
            }
            Err(NotIntended::Refused { class, message }) => vec![self.failed(node, class, message)],
            Err(NotIntended::Budget(over)) => vec![exhausted(over)],
            Err(NotIntended::DoneBefore(key)) => vec![self.done(node, Some(key))],
            Err(NotIntended::Denied(denied)) => {
                let failed = self.failed(node, denied.class, denied.message);
                vec![recorded(denied.decided), failed]
            }
            Err(NotIntended::UnderWay | NotIntended::NoRoom) => Vec::new(),
            Err(NotIntended::Conflict(conflicted)) => {
                let failed = self.failed(
                    node,
                    "key_conflict",
                    "the key stands for other arguments; a person must look",
                );
                vec![Event::Effect(effect::Event::Conflicted(conflicted)), failed]
            }
        }
    }
}
