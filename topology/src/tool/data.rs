//! Which data a tool handles, where they may go, and what of a result is never kept.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Tool;

/// What a contract says about data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// How sensitive results are.
    pub class: DataClass,
    /// Where requests may go: base URLs such as `{desk}`, or scheme and host such as `https://api.example.com`.
    pub destinations: BTreeSet<String>,
    /// JSON Pointers to what is taken out of a result before it is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<String>,
}

/// How sensitive data are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataClass {
    /// Anybody may see them.
    Public,
    /// Whoever watches the host may see them.
    Internal,
    /// Results are kept as blobs, which watchers do not get.
    Confidential,
    /// The same, of people.
    Personal,
}

impl DataClass {
    /// Whether data of this class stay out of events.
    #[must_use]
    pub fn is_sensitive(self) -> bool {
        self >= Self::Confidential
    }
}

impl Tool {
    /// Where its requests go: as declared, else where its addresses lead.
    #[must_use]
    pub fn destinations(&self) -> BTreeSet<&str> {
        match &self.data {
            Some(data) => data.destinations.iter().map(String::as_str).collect(),
            None => self.addresses().into_iter().filter_map(origin).collect(),
        }
    }

    /// Whether its results stay out of events.
    #[must_use]
    pub fn is_sensitive(&self) -> bool {
        self.data
            .as_ref()
            .is_some_and(|data| data.class.is_sensitive())
    }
}

/// The base URL, or the scheme and host, with which an address begins.
#[must_use]
pub fn origin(address: &str) -> Option<&str> {
    if address.starts_with('{') {
        return address.find('}').and_then(|end| address.get(..=end));
    }
    let host = address.find("://")? + 3;
    let rest = address.get(host..)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    address.get(..host + end)
}
