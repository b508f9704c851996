//! What a run may touch: access, operations and resource rules.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Ordered none < read_only < read_write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Nothing outside.
    #[default]
    None,
    /// Reads only.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::ReadOnly => "read_only",
            Self::ReadWrite => "read_write",
        })
    }
}

/// What is done to the outside: the eight words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Looks at something.
    Read,
    /// Makes something.
    Create,
    /// Changes something.
    Update,
    /// Removes something.
    Delete,
    /// Sends a message to somebody.
    Communicate,
    /// Moves money.
    Pay,
    /// Changes what runs.
    Deploy,
    /// Runs code.
    Execute,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Create,
        Self::Update,
        Self::Delete,
        Self::Communicate,
        Self::Pay,
        Self::Deploy,
        Self::Execute,
    ];

    /// The access that a tool with this operation needs.
    #[must_use]
    pub fn access(self) -> Access {
        if self == Self::Read {
            Access::ReadOnly
        } else {
            Access::ReadWrite
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Communicate => "communicate",
            Self::Pay => "pay",
            Self::Deploy => "deploy",
            Self::Execute => "execute",
        })
    }
}

/// A resource, or everything under a prefix: exact, or ending in `/*`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern(String);

/// A text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a resource pattern: write an exact name, or a prefix that ends in /*")]
pub struct InvalidPattern {
    /// What was given.
    pub given: String,
}

impl FromStr for Pattern {
    type Err = InvalidPattern;
    fn from_str(given: &str) -> Result<Self, InvalidPattern> {
        let stem = given.strip_suffix("/*").unwrap_or(given);
        if stem.is_empty() || stem.contains('*') {
            return Err(InvalidPattern {
                given: given.to_owned(),
            });
        }
        Ok(Self(given.to_owned()))
    }
}

impl Pattern {
    /// Whether every resource that `other` matches is matched by this pattern too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match self.0.strip_suffix('*') {
            // The bare prefix is a resource of its own, which this pattern does not match.
            Some(prefix) => other.0.len() > prefix.len() && other.0.starts_with(prefix),
            None => self.0 == other.0,
        }
    }

    /// Whether `resource` is matched.
    #[must_use]
    pub fn matches(&self, resource: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => resource.len() > prefix.len() && resource.starts_with(prefix),
            None => self.0 == resource,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Which resources may be touched. Denies win; the order of rules does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resources {
    /// What is allowed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allow: BTreeSet<Pattern>,
    /// What is denied whatever is allowed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub deny: BTreeSet<Pattern>,
}

impl Resources {
    /// Whether `resource` may be touched.
    #[must_use]
    pub fn permits(&self, resource: &str) -> bool {
        self.allow.iter().any(|pattern| pattern.matches(resource))
            && !self.deny.iter().any(|pattern| pattern.matches(resource))
    }

    /// Whether a rule speaks against `resource`: it is denied, or others are allowed and it is not. Without any rule nothing is refused.
    #[must_use]
    pub fn refuses(&self, resource: &str) -> bool {
        let matched = |patterns: &BTreeSet<Pattern>| patterns.iter().any(|p| p.matches(resource));
        matched(&self.deny) || (!self.allow.is_empty() && !matched(&self.allow))
    }

    /// What both permit: commutative, idempotent, and never more than either.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        let covered =
            |by: &Self, pattern: &Pattern| by.allow.iter().any(|wider| wider.covers(pattern));
        let allow = self.allow.iter().filter(|pattern| covered(other, pattern));
        let allow = allow.chain(other.allow.iter().filter(|pattern| covered(self, pattern)));
        Self {
            allow: allow.cloned().collect(),
            deny: self.deny.union(&other.deny).cloned().collect(),
        }
    }
}
