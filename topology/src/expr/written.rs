//! How references and templates are written: the map `{from: …, at: …}`, and anything else as it stands.

use std::{collections::BTreeMap, fmt};

use coppice_messages::{Value, ids::InvalidId, value::DEPTH_MAX};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed as _, Error as _},
};

use super::{Reference, Source, Template};

impl Template {
    fn to_value(&self) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Reference(reference) => reference.to_value(),
            Self::List(list) => Value::List(list.iter().map(Self::to_value).collect()),
            Self::Map(map) => Value::Map(
                map.iter()
                    .map(|(key, item)| (key.clone(), item.to_value()))
                    .collect(),
            ),
        }
    }
}

impl Reference {
    fn of(map: &BTreeMap<String, Value>) -> Result<Self, String> {
        let text = |key: &str| match map.get(key) {
            Some(Value::Text(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(format!("{key} of a reference must be text, not {other}")),
            None => Ok(None),
        };
        if let Some(other) = map
            .keys()
            .find(|key| !matches!(key.as_str(), "from" | "at"))
        {
            return Err(format!(
                "unknown key {other:?} in a reference: it has from and at"
            ));
        }
        let at = text("at")?.unwrap_or_default();
        if !at.is_empty() && !at.starts_with('/') {
            return Err(format!("at: {at:?} is no JSON Pointer: it begins with /"));
        }
        let from = text("from")?.unwrap_or_default().parse()?;
        Ok(Self {
            from,
            at: at.to_owned(),
        })
    }

    fn to_value(&self) -> Value {
        let from = ("from".to_owned(), Value::Text(self.from.to_string()));
        let at = (!self.at.is_empty()).then(|| ("at".to_owned(), Value::Text(self.at.clone())));
        Value::Map(std::iter::once(from).chain(at).collect())
    }
}

impl std::str::FromStr for Source {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "input" => Self::Input,
            "item" => Self::Item,
            "arguments" => Self::Arguments,
            "receipt" => Self::Receipt,
            "body" => Self::Body,
            "check" => Self::Check,
            node => Self::Node(node.parse().map_err(|invalid: InvalidId| {
                format!("{invalid}; a reference comes from input, item, arguments, receipt, body, check or a node")
            })?),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input => f.write_str("input"),
            Self::Item => f.write_str("item"),
            Self::Node(node) => write!(f, "{node}"),
            Self::Arguments => f.write_str("arguments"),
            Self::Receipt => f.write_str("receipt"),
            Self::Body => f.write_str("body"),
            Self::Check => f.write_str("check"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.is_empty() {
            write!(f, "{{from: {}}}", self.from)
        } else {
            write!(f, "{{from: {}, at: {}}}", self.from, self.at)
        }
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TemplateVisitor { depth: 0 }.deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Template::deserialize(deserializer)? {
            Template::Reference(reference) => Ok(reference),
            other @ (Template::Literal(_) | Template::List(_) | Template::Map(_)) => {
                Err(D::Error::custom(format_args!(
                    "{} is no reference: write {{from: …, at: …}}",
                    other.to_value()
                )))
            }
        }
    }
}

/// Goes down level by level, not through a [`Value`], so that a refusal stands at the reference that is wrong.
#[derive(Clone, Copy)]
struct TemplateVisitor {
    depth: usize,
}

impl TemplateVisitor {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.depth < DEPTH_MAX {
            Ok(Self {
                depth: self.depth + 1,
            })
        } else {
            Err(E::custom(format_args!("nested deeper than {DEPTH_MAX}")))
        }
    }

    fn scalar<E: de::Error>(value: impl de::IntoDeserializer<'static, E>) -> Result<Template, E> {
        Value::deserialize(value.into_deserializer()).map(Template::Literal)
    }
}

impl<'de> de::DeserializeSeed<'de> for TemplateVisitor {
    type Value = Template;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Template, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for TemplateVisitor {
    type Value = Template;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a reference")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Template, E> {
        Ok(Template::Literal(Value::Null))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Template, E> {
        Self::scalar(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Template, E> {
        Self::scalar(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Template, E> {
        Self::scalar(value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Template, E> {
        Self::scalar(value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Template, E> {
        Ok(Template::Literal(Value::from(value)))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Template, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = access.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Template::List(list))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Template, A::Error> {
        let inner = self.deeper()?;
        let mut map = BTreeMap::new();
        while let Some(key) = access.next_key::<String>()? {
            let item = access.next_value_seed(inner)?;
            if map.insert(key.clone(), item).is_some() {
                return Err(A::Error::custom(format_args!(
                    "the key {key:?} stands twice"
                )));
            }
        }
        if !map.contains_key("from") {
            return Ok(Template::Map(map));
        }
        let values = map
            .iter()
            .map(|(key, item)| (key.clone(), item.to_value()))
            .collect();
        Reference::of(&values)
            .map(Template::Reference)
            .map_err(A::Error::custom)
    }
}
