//! From a [`Yaml`] into a type, with serde: whatever refuses a value, the refusal gets that value's position.

use std::fmt::{self, Display};

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Expected, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};

use super::{
    diagnostic::Diagnostic,
    suggest::suggestion,
    yaml::{Member, Position, Shape, Yaml},
};

/// What is wrong, and where as soon as that is known.
#[derive(Debug)]
pub(super) struct Fault {
    at: Option<Position>,
    message: String,
    help: Option<String>,
    /// The path of a key that is missing, from the map that was read last.
    missing: Option<String>,
}

impl Fault {
    /// Innermost wins: a position that is known stays.
    fn at(mut self, position: Position) -> Self {
        self.at.get_or_insert(position);
        self
    }

    fn with_help(message: String, help: String) -> Self {
        Self {
            at: None,
            message,
            help: Some(help),
            missing: None,
        }
    }

    /// The fault stands below this key.
    fn below(mut self, key: &str) -> Self {
        self.missing = self.missing.map(|path| format!("{key}.{path}"));
        self
    }

    pub(super) fn into_diagnostic(self, file: &str) -> Diagnostic {
        let message = match &self.missing {
            Some(path) => format!("the key {path} is missing"),
            None => self.message,
        };
        let mut diagnostic = Diagnostic::new(file, self.at.unwrap_or(Position::START), message);
        diagnostic.help = self.help;
        diagnostic
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Self {
            at: None,
            message: message.to_string(),
            help: None,
            missing: None,
        }
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!(
            "expected {}, found {}",
            wanted(expected),
            found(&unexpected)
        ))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::custom(format_args!(
            "expected {}, found {length} of them",
            wanted(expected)
        ))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::with_help(
            format!("{variant:?} is not known here"),
            suggestion(variant, expected),
        )
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::with_help(
            format!("unknown key {field:?}"),
            suggestion(field, expected),
        )
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            missing: Some(field.to_owned()),
            ..Self::with_help(String::new(), format!("add {field}: …"))
        }
    }
}

/// What serde wants, in the words of the files.
fn wanted(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "u8" | "u16" | "u32" | "u64" => "a whole number, not negative".to_owned(),
        "a string" | "str" => "text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a boolean" => "true or false".to_owned(),
        text if text.starts_with("struct ") => "a map".to_owned(),
        text => match text.strip_prefix("an array of length ") {
            Some(length) => format!("a list of {length}"),
            None => text.to_owned(),
        },
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "serde's enum, which says itself how its other cases read"
)]
fn found(unexpected: &Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(value) => format!("{value}"),
        Unexpected::Unsigned(value) => format!("{value}"),
        Unexpected::Signed(value) => format!("{value}"),
        Unexpected::Float(value) => format!("{value}"),
        Unexpected::Str(text) => format!("the text {text:?}"),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a map".to_owned(),
        other => format!("{other}"),
    }
}

/// Reads one value.
#[derive(Clone, Copy)]
pub(super) struct Reader<'t>(pub(super) &'t Yaml);

impl<'t> Reader<'t> {
    fn any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.shape {
            Shape::Null => visitor.visit_unit(),
            Shape::Bool(value) => visitor.visit_bool(*value),
            Shape::Int(value) => match u64::try_from(*value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(*value),
            },
            Shape::Big(value) => visitor.visit_u64(*value),
            Shape::Float(value) => visitor.visit_f64(*value),
            Shape::Text(text) => visitor.visit_str(text),
            Shape::List(list) => {
                let mut items = Items(list.iter());
                let value = visitor.visit_seq(&mut items)?;
                match items.0.len() {
                    0 => Ok(value),
                    more => Err(de::Error::custom(format_args!(
                        "expected a list of {}, found {} of them",
                        list.len() - more,
                        list.len()
                    ))),
                }
            }
            Shape::Map(members) => visitor.visit_map(Members {
                rest: members.iter(),
                value: None,
            }),
        }
    }

    fn text<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.shape {
            Shape::Int(number) => visitor.visit_string(number.to_string()),
            Shape::Null
            | Shape::Bool(_)
            | Shape::Big(_)
            | Shape::Float(_)
            | Shape::Text(_)
            | Shape::List(_)
            | Shape::Map(_) => self.any(visitor),
        }
    }
}

macro_rules! as_any {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.any(visitor).map_err(|fault| fault.at(self.0.at))
        })*
    };
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Fault;

    as_any! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_seq deserialize_map deserialize_ignored_any
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    /// A number written where text is wanted is that text: `max_bytes: 512`.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.text(visitor).map_err(|fault| fault.at(self.0.at))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = if self.0.shape == Shape::Null {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        };
        value.map_err(|fault| fault.at(self.0.at))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor
            .visit_newtype_struct(self)
            .map_err(|fault| fault.at(self.0.at))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let known = || variants.join(", ");
        let variant = match &self.0.shape {
            Shape::Text(word) => Variant {
                word,
                at: self.0.at,
                body: None,
            },
            Shape::Map(members) => match members.as_slice() {
                [one] => Variant {
                    word: &one.key,
                    at: one.at,
                    body: Some(&one.value),
                },
                _ => {
                    let message = format!("expected one key, found {} of them", members.len());
                    return Err(
                        Fault::with_help(message, format!("one of {}", known())).at(self.0.at)
                    );
                }
            },
            Shape::Null
            | Shape::Bool(_)
            | Shape::Int(_)
            | Shape::Big(_)
            | Shape::Float(_)
            | Shape::List(_) => {
                let message = "expected a word or a map with one key".to_owned();
                return Err(Fault::with_help(message, format!("one of {}", known())).at(self.0.at));
            }
        };
        visitor
            .visit_enum(variant)
            .map_err(|fault| fault.at(self.0.at))
    }
}

/// The items of a list.
struct Items<'t>(std::slice::Iter<'t, Yaml>);

impl<'de> SeqAccess<'de> for &mut Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        self.0
            .next()
            .map(|item| {
                seed.deserialize(Reader(item))
                    .map_err(|fault| fault.at(item.at))
            })
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The members of a map.
struct Members<'t> {
    rest: std::slice::Iter<'t, Member>,
    value: Option<&'t Member>,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some(member) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some(member);
        seed.deserialize(de::value::StrDeserializer::<Fault>::new(&member.key))
            .map(Some)
            .map_err(|fault| fault.at(member.at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        match self.value.take() {
            Some(Member { key, value, .. }) => seed
                .deserialize(Reader(value))
                .map_err(|fault| fault.at(value.at).below(key)),
            None => Err(de::Error::custom("a value without a key")),
        }
    }
}

/// One word, or one key with its body.
struct Variant<'t> {
    word: &'t str,
    at: Position,
    body: Option<&'t Yaml>,
}

impl<'t> Variant<'t> {
    fn body(&self) -> Result<Reader<'t>, Fault> {
        self.body.map(Reader).ok_or_else(|| {
            let message = format!("{} needs a value", self.word);
            Fault::with_help(message, format!("write {{ {}: … }}", self.word)).at(self.at)
        })
    }
}

impl<'de, 't> EnumAccess<'de> for Variant<'t> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let word = seed
            .deserialize(de::value::StrDeserializer::<Fault>::new(self.word))
            .map_err(|fault| fault.at(self.at))?;
        Ok((word, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.body {
            None => Ok(()),
            Some(_) => Err(Fault::with_help(
                format!("{} takes no value", self.word),
                format!("write {}", self.word),
            )
            .at(self.at)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        let body = self.body()?;
        seed.deserialize(body).map_err(|fault| fault.at(body.0.at))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.body()?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.body()?.deserialize_map(visitor)
    }
}
