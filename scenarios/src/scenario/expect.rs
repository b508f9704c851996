//! What must hold when a scenario has ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use coppice_messages::{
    Value,
    event::{self, run::Reason},
    ids::SchemaName,
};
use serde::{Deserialize, Deserializer, Serialize, de};

/// What must hold. Beside it every scenario is checked for what nobody ever wants: effects done twice, work lost, evidence missing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// How the tree ends.
    pub reason: Reason,
    /// The class of its end.
    #[serde(default)]
    pub class: Option<String>,
    /// What the desk has at the end.
    #[serde(default)]
    pub desk: BTreeMap<DeskCount, Count>,
    /// How many events of a kind the tree and the host recorded.
    #[serde(default)]
    pub events: BTreeMap<EventKind, Count>,
    /// What the answer looks like.
    #[serde(default)]
    pub answer: Option<Answer>,
    /// Kinds of which there is none.
    #[serde(default)]
    pub never: BTreeSet<EventKind>,
    /// Kinds that the root recorded in this order, with others in between.
    #[serde(default)]
    pub trajectory: Vec<EventKind>,
    /// What a rebuild from the log gives.
    #[serde(default)]
    pub rebuild: Option<Rebuild>,
    /// How runs end, by a pattern over their paths: each that it means ends so, and there is one.
    #[serde(default)]
    pub ends: BTreeMap<String, Reason>,
    /// Outcomes of a join's members, in declared order, by the path of its run and its slot: `root/vote: [succeeded, failed, open]`. It is
    /// decided once.
    #[serde(default)]
    pub joins: BTreeMap<String, Vec<String>>,
    /// How many proposals were refused at a place of them: `/delegate/depth_left: 5`.
    #[serde(default)]
    pub refused: BTreeMap<String, Count>,
    /// How often the host or an actor was started again.
    #[serde(default)]
    pub restarts: Option<Count>,
}

/// What the desk counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeskCount {
    /// Tickets that exist.
    Tickets,
    /// Refunds that were paid.
    Refunds,
    /// Files that exist.
    Files,
    /// Requests that change nothing.
    Reads,
    /// Callbacks that were answered.
    Callbacks,
}

impl DeskCount {
    /// Its key in a scenario.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tickets => "tickets",
            Self::Refunds => "refunds",
            Self::Files => "files",
            Self::Reads => "reads",
            Self::Callbacks => "callbacks",
        }
    }
}

/// What the answer looks like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// It meets this schema.
    #[serde(default)]
    pub schema: Option<SchemaName>,
    /// It is this.
    #[serde(default)]
    pub equals: Option<Value>,
}

/// What a rebuild from the log gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rebuild {
    /// The same state as the live host's and the stream's.
    Equal,
}

/// A kind of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct EventKind(String);

impl EventKind {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventKind {
    type Err = String;
    fn from_str(kind: &str) -> Result<Self, String> {
        if event::KINDS.iter().any(|(known, _)| *known == kind) {
            return Ok(Self(kind.to_owned()));
        }
        let group = kind.split('.').next().unwrap_or_default();
        let near: Vec<_> = event::KINDS
            .iter()
            .map(|(known, _)| *known)
            .filter(|known| known.split('.').next() == Some(group))
            .collect();
        let hint = if near.is_empty() {
            "coppice schema scenario lists them".to_owned()
        } else {
            format!("of {group} there are {}", near.join(", "))
        };
        Err(format!("{kind:?} is no kind of event: {hint}"))
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kind = String::deserialize(deserializer)?;
        kind.parse().map_err(de::Error::custom)
    }
}

/// A number, or bounds of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    at_least: u64,
    at_most: u64,
}

impl Count {
    /// Exactly so many.
    #[must_use]
    pub fn exactly(count: u64) -> Self {
        Self {
            at_least: count,
            at_most: count,
        }
    }

    /// So many or more.
    #[must_use]
    pub fn at_least(count: u64) -> Self {
        Self {
            at_least: count,
            at_most: u64::MAX,
        }
    }

    /// The same, and as many more as there are.
    #[must_use]
    pub fn or_more(self) -> Self {
        Self::at_least(self.at_least)
    }

    /// The same, or down to none.
    #[must_use]
    pub fn or_fewer(self) -> Self {
        Self {
            at_least: 0,
            ..self
        }
    }

    /// Whether a number is as expected.
    #[must_use]
    pub fn holds(&self, seen: u64) -> bool {
        (self.at_least..=self.at_most).contains(&seen)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at_least, self.at_most) {
            (least, most) if least == most => write!(f, "{least}"),
            (least, u64::MAX) => write!(f, "at least {least}"),
            (0, most) => write!(f, "at most {most}"),
            (least, most) => write!(f, "{least} to {most}"),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Bounds {
            at_least: Option<u64>,
            at_most: Option<u64>,
        }
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or { at_least: … } or { at_most: … }")
            }
            fn visit_u64<E>(self, count: u64) -> Result<Count, E> {
                Ok(Count::exactly(count))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Count, A::Error> {
                let bounds = Bounds::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let count = Count {
                    at_least: bounds.at_least.unwrap_or(0),
                    at_most: bounds.at_most.unwrap_or(u64::MAX),
                };
                let given = bounds.at_least.is_some() || bounds.at_most.is_some();
                if !given || count.at_least > count.at_most {
                    return Err(de::Error::custom(
                        "no number is within these bounds: write { at_least: 1 }",
                    ));
                }
                Ok(count)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
