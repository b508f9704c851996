//! References, templates and conditions: how one part of a file takes a value from elsewhere. Data, not an expression language.

mod written;

use std::collections::BTreeMap;

use coppice_messages::{Value, ids::NodeName};
use serde::{Deserialize, Serialize};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// What the run was started with.
    Input,
    /// The item that a child works on.
    Item,
    /// The value of a finished node.
    Node(NodeName),
    /// The arguments of the call.
    Arguments,
    /// The receipt of the effect.
    Receipt,
    /// The body of an answer.
    Body,
    /// What a check read.
    Check,
}

/// A value elsewhere: `{ from: input, at: /incidents/0 }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Where.
    pub from: Source,
    /// JSON Pointer into it; empty for the whole.
    pub at: String,
}

/// A value with references in it.
#[derive(Debug, Clone, PartialEq)]
pub enum Template {
    /// As it stands.
    Literal(Value),
    /// Taken from elsewhere.
    Reference(Reference),
    /// An array with references in it.
    List(Vec<Template>),
    /// An object with references in it.
    Map(BTreeMap<String, Template>),
}

/// A condition over templates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Both are equal.
    Eq([Template; 2]),
    /// They differ.
    Ne([Template; 2]),
    /// The first is less: two numbers, or two texts.
    Lt([Template; 2]),
    /// The first is greater: two numbers, or two texts.
    Gt([Template; 2]),
    /// The first is one of the second's items.
    In([Template; 2]),
    /// It can be found.
    Exists(Template),
    /// All hold.
    All(Vec<Condition>),
    /// One holds.
    Any(Vec<Condition>),
    /// It does not hold.
    Not(Box<Condition>),
}

/// What references are looked up in.
pub trait Scope {
    /// The value of a source, if it is there.
    fn value(&self, source: &Source) -> Option<Value>;
}

impl<F: Fn(&Source) -> Option<Value>> Scope for F {
    fn value(&self, source: &Source) -> Option<Value> {
        self(source)
    }
}

/// A reference that leads to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reference} leads to nothing")]
pub struct Dangling {
    /// Which.
    pub reference: Reference,
}

impl Reference {
    /// Looks it up.
    ///
    /// # Errors
    /// [`Dangling`] when the source or the place in it is not there.
    pub fn resolve(&self, scope: &dyn Scope) -> Result<Value, Dangling> {
        let found = scope
            .value(&self.from)
            .and_then(|value| value.at(&self.at).cloned());
        found.ok_or_else(|| Dangling {
            reference: self.clone(),
        })
    }
}

impl Template {
    /// The value, with every reference looked up.
    ///
    /// # Errors
    /// The first reference that leads to nothing.
    pub fn resolve(&self, scope: &dyn Scope) -> Result<Value, Dangling> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Reference(reference) => reference.resolve(scope),
            Self::List(list) => list
                .iter()
                .map(|item| item.resolve(scope))
                .collect::<Result<_, _>>()
                .map(Value::List),
            Self::Map(map) => map
                .iter()
                .map(|(key, item)| Ok((key.clone(), item.resolve(scope)?)))
                .collect::<Result<_, _>>()
                .map(Value::Map),
        }
    }

    /// Every reference in it.
    pub fn references(&self) -> Vec<&Reference> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::Reference(reference) => vec![reference],
            Self::List(list) => list.iter().flat_map(Self::references).collect(),
            Self::Map(map) => map.values().flat_map(Self::references).collect(),
        }
    }
}

impl Condition {
    /// Whether it holds; a reference that leads to nothing makes a comparison false.
    #[must_use]
    pub fn holds(&self, scope: &dyn Scope) -> bool {
        let both = |pair: &[Template; 2]| {
            Some((pair[0].resolve(scope).ok()?, pair[1].resolve(scope).ok()?))
        };
        match self {
            Self::Eq(pair) => both(pair).is_some_and(|(a, b)| a == b),
            Self::Ne(pair) => both(pair).is_some_and(|(a, b)| a != b),
            Self::Lt(pair) => both(pair).is_some_and(|(a, b)| less(&a, &b)),
            Self::Gt(pair) => both(pair).is_some_and(|(a, b)| less(&b, &a)),
            Self::In(pair) => {
                both(pair).is_some_and(|(a, b)| b.as_list().is_some_and(|list| list.contains(&a)))
            }
            Self::Exists(template) => template.resolve(scope).is_ok(),
            Self::All(list) => list.iter().all(|condition| condition.holds(scope)),
            Self::Any(list) => list.iter().any(|condition| condition.holds(scope)),
            Self::Not(condition) => !condition.holds(scope),
        }
    }

    /// Why a comparison does not hold: what was expected, and what is there. Nothing for conditions that are made of others.
    #[must_use]
    pub fn expected_and_seen(&self, scope: &dyn Scope) -> Option<(String, String)> {
        let (words, pair) = match self {
            Self::Eq(pair) => ("", pair),
            Self::Ne(pair) => ("something else than ", pair),
            Self::Lt(pair) => ("less than ", pair),
            Self::Gt(pair) => ("more than ", pair),
            Self::In(pair) => ("one of ", pair),
            Self::Exists(_) | Self::All(_) | Self::Any(_) | Self::Not(_) => return None,
        };
        let shown = |template: &Template| {
            let value = template.resolve(scope);
            value.map_or_else(|dangling| dangling.to_string(), |value| value.to_string())
        };
        // What is read stands on either side.
        let is_read = |template: &Template| !template.references().is_empty();
        let (seen, wanted) = match pair {
            [a, b] if is_read(b) && !is_read(a) && matches!(self, Self::Eq(_) | Self::Ne(_)) => {
                (b, a)
            }
            [a, b] => (a, b),
        };
        Some((format!("{words}{}", shown(wanted)), shown(seen)))
    }

    /// Every reference in it.
    pub fn references(&self) -> Vec<&Reference> {
        match self {
            Self::Eq(pair) | Self::Ne(pair) | Self::Lt(pair) | Self::Gt(pair) | Self::In(pair) => {
                pair.iter().flat_map(Template::references).collect()
            }
            Self::Exists(template) => template.references(),
            Self::All(list) | Self::Any(list) => list.iter().flat_map(Self::references).collect(),
            Self::Not(condition) => condition.references(),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "integers are within ±(2^53−1), exact as floats"
)]
fn less(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => None,
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a < b,
        (_, _) => matches!((a, b), (Value::Text(a), Value::Text(b)) if a < b),
    }
}
