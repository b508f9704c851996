//! Commented starter files: each is valid as it is written, and says what to change.

use crate::args::SchemaKind;

/// Stands for the name that was given.
const NAME: &str = "NAME";

/// The folder in which files of a kind are looked for, if they have one, and the starter.
pub fn of(kind: SchemaKind, name: &str) -> (Option<&'static str>, String) {
    let (folder, text) = match kind {
        SchemaKind::Topology => (Some("topologies"), include_str!("starter/topology.yaml")),
        SchemaKind::Contract => (Some("contracts"), include_str!("starter/contract.yaml")),
        SchemaKind::Tool => (Some("tools"), include_str!("starter/tool.yaml")),
        SchemaKind::Model => (Some("models"), include_str!("starter/model.yaml")),
        SchemaKind::Scenario => (None, include_str!("starter/scenario.yaml")),
    };
    (folder, text.replace(NAME, name))
}
