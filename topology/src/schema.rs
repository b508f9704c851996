//! The JSON Schemas of the files that people write, for editors and for `coppice schema KIND`.
//!
//! They say what can be said of one file by itself; what a file's references lead to is for [`crate::check`].

use std::{collections::BTreeMap, fmt, str::FromStr};

use coppice_messages::{Value, event};

/// Definitions that several kinds use.
const SHARED: &str = include_str!("schema/shared.json");

/// A kind of file with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A topology.
    Topology,
    /// A contract.
    Contract,
    /// A tool's contract.
    Tool,
    /// A scenario.
    Scenario,
    /// A model script.
    Model,
}

/// A word that is no kind of file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} has no schema: one of topology, contract, tool, scenario, model")]
pub struct UnknownKind {
    /// What was given.
    pub given: String,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Topology,
        Self::Contract,
        Self::Tool,
        Self::Scenario,
        Self::Model,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Topology => "topology",
            Self::Contract => "contract",
            Self::Tool => "tool",
            Self::Scenario => "scenario",
            Self::Model => "model",
        }
    }

    fn written(self) -> &'static str {
        match self {
            Self::Topology => include_str!("schema/topology.json"),
            Self::Contract => include_str!("schema/contract.json"),
            Self::Tool => include_str!("schema/tool.json"),
            Self::Scenario => include_str!("schema/scenario.json"),
            Self::Model => include_str!("schema/model.json"),
        }
    }

    /// The schema, whole: with every definition that it uses.
    #[must_use]
    pub fn schema(self) -> Value {
        let (mut schema, shared) = (members(self.written()), members(SHARED));
        let mut definitions = match schema.remove("$defs") {
            Some(Value::Map(definitions)) => definitions,
            _ => BTreeMap::new(),
        };
        if let Some(kind) = definitions.get_mut("kind") {
            *kind = kinds();
        }
        let mut open: Vec<String> = schema.values().flat_map(cited).collect();
        open.extend(definitions.values().flat_map(cited));
        while let Some(name) = open.pop() {
            if let (false, Some(definition)) = (definitions.contains_key(&name), shared.get(&name))
            {
                open.extend(cited(definition));
                definitions.insert(name, definition.clone());
            }
        }
        schema.insert("$defs".to_owned(), Value::Map(definitions));
        Value::Map(schema)
    }

    /// The schema as text.
    #[must_use]
    pub fn text(self) -> String {
        let text = serde_json::to_string_pretty(&self.schema());
        text.unwrap_or_default() + "\n"
    }
}

/// The catalogue of events as a schema: kept nowhere twice.
fn kinds() -> Value {
    let kinds = event::KINDS.iter().map(|(kind, _)| Value::from(*kind));
    Value::map([
        ("description", Value::from("A kind of the event catalogue.")),
        ("enum", Value::List(kinds.collect())),
    ])
}

/// The members of an object that is part of the program; a test reads each.
fn members(text: &str) -> BTreeMap<String, Value> {
    match Value::parse(text.as_bytes()) {
        Ok(Value::Map(members)) => members,
        _ => BTreeMap::new(),
    }
}

/// The names of the definitions that a schema cites.
fn cited(schema: &Value) -> Vec<String> {
    match schema {
        Value::Map(map) => map
            .iter()
            .flat_map(|(key, value)| match (key.as_str(), value) {
                ("$ref", Value::Text(to)) => to
                    .strip_prefix("#/$defs/")
                    .map(str::to_owned)
                    .into_iter()
                    .collect(),
                (_, value) => cited(value),
            })
            .collect(),
        Value::List(list) => list.iter().flat_map(cited).collect(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => {
            Vec::new()
        }
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;
    fn from_str(given: &str) -> Result<Self, UnknownKind> {
        let all = Self::ALL.into_iter();
        let mut found = all.filter(|kind| kind.word() == given);
        found.next().ok_or_else(|| UnknownKind {
            given: given.to_owned(),
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
