//! A YAML document with the position of every key and value.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{Location, Spanned};

use super::diagnostic::Diagnostic;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl Position {
    /// Where a file begins.
    pub const START: Self = Self { line: 1, column: 1 };

    fn of(location: Location) -> Self {
        Self {
            line: u32::try_from(location.line()).unwrap_or(u32::MAX).max(1),
            column: u32::try_from(location.column()).unwrap_or(u32::MAX).max(1),
        }
    }
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Yaml {
    /// Where it begins.
    pub at: Position,
    /// What it is.
    pub shape: Shape,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number above those of [`Shape::Int`].
    Big(u64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Yaml>),
    /// A map, in the order of the file.
    Map(Vec<Member>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub at: Position,
    /// Its value.
    pub value: Yaml,
}

impl Yaml {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with its form: no UTF-8, no YAML, a key that stands twice.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Diagnostic> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let good = String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or(bytes));
            let last = good.rsplit('\n').next().unwrap_or_default();
            let at = Position {
                line: u32::try_from(good.matches('\n').count() + 1).unwrap_or(u32::MAX),
                column: u32::try_from(last.chars().count() + 1).unwrap_or(u32::MAX),
            };
            Diagnostic::new(file, at, "a byte that is not UTF-8").help("save the file as UTF-8")
        })?;
        let options = serde_saphyr::options! { with_snippet: false };
        serde_saphyr::from_str_with_options::<Self>(text, options)
            .map_err(|error| refusal(file, &error))
    }

    /// The value that `path` leads to; a step into a list is its index.
    #[must_use]
    pub fn find(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |yaml, step| match &yaml.shape {
            Shape::Map(members) => members
                .iter()
                .find(|member| member.key == *step)
                .map(|member| &member.value),
            Shape::List(list) => step.parse::<usize>().ok().and_then(|at| list.get(at)),
            Shape::Null
            | Shape::Bool(_)
            | Shape::Int(_)
            | Shape::Big(_)
            | Shape::Float(_)
            | Shape::Text(_) => None,
        })
    }

    /// The items, if this is a list.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match &self.shape {
            Shape::List(items) => items,
            Shape::Null
            | Shape::Bool(_)
            | Shape::Int(_)
            | Shape::Big(_)
            | Shape::Float(_)
            | Shape::Text(_)
            | Shape::Map(_) => &[],
        }
    }

    /// The text, if this is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.shape {
            Shape::Text(text) => Some(text),
            Shape::Null
            | Shape::Bool(_)
            | Shape::Int(_)
            | Shape::Big(_)
            | Shape::Float(_)
            | Shape::List(_)
            | Shape::Map(_) => None,
        }
    }

    /// Whether this is a map.
    #[must_use]
    pub fn is_map(&self) -> bool {
        matches!(self.shape, Shape::Map(_))
    }

    /// Whether this is `true` or `false`.
    #[must_use]
    pub fn is_bool(&self) -> bool {
        matches!(self.shape, Shape::Bool(_))
    }

    /// Shows every value below this one, with its key if it has one.
    pub fn visit<'t>(&'t self, show: &mut dyn FnMut(Option<&'t str>, &'t Self)) {
        match &self.shape {
            Shape::List(items) => {
                for item in items {
                    show(None, item);
                    item.visit(show);
                }
            }
            Shape::Map(members) => {
                for member in members {
                    show(Some(&member.key), &member.value);
                    member.value.visit(show);
                }
            }
            Shape::Null
            | Shape::Bool(_)
            | Shape::Int(_)
            | Shape::Big(_)
            | Shape::Float(_)
            | Shape::Text(_) => {}
        }
    }

    /// Where the value stands that `path` leads to, or the last part of the path that is there.
    #[must_use]
    pub fn value_position(&self, path: &[&str]) -> Position {
        let there = (0..=path.len()).rev().find_map(|steps| {
            let part = path.get(..steps)?;
            self.find(part).map(|yaml| (steps, yaml.at))
        });
        match there {
            Some((steps, at)) if steps == path.len() => at,
            Some((steps, _)) => self.key_position(path.get(..steps).unwrap_or_default()),
            None => self.at,
        }
    }

    /// Where the key stands that `path` ends with; for an item of a list where the item stands.
    #[must_use]
    pub fn key_position(&self, path: &[&str]) -> Position {
        let Some((last, before)) = path.split_last() else {
            return self.at;
        };
        let members = match self.find(before).map(|yaml| &yaml.shape) {
            Some(Shape::Map(members)) => members.as_slice(),
            _ => &[],
        };
        match members.iter().find(|member| member.key == *last) {
            Some(member) => member.at,
            None => self.value_position(path),
        }
    }
}

/// The first line of what the library says, and where.
fn refusal(file: &str, error: &serde_saphyr::Error) -> Diagnostic {
    let at = error.location().map_or(Position::START, Position::of);
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error.without_snippet() {
        let key = key.as_deref().unwrap_or("of this map");
        return Diagnostic::new(file, at, format!("the key {key:?} stands twice"))
            .help("leave one of them");
    }
    let text = error.without_snippet().to_string();
    let first = text.lines().next().unwrap_or("not YAML");
    // Inside an alias the library wraps the breach, so its kind is read from the text.
    if let Some(breach) = first.strip_prefix("budget breached: ") {
        let (message, help) = if breach.starts_with("Depth") {
            ("nested deeper than 64", "flatten it")
        } else {
            (
                "the document is too large once its aliases are put in",
                "leave out the aliases",
            )
        };
        return Diagnostic::new(file, at, message).help(help);
    }
    // The library puts the position before or behind its message; ours stands in front already.
    let message = first
        .split_once(" at line ")
        .map_or(first, |(message, _)| message)
        .trim_start_matches("error: ");
    Diagnostic::new(file, at, message)
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Shape>::deserialize(deserializer)?;
        Ok(Self {
            at: Position::of(spanned.referenced),
            shape: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl<'de> de::Visitor<'de> for Visitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_none<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Shape, E> {
        Ok(Shape::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Shape, E> {
        Ok(Shape::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Shape, E> {
        Ok(i64::try_from(value).map_or(Shape::Big(value), Shape::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Shape, E> {
        Ok(Shape::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Shape, E> {
        Ok(Shape::Text(value.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Shape, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = access.next_element()? {
            list.push(item);
        }
        Ok(Shape::List(list))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Shape, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            let value = access.next_value()?;
            members.push(Member {
                key: key.value,
                at: Position::of(key.referenced),
                value,
            });
        }
        Ok(Shape::Map(members))
    }
}
