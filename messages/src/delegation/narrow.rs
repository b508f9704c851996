//! Narrowing: the only way from a parent's envelope to a child's (`spec/delegation.md` 2). It refuses and never clips.

use std::{collections::BTreeSet, fmt};

use super::{Delegation, Request, SchemaRef};
use crate::{
    budget::{Account, Dimension, Held, Overdrawn, Spent},
    ids::{RunId, ToolName},
    scope::{Access, Resources},
    units::Timestamp,
};

/// The field in which a request would widen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The chain's own parent.
    ParentRunId,
    /// The derived id.
    ChildRunId,
    /// What may be read.
    InputRefs,
    /// Tools to call.
    PermittedTools,
    /// Tools to pass on.
    MayDelegate,
    /// Tenant of the scope.
    Tenant,
    /// Access of the scope, or a tool that needs more.
    Access,
    /// Resource rules.
    Resources,
    /// A dimension that is spent: steps, tokens, cost, network.
    Budget,
    /// Operations of a class.
    Operations,
    /// A held limit: concurrency.
    Concurrency,
    /// A held limit: storage.
    Storage,
    /// The absolute deadline.
    Deadline,
    /// The span that would end after the latest deadline.
    WallClock,
    /// Further levels.
    DepthLeft,
    /// Further children.
    ChildrenLeft,
    /// Rate of spawning.
    SpawnPerMinute,
    /// Known, pinned schema.
    ResultSchema,
    /// The delegating run.
    ReturnOwner,
    /// Nothing is narrower than the parent's.
    NotNarrower,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ParentRunId => "parent_run_id",
            Self::ChildRunId => "child_run_id",
            Self::InputRefs => "input_refs",
            Self::PermittedTools => "permitted_tools",
            Self::MayDelegate => "may_delegate",
            Self::Tenant => "authority_scope.tenant",
            Self::Access => "authority_scope.access",
            Self::Resources => "resources",
            Self::Budget => "budget",
            Self::Operations => "operations",
            Self::Concurrency => "budget.concurrency",
            Self::Storage => "budget.storage",
            Self::Deadline => "deadline",
            Self::WallClock => "budget.wall_clock",
            Self::DepthLeft => "depth_left",
            Self::ChildrenLeft => "children_left",
            Self::SpawnPerMinute => "spawn_per_minute",
            Self::ResultSchema => "result_schema",
            Self::ReturnOwner => "return_owner",
            Self::NotNarrower => "not_narrower",
        })
    }
}

/// A request that asks for more than the parent has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("delegation refused at {field}: asked {asked}, the parent has {had}")]
pub struct Widening {
    /// In which field.
    pub field: Field,
    /// What was asked.
    pub asked: String,
    /// What was there.
    pub had: String,
}

/// Where the parent stands when it delegates: everything that narrowing compares beside the two envelopes.
pub struct Standing<'a> {
    /// The parent's account.
    pub account: &'a Account,
    /// The child's id, derived from parent, slot and ordinal.
    pub child: &'a RunId,
    /// Children made so far.
    pub children_made: u32,
    /// Children made within the last minute.
    pub made_within_minute: u32,
    /// What an absent spent dimension gets.
    pub share: &'a Spent,
    /// The agent's declared tools, for a request that names none.
    pub agent_tools: &'a BTreeSet<ToolName>,
    /// The access that each known tool needs.
    pub tool_access: &'a dyn Fn(&ToolName) -> Option<Access>,
    /// The pinned schema that the child's result must meet.
    pub result_schema: Option<&'a SchemaRef>,
}

fn refuse<T>(
    field: Field,
    asked: impl fmt::Display,
    had: impl fmt::Display,
) -> Result<T, Widening> {
    Err(Widening {
        field,
        asked: asked.to_string(),
        had: had.to_string(),
    })
}

fn at_most<T: PartialOrd + fmt::Display>(field: Field, asked: T, had: T) -> Result<T, Widening> {
    if asked <= had {
        Ok(asked)
    } else {
        refuse(field, asked, had)
    }
}

fn same_if_named<T: PartialEq + fmt::Display>(
    field: Field,
    asked: Option<&T>,
    had: &T,
) -> Result<(), Widening> {
    match asked {
        Some(asked) if asked != had => refuse(field, asked, had),
        Some(_) | None => Ok(()),
    }
}

fn names<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() {
        "nothing".to_owned()
    } else {
        items.join(", ")
    }
}

