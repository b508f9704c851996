//! People of a scenario: what each does, and on what.

use coppice_messages::Value;
use serde::Deserialize;

use super::EventKind;

/// Somebody who does something once an event of the tree is recorded.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// What they wait for: the first event of this kind.
    pub event: EventKind,
    /// What they do then.
    #[serde(rename = "do")]
    pub deed: Deed,
    /// How often they do it; each time it is the same.
    #[serde(default = "once")]
    pub times: u32,
}

/// What somebody does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// Signals the root.
    Signal(Signal),
}

/// A signal to the root.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// Its name.
    pub name: String,
    /// What it says.
    #[serde(default)]
    pub value: Value,
}

fn once() -> u32 {
    1
}
