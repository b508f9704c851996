//! A JSON Schema inside a contract.

use std::sync::OnceLock;

use coppice_messages::{Digest, Value};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A JSON Schema as it stands in a contract. It knows its digest once it was asked for: each call is held against it, and making the
/// canonical form anew each time cost more than the check.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    document: Value,
    digest: OnceLock<Digest>,
}

impl Schema {
    /// What is written.
    #[must_use]
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// SHA-256 over its canonical bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        *self.digest.get_or_init(|| self.document.digest())
    }
}

impl From<Value> for Schema {
    fn from(document: Value) -> Self {
        Self {
            document,
            digest: OnceLock::new(),
        }
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.document == other.document
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}