impl Delegation {
    /// The child's envelope, narrower than this one.
    ///
    /// # Errors
    /// [`Widening`] names the first field in which more was asked than there is.
    pub fn narrow(
        &self,
        request: &Request,
        standing: &Standing<'_>,
        now: Timestamp,
    ) -> Result<Self, Widening> {
        same_if_named(
            Field::ParentRunId,
            request.parent_run_id.as_ref(),
            &self.child_run_id,
        )?;
        same_if_named(
            Field::ChildRunId,
            request.child_run_id.as_ref(),
            standing.child,
        )?;
        same_if_named(
            Field::ReturnOwner,
            request.return_owner.as_ref(),
            &self.child_run_id,
        )?;
        same_if_named(
            Field::Tenant,
            request.authority_scope.tenant.as_ref(),
            &self.tenant,
        )?;
        let access = at_most(Field::Access, request.authority_scope.access, self.access)?;
        let permitted_tools = self.tools_within(request, standing, access)?;
        let resources = self.resources_within(request)?;
        let budget = self.budget_within(request, standing)?;
        let held = self.held_within(request, standing)?;
        let child = Self {
            parent_run_id: Some(self.child_run_id.clone()),
            child_run_id: standing.child.clone(),
            tenant: self.tenant.clone(),
            principal: self.principal.clone(),
            objective: request.objective.clone(),
            completion: request.completion.clone(),
            input_refs: self.inputs_within(request)?,
            permitted_tools,
            may_delegate: self.delegable_within(request, standing, access)?,
            access,
            resources,
            budget,
            held,
            deadline: self.deadline_within(request, now)?,
            join_reserve: request.join_reserve,
            result_schema: schema_known(request, standing)?,
            return_owner: Some(self.child_run_id.clone()),
        };
        if child.equals_in_authority(self) {
            return refuse(
                Field::NotNarrower,
                "the parent's own tools, scope and budget",
                "the same",
            );
        }
        Ok(child)
    }

    /// Whether `child` could have been narrowed from this envelope, leaving aside what the account had left. Folding a log checks
    /// every recorded child with it.
    #[must_use]
    pub fn admits(&self, child: &Self) -> bool {
        let passable: BTreeSet<_> = self
            .permitted_tools
            .union(&self.may_delegate)
            .cloned()
            .collect();
        child.parent_run_id.as_ref() == Some(&self.child_run_id)
            && child.return_owner.as_ref() == Some(&self.child_run_id)
            && child.tenant == self.tenant
            && child.principal == self.principal
            && child.access <= self.access
            && child.permitted_tools.is_subset(&passable)
            && child.may_delegate.is_subset(&self.may_delegate)
            && child.input_refs.is_subset(&self.input_refs)
            && child
                .resources
                .allow
                .iter()
                .all(|asked| self.resources.allow.iter().any(|had| had.covers(asked)))
            && self.resources.deny.is_subset(&child.resources.deny)
            && child.budget.fits(&self.budget).is_ok()
            && child.held.concurrency <= self.held.concurrency
            && child.held.storage <= self.held.storage
            && child.held.depth_left < self.held.depth_left
            && child.held.children_left <= self.held.children_left
            && child.held.spawn_per_minute <= self.held.spawn_per_minute
            && child.deadline <= self.deadline.minus(self.join_reserve)
    }

    fn equals_in_authority(&self, parent: &Self) -> bool {
        self.permitted_tools == parent.permitted_tools
            && self.may_delegate == parent.may_delegate
            && self.access == parent.access
            && self.resources == parent.resources
            && self.budget == parent.budget
    }

    fn inputs_within(&self, request: &Request) -> Result<BTreeSet<String>, Widening> {
        let beyond: Vec<_> = request.input_refs.difference(&self.input_refs).collect();
        if beyond.is_empty() {
            Ok(request.input_refs.clone())
        } else {
            refuse(Field::InputRefs, names(beyond), names(&self.input_refs))
        }
    }

    fn tools_within(
        &self,
        request: &Request,
        standing: &Standing<'_>,
        access: Access,
    ) -> Result<BTreeSet<ToolName>, Widening> {
        let asked = request
            .permitted_tools
            .as_ref()
            .unwrap_or(standing.agent_tools);
        let passable: BTreeSet<_> = self
            .permitted_tools
            .union(&self.may_delegate)
            .cloned()
            .collect();
        let beyond: Vec<_> = asked.difference(&passable).collect();
        if !beyond.is_empty() {
            return refuse(Field::PermittedTools, names(beyond), names(&passable));
        }
        tools_need_at_most(Field::PermittedTools, asked, standing, access)?;
        Ok(asked.clone())
    }

