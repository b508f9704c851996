//! What a contract says about the world around a call: which resource it touches, and what the world must show before it and after it.

use coppice_messages::{Millis, Value};
use serde::{Deserialize, Serialize};

use super::Method;
use crate::expr::Condition;

/// The resource that a call touches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// Such as `queue`.
    pub kind: String,
    /// Its id, with `{arguments.NAME}`.
    pub id: String,
    /// Where its version now is read; absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionRead>,
}

/// Where the version of a resource is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRead {
    /// GET, or a POST that only reads.
    pub method: Method,
    /// With `{desk}` and `{arguments.NAME}`.
    pub url: String,
    /// JSON Pointer to the version in the answer.
    pub at: String,
}

/// A read that shows whether something holds of the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// GET, or a POST that only reads.
    pub method: Method,
    /// With `{desk}` and `{arguments.NAME}`; after the call also `{receipt.id}`, `{receipt.version}` and `{key}`.
    pub url: String,
    /// Holds of the answer's `body`.
    pub expect: Condition,
}

impl Resource {
    /// The id that these arguments give it; none when they do not say.
    #[must_use]
    pub fn id_in(&self, arguments: &Value) -> Option<String> {
        let mut id = String::new();
        let mut rest = self.id.as_str();
        while let Some((before, behind)) = rest.split_once("{arguments.") {
            let (name, after) = behind.split_once('}')?;
            id.push_str(before);
            match arguments.at(&format!("/{name}"))? {
                Value::Text(text) => id.push_str(text),
                Value::Int(number) => id.push_str(&number.to_string()),
                Value::Null | Value::Bool(_) | Value::Float(_) | Value::List(_) | Value::Map(_) => {
                    return None;
                }
            }
            rest = after;
        }
        id.push_str(rest);
        Some(id)
    }
}

impl super::Tool {
    /// Longest time from an answer that says "done" until the world shows it.
    #[must_use]
    pub fn shows_within(&self) -> Millis {
        self.absence()
            .map_or(Millis(0), |absence| absence.settles_within)
    }
}
