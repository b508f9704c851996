//! The topology as it is written: one document, strict. What it means is in [`crate::Plan`].

use std::collections::BTreeMap;

use coppice_messages::{
    Value,
    ids::{AgentName, NodeName, SchemaName},
};
use serde::{Deserialize, Serialize};

use crate::{node::Node, plan::Agent};

/// A topology file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Its name.
    pub topology: String,
    /// Raised by hand with each change.
    pub version: u32,
    /// The name of the contract under which it runs.
    pub contract: String,
    /// What its answer must look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<SchemaName>,
    /// What its input must look like: JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Its agents by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<AgentName, Agent>,
    /// Its nodes by name.
    pub nodes: BTreeMap<NodeName, Node>,
}