    fn delegable_within(
        &self,
        request: &Request,
        standing: &Standing<'_>,
        access: Access,
    ) -> Result<BTreeSet<ToolName>, Widening> {
        let beyond: Vec<_> = request
            .may_delegate
            .difference(&self.may_delegate)
            .collect();
        if !beyond.is_empty() {
            return refuse(Field::MayDelegate, names(beyond), names(&self.may_delegate));
        }
        tools_need_at_most(Field::MayDelegate, &request.may_delegate, standing, access)?;
        Ok(request.may_delegate.clone())
    }

    fn resources_within(&self, request: &Request) -> Result<Resources, Widening> {
        let asked = &request.resources;
        let beyond: Vec<_> = asked
            .iter()
            .filter(|asked| !self.resources.allow.iter().any(|had| had.covers(asked)))
            .collect();
        if !beyond.is_empty() {
            return refuse(
                Field::Resources,
                names(beyond),
                names(&self.resources.allow),
            );
        }
        let deny = self.resources.deny.union(&request.deny).cloned().collect();
        Ok(Resources {
            allow: asked.clone(),
            deny,
        })
    }

    fn budget_within(&self, request: &Request, standing: &Standing<'_>) -> Result<Spent, Widening> {
        let asked = request.spent(standing.share);
        match standing.account.affords(&asked) {
            Ok(()) => Ok(asked),
            Err(Overdrawn {
                dimension,
                asked,
                left,
            }) => {
                let (field, what) = match dimension {
                    Dimension::Operation(class) => (Field::Operations, class.to_string()),
                    Dimension::Steps | Dimension::Tokens | Dimension::Cost | Dimension::Network => {
                        (Field::Budget, dimension.to_string())
                    }
                };
                refuse(field, format!("{asked} {what}"), format!("{left} left"))
            }
        }
    }

    fn held_within(&self, request: &Request, standing: &Standing<'_>) -> Result<Held, Widening> {
        let had = &self.held;
        if had.depth_left == 0 {
            return refuse(Field::DepthLeft, "one more level", "no level left");
        }
        if standing.children_made >= had.children_left {
            return refuse(
                Field::ChildrenLeft,
                u64::from(standing.children_made) + 1,
                had.children_left,
            );
        }
        if standing.made_within_minute >= had.spawn_per_minute {
            return refuse(
                Field::SpawnPerMinute,
                u64::from(standing.made_within_minute) + 1,
                had.spawn_per_minute,
            );
        }
        let children_left = at_most(
            Field::ChildrenLeft,
            request.children_left,
            had.children_left,
        )?;
        Ok(Held {
            concurrency: at_most(
                Field::Concurrency,
                request.budget.concurrency.unwrap_or(0),
                had.concurrency,
            )?,
            storage: at_most(
                Field::Storage,
                request.budget.storage.unwrap_or_default(),
                had.storage,
            )?,
            depth_left: at_most(Field::DepthLeft, request.depth_left, had.depth_left - 1)?,
            children_left,
            spawn_per_minute: at_most(
                Field::SpawnPerMinute,
                request
                    .spawn_per_minute
                    .unwrap_or(children_left.min(had.spawn_per_minute)),
                had.spawn_per_minute,
            )?,
        })
    }

    fn deadline_within(&self, request: &Request, now: Timestamp) -> Result<Timestamp, Widening> {
        let latest = self.deadline.minus(self.join_reserve);
        let explicit = match request.deadline {
            Some(asked) => at_most(Field::Deadline, asked, latest)?,
            None => latest,
        };
        match request.budget.wall_clock {
            Some(span) if now.plus(span) > latest => {
                refuse(Field::WallClock, now.plus(span), latest)
            }
            Some(span) => Ok(explicit.min(now.plus(span))),
            None => Ok(explicit),
        }
    }
}

fn tools_need_at_most(
    field: Field,
    tools: &BTreeSet<ToolName>,
    standing: &Standing<'_>,
    access: Access,
) -> Result<(), Widening> {
    for tool in tools {
        let Some(needed) = (standing.tool_access)(tool) else {
            return refuse(field, tool, "no tool of that name");
        };
        if needed > access {
            return refuse(Field::Access, format!("{needed} for {tool}"), access);
        }
    }
    Ok(())
}

fn schema_known(request: &Request, standing: &Standing<'_>) -> Result<Option<SchemaRef>, Widening> {
    match (&request.result_schema, standing.result_schema) {
        (Some(asked), Some(known)) if *asked == known.name => Ok(Some(known.clone())),
        (Some(asked), known) => refuse(
            Field::ResultSchema,
            asked,
            known.map_or("no schema of that name".to_owned(), |k| k.name.to_string()),
        ),
        (None, known) => Ok(known.cloned()),
    }
}
