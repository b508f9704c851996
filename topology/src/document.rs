//! The topology as it is written: one document, strict. What it means is in [`crate::Plan`].

use std::{collections::BTreeMap, fmt};

use coppice_messages::{
    Contract, Value,
    ids::{AgentName, NodeName, SchemaName},
};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{node::Node, plan::Agent};

/// A topology file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Its name.
    pub topology: String,
    /// Raised by hand with each change.
    pub version: u32,
    /// The contract under which it runs.
    pub contract: ContractRef,
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

/// A contract by its name or its path, or written out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ContractRef {
    /// `contracts/NAME.yaml`, or a path with a slash.
    Named(String),
    /// Written out in the topology.
    Inline(Box<Contract>),
}

impl<'de> Deserialize<'de> for ContractRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = ContractRef;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a contract, or a contract")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<ContractRef, E> {
                Ok(ContractRef::Named(name.to_owned()))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ContractRef, A::Error> {
                let written = de::value::MapAccessDeserializer::new(map);
                Contract::deserialize(written)
                    .map(|contract| ContractRef::Inline(Box::new(contract)))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
