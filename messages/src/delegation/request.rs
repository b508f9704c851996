//! What a parent asks for a child, as people write it. Authority comes only from what [`super::Delegation::narrow`] makes of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    budget::{Spent, counted},
    ids::{RunId, TenantId, ToolName},
    scope::{Access, Operation, Pattern},
    units::{Bytes, MicroUsd, Millis, Timestamp},
};

/// A file or a block with the outer key `delegation:` (the seeds' notation).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestDocument {
    /// The request.
    pub delegation: Request,
}

/// Everything but `objective` may be left out; what that means stands at each field.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Absent: the chain's own parent. Present: must be it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// Absent: the derived id. Present: must be it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<RunId>,
    /// Text for model and people.
    pub objective: String,
    /// What the child may read; absent: nothing but its item.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub input_refs: BTreeSet<String>,
    /// Absent: the agent's declared tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permitted_tools: Option<BTreeSet<ToolName>>,
    /// Absent: none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub may_delegate: BTreeSet<ToolName>,
    /// Absent: no access.
    #[serde(default)]
    pub authority_scope: AuthorityScope,
    /// At most what the parent's rules cover; absent: none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub resources: BTreeSet<Pattern>,
    /// Beside the parent's denies, which are inherited.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deny: BTreeSet<Pattern>,
    /// Absent dimensions get an equal share of what the parent has left.
    #[serde(default)]
    pub budget: BudgetRequest,
    /// How many operations of each class; absent: an equal share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<BTreeMap<Operation, u64>>,
    /// Absolute. Absent: the parent's less its join reserve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Absent: the agent's declared schema. Present: must be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<crate::ids::SchemaName>,
    /// Text for model and people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub completion: String,
    /// Absent: the delegating run. Present: must be it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_owner: Option<RunId>,
    /// Further levels below the child; absent: none.
    #[serde(default)]
    pub depth_left: u32,
    /// Children of the child; absent: none.
    #[serde(default)]
    pub children_left: u32,
    /// Children that the child may make within a minute; absent: as many as `children_left`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawn_per_minute: Option<u32>,
    /// Time that the child keeps for its own synthesis.
    #[serde(default)]
    pub join_reserve: Millis,
}

/// Tenant and access.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorityScope {
    /// Absent: the parent's. Present: must be it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// At most the parent's.
    #[serde(default)]
    pub access: Access,
}

/// Amounts asked for. An absent one is filled in before narrowing (spent) or zero (held).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetRequest {
    /// Model calls and tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// Bytes to and from tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Bytes>,
    /// Bytes of artifacts held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Bytes>,
    /// Live children at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// From the child's opening; becomes part of its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_clock: Option<Millis>,
}

impl Request {
    /// What is asked of everything that is spent; an absent dimension takes `share`'s.
    #[must_use]
    pub fn spent(&self, share: &Spent) -> Spent {
        Spent {
            steps: self.budget.steps.unwrap_or(share.steps),
            tokens: self.budget.tokens.unwrap_or(share.tokens),
            cost: self.budget.cost.map_or(share.cost, |money| money.0),
            network: self.budget.network.map_or(share.network, |bytes| bytes.0),
            operations: counted(self.operations.as_ref().unwrap_or(&share.operations)),
        }
    }
}
