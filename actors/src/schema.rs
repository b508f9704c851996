//! JSON Schema: whether data have the shape that a document asks for.
//!
//! A schema is compiled once and kept by its digest. It cannot reach outside: a `$ref` to another document is refused, and its patterns run
//! in linear time, so that no answer of a model or tool can stall the host.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use coppice_messages::{Digest, Value};
use coppice_topology::tool::Schema;
use jsonschema::{PatternOptions, Validator};

use crate::limits::{SCHEMAS_KEPT, WORDS_MAX};

/// Data that do not meet a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", if path.is_empty() { "the whole" } else { path })]
pub struct Mismatch {
    /// Where in the data, as a JSON Pointer; empty for the whole.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
}

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema cannot be used: {why}")]
pub struct UnusableSchema {
    /// What is wrong with it.
    pub why: String,
}

/// Schemas as they were compiled; cheap to clone.
#[derive(Clone, Default)]
pub struct Schemas {
    compiled: Arc<Mutex<HashMap<Digest, Arc<Validator>>>>,
}

impl Schemas {
    /// None compiled yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds data against a schema; one that cannot be used is met by nothing.
    ///
    /// # Errors
    /// The first [`Mismatch`].
    pub fn check(&self, schema: &Schema, data: &Value) -> Result<(), Mismatch> {
        let compiled = self.get(schema.digest(), || Ok(schema.document().clone()));
        hold(compiled, data)
    }

    /// Holds data against a schema document, given as its exact bytes, JSON or YAML.
    ///
    /// # Errors
    /// The first [`Mismatch`].
    pub fn check_document(&self, schema: &[u8], data: &Value) -> Result<(), Mismatch> {
        let read = || {
            coppice_topology::load::schema("schema", schema)
                .map(|loaded| loaded.value)
                .map_err(|diagnostic| UnusableSchema {
                    why: diagnostic.to_string(),
                })
        };
        hold(self.get(Digest::of(schema), read), data)
    }

    /// Holds the arguments of a call against a tool's input schema. Properties that it does not name are refused, unless it says what
    /// further properties must look like.
    ///
    /// # Errors
    /// The first [`Mismatch`].
    pub fn check_arguments(&self, schema: &Schema, arguments: &Value) -> Result<(), Mismatch> {
        self.check(schema, arguments)?;
        let Value::Map(given) = arguments else {
            return Err(Mismatch {
                path: String::new(),
                why: "arguments are an object".to_owned(),
            });
        };
        let schema = schema.document();
        let says = |keyword: &str| schema.at(&format!("/{keyword}")).is_some();
        if OPEN.iter().any(|keyword| says(keyword)) {
            return Ok(());
        }
        let named = |name: &String| matches!(schema.at("/properties"), Some(Value::Map(named)) if named.contains_key(name));
        match given.keys().find(|name| !named(name)) {
            Some(unexpected) => Err(Mismatch {
                path: format!("/{}", unexpected.replace('~', "~0").replace('/', "~1")),
                why: "the tool takes no such argument".to_owned(),
            }),
            None => Ok(()),
        }
    }

    fn get(
        &self,
        digest: Digest,
        read: impl FnOnce() -> Result<Value, UnusableSchema>,
    ) -> Result<Arc<Validator>, UnusableSchema> {
        let lock = || {
            // The map is whole after a panic: entries are only added or all taken away.
            self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(known) = lock().get(&digest) {
            return Ok(known.clone());
        }
        let compiled = Arc::new(compile(&read()?)?);
        let mut all = lock();
        if all.len() >= SCHEMAS_KEPT {
            all.clear();
        }
        all.insert(digest, compiled.clone());
        Ok(compiled)
    }
}

/// Keywords that say themselves what other properties there may be.
const OPEN: [&str; 8] = [
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
];

fn compile(schema: &Value) -> Result<Validator, UnusableSchema> {
    let unusable = |why: String| UnusableSchema { why: cut(&why) };
    let schema = serde_json::to_value(schema).map_err(|error| unusable(error.to_string()))?;
    jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex())
        .build(&schema)
        .map_err(|error| unusable(error.to_string()))
}

fn hold(compiled: Result<Arc<Validator>, UnusableSchema>, data: &Value) -> Result<(), Mismatch> {
    let whole = |why: String| Mismatch {
        path: String::new(),
        why,
    };
    let compiled = compiled.map_err(|unusable| whole(unusable.to_string()))?;
    let data = serde_json::to_value(data).map_err(|error| whole(error.to_string()))?;
    compiled.validate(&data).map_err(|error| Mismatch {
        path: error.instance_path().to_string(),
        why: cut(&error.to_string()),
    })
}

/// The beginning of a text that somebody else has written.
pub(crate) fn cut(words: &str) -> String {
    let mut kept: String = words.chars().take(WORDS_MAX).collect();
    if kept.len() < words.len() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests;
