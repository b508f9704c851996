//! JSON data inside events: arguments, results, answers.
//!
//! Not `serde_json::Value`: its map order and number forms depend on features that any crate of the build can switch on.
//! Here objects are ordered by key, a key stands once, numbers are integers within ±(2^53−1) or finite floats, and nesting ends at
//! [`DEPTH_MAX`]. What does not fit is refused on the way in, so a digest over a value is well defined; a value that code has built
//! outside these limits is refused on the way out, so that nothing is recorded that cannot be read again.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::digest::Digest;

/// Greatest nesting of arrays and objects.
pub const DEPTH_MAX: usize = 64;
/// Greatest magnitude of an integer: above it JSON readers disagree.
pub const INTEGER_MAX: i64 = (1 << 53) - 1;

const TOO_DEEP: &str = "nested deeper than 64";

/// One JSON value.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number within ±(2^53−1).
    Int(i64),
    /// A finite number that is not whole.
    Float(f64),
    /// Text.
    Text(String),
    /// An array.
    List(Vec<Value>),
    /// An object, ordered by key.
    Map(BTreeMap<String, Value>),
}

impl Value {
    /// The value at a JSON Pointer (RFC 6901); `""` is the whole.
    #[must_use]
    pub fn at(&self, pointer: &str) -> Option<&Value> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer
            .strip_prefix('/')?
            .split('/')
            .try_fold(self, |value, step| match value {
                Self::Map(map) => map.get(&step.replace("~1", "/").replace("~0", "~")),
                Self::List(list) => index(step).and_then(|at| list.get(at)),
                Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Text(_) => None,
            })
    }

    /// The canonical JSON bytes (RFC 8785), over which digests are made.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        // Only a value that code has built outside the limits of the module has no canonical form; `Commit::encode` refuses it.
        serde_json_canonicalizer::to_vec(self).unwrap_or_default()
    }

    /// SHA-256 over the canonical bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.canonical())
    }

    /// The text, if this is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// The items, if this is an array.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Self::List(list) = self {
            Some(list)
        } else {
            None
        }
    }

    /// An object of these members.
    pub fn map<K: Into<String>>(members: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Map(
            members
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        )
    }

    /// Parses JSON text.
    ///
    /// # Errors
    /// Malformed text, a duplicate key, a number that cannot be kept exactly, nesting over [`DEPTH_MAX`].
    pub fn parse(json: &[u8]) -> Result<Self, InvalidValue> {
        let value: Self = serde_json::from_slice(json).map_err(|e| InvalidValue {
            reason: e.to_string(),
        })?;
        Ok(value)
    }
}

/// Text that is not a [`Value`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not usable as JSON data: {reason}")]
pub struct InvalidValue {
    /// What is wrong, with line and column.
    pub reason: String,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.canonical()))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

/// An index of RFC 6901: digits without a leading zero.
fn index(step: &str) -> Option<usize> {
    let plain = step == "0" || !step.starts_with(['0', '+']);
    step.parse().ok().filter(|_| plain)
}

fn whole(value: i64) -> Result<Value, String> {
    if value.unsigned_abs() <= INTEGER_MAX.unsigned_abs() {
        Ok(Value::Int(value))
    } else {
        Err(too_large(value))
    }
}

/// 1.0 and 1 are one JSON number and must have one digest.
fn number(value: f64) -> Result<Value, String> {
    if !value.is_finite() {
        return Err("a number that is not finite".to_owned());
    }
    if value.fract() != 0.0 {
        return Ok(Value::Float(value));
    }
    if value.abs() > INTEGER_MAX as f64 {
        return Err(too_large(value));
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the bound is checked above"
    )]
    Ok(Value::Int(value as i64))
}

fn too_large(number: impl fmt::Display) -> String {
    format!("the number {number} is outside ±(2^53−1); write it as text")
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Nested(self, 0).serialize(serializer)
    }
}

/// A value and how many arrays and objects stand around it.
struct Nested<'a>(&'a Value, usize);

impl Serialize for Nested<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, around) = *self;
        match value {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Int(value) => {
                whole(*value).map_err(ser::Error::custom)?;
                serializer.serialize_i64(*value)
            }
            Value::Float(value) => {
                let number = number(*value).map_err(ser::Error::custom)?;
                if let Value::Int(value) = number {
                    serializer.serialize_i64(value)
                } else {
                    serializer.serialize_f64(*value)
                }
            }
            Value::Text(value) => serializer.serialize_str(value),
            Value::List(_) | Value::Map(_) if around >= DEPTH_MAX => {
                Err(ser::Error::custom(TOO_DEEP))
            }
            Value::List(list) => {
                serializer.collect_seq(list.iter().map(|item| Nested(item, around + 1)))
            }
            Value::Map(map) => serializer.collect_map(
                map.iter()
                    .map(|(key, item)| (key, Nested(item, around + 1))),
            ),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor { depth: 0 })
    }
}

struct Visitor {
    depth: usize,
}

impl<'de> de::DeserializeSeed<'de> for Visitor {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor {
    fn deeper<E: de::Error>(&self) -> Result<usize, E> {
        if self.depth < DEPTH_MAX {
            Ok(self.depth + 1)
        } else {
            Err(E::custom(TOO_DEEP))
        }
    }
}

impl<'de> de::Visitor<'de> for Visitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON data")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        whole(value).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(E::custom(too_large(value))),
        }
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        number(value).map_err(E::custom)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = access.next_element_seed(Visitor { depth })? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut map = BTreeMap::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!(
                    "the key {key:?} stands twice"
                )));
            }
            map.insert(key, access.next_value_seed(Visitor { depth })?);
        }
        Ok(Value::Map(map))
    }
}
