//! The delegation envelope: what one run may do, under which limits, for whom.
//!
//! There are two ways to make one: [`Delegation::root`] from a contract, and [`Delegation::narrow`], which cannot widen. The fields
//! are private, so no other code can. (The decoder of the log is the one further way in; folding checks each recorded child
//! against its parent's recorded envelope with [`Delegation::admits`].)

mod narrow;
mod request;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use self::{
    narrow::{Field, Standing, Widening},
    request::{AuthorityScope, BudgetRequest, Request, RequestDocument},
};
use crate::{
    budget::{Held, Spent, counted},
    contract::Contract,
    digest::Digest,
    ids::{RunId, SchemaName, TenantId, ToolName},
    scope::{Access, Resources},
    units::{Millis, Timestamp},
};

/// A JSON Schema, pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaRef {
    /// Its name.
    pub name: SchemaName,
    /// Digest of its bytes.
    pub digest: Digest,
}

/// What a run may do. See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delegation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<RunId>,
    child_run_id: RunId,
    tenant: TenantId,
    principal: String,
    objective: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    completion: String,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    input_refs: BTreeSet<String>,
    permitted_tools: BTreeSet<ToolName>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    may_delegate: BTreeSet<ToolName>,
    access: Access,
    #[serde(default, skip_serializing_if = "resources_is_empty")]
    resources: Resources,
    budget: Spent,
    held: Held,
    deadline: Timestamp,
    join_reserve: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_schema: Option<SchemaRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    return_owner: Option<RunId>,
}

fn resources_is_empty(resources: &Resources) -> bool {
    resources.allow.is_empty() && resources.deny.is_empty()
}

/// What a root's envelope needs beside its contract.
#[derive(Debug, Clone)]
pub struct Root {
    /// The root run's id.
    pub run: RunId,
    /// Whose data and keys.
    pub tenant: TenantId,
    /// For whom: `user:NAME` or `workload:NAME`.
    pub principal: String,
    /// What is to be achieved.
    pub objective: String,
    /// What a result must look like.
    pub result_schema: Option<SchemaRef>,
    /// What may be read from the start.
    pub input_refs: BTreeSet<String>,
}

impl Delegation {
    /// A root's envelope: everything the contract allows, until the earlier of the authority's end and the wall clock's.
    #[must_use]
    pub fn root(contract: &Contract, root: Root, now: Timestamp) -> Self {
        let budget = &contract.budget;
        Self {
            parent_run_id: None,
            child_run_id: root.run,
            tenant: root.tenant,
            principal: root.principal,
            objective: root.objective,
            completion: contract.success_evidence.answer.clone(),
            input_refs: root.input_refs,
            permitted_tools: contract.authority.tools.clone(),
            may_delegate: contract.authority.may_delegate.clone(),
            access: contract.authority.access,
            resources: contract.authority.resources.clone(),
            budget: Spent {
                steps: budget.steps,
                tokens: budget.tokens,
                cost: budget.cost.0,
                network: budget.network.0,
                operations: counted(&contract.allowed_operations),
            },
            held: Held {
                concurrency: budget.concurrency,
                storage: budget.storage,
                depth_left: budget.depth,
                children_left: budget.children,
                spawn_per_minute: budget.spawn_per_minute,
            },
            deadline: now
                .plus(budget.wall_clock)
                .min(now.plus(contract.authority.valid_for)),
            join_reserve: budget.join_reserve,
            result_schema: root.result_schema,
            return_owner: None,
        }
    }

    /// The delegating run; none for a root.
    #[must_use]
    pub fn parent(&self) -> Option<&RunId> {
        self.parent_run_id.as_ref()
    }

    /// The run whose envelope this is.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.child_run_id
    }

    /// Whose data and keys.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// For whom the run acts.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// What is to be achieved; text without authority.
    #[must_use]
    pub fn objective(&self) -> &str {
        &self.objective
    }

    /// What counts as done; text without authority.
    #[must_use]
    pub fn completion(&self) -> &str {
        &self.completion
    }

    /// What may be read beside the results of its own tools.
    #[must_use]
    pub fn input_refs(&self) -> &BTreeSet<String> {
        &self.input_refs
    }

    /// The tools that the run may call.
    #[must_use]
    pub fn permitted_tools(&self) -> &BTreeSet<ToolName> {
        &self.permitted_tools
    }

    /// The tools that it may pass on but not call.
    #[must_use]
    pub fn may_delegate(&self) -> &BTreeSet<ToolName> {
        &self.may_delegate
    }

    /// None, reads or writes.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Which resources.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// What is granted of everything that is spent.
    #[must_use]
    pub fn budget(&self) -> &Spent {
        &self.budget
    }

    /// Limits on what is held.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Until when, absolute.
    #[must_use]
    pub fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// Time that the run keeps for its own synthesis: no child may run into it.
    #[must_use]
    pub fn join_reserve(&self) -> Millis {
        self.join_reserve
    }

    /// What its result must look like.
    #[must_use]
    pub fn result_schema(&self) -> Option<&SchemaRef> {
        self.result_schema.as_ref()
    }

    /// To whom the result goes.
    #[must_use]
    pub fn return_owner(&self) -> Option<&RunId> {
        self.return_owner.as_ref()
    }
}
