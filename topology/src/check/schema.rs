//! JSON Schemas, as far as reading them shows: what they declare, and that they refer to nothing outside.

use coppice_messages::Value;

use crate::load::{Diagnostic, Loaded};

/// A schema is a map (or true, or false), and every `$ref` stays in the document.
pub(super) fn check<T>(loaded: &Loaded<T>, at: &[&str], faults: &mut Vec<Diagnostic>) {
    let Some(yaml) = loaded.yaml.find(at) else {
        return;
    };
    if !yaml.is_map() && !yaml.is_bool() {
        faults.push(
            loaded
                .at_value(at, "this is no JSON Schema")
                .help("write a map, such as { type: object }"),
        );
    }
    yaml.visit(&mut |key, value| {
        let remote = value.as_text().filter(|text| !text.starts_with('#'));
        if let (Some("$ref"), Some(remote)) = (key, remote) {
            let message = format!("$ref {remote:?} leads out of the document");
            faults.push(
                Diagnostic::new(&loaded.file, value.at, message)
                    .help("put the definition under $defs and cite it as #/$defs/NAME"),
            );
        }
    });
}

/// What a schema says about a place in the values that it describes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Declared<'a> {
    /// This schema describes it.
    As(&'a Value),
    /// Nothing is said: anything may be there.
    Open,
    /// The schema lists what is there, and this is not in the list.
    Unknown {
        /// Such as `/results/0`.
        parent: &'a str,
        /// The schema of the parent.
        schema: &'a Value,
    },
}

/// Follows a JSON Pointer into a schema.
pub(super) fn follow<'a>(schema: &'a Value, pointer: &'a str) -> Declared<'a> {
    let mut here = schema;
    let mut done = 0;
    for step in pointer.split('/').skip(1) {
        let Value::Map(map) = here else {
            return Declared::Open;
        };
        let says_more = ["$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"];
        if says_more.iter().any(|key| map.contains_key(*key)) {
            return Declared::Open;
        }
        let key = step.replace("~1", "/").replace("~0", "~");
        let unknown = Declared::Unknown {
            parent: pointer.get(..done).unwrap_or_default(),
            schema: here,
        };
        let next = match map.get("type").and_then(Value::as_text) {
            Some("array") => match (key.parse::<usize>(), map.get("items")) {
                (Err(_), _) => return unknown,
                (Ok(_), Some(items)) if !map.contains_key("prefixItems") => items,
                (Ok(_), _) => return Declared::Open,
            },
            Some("object") | None => match map.get("properties") {
                Some(Value::Map(properties)) => match properties.get(&key) {
                    Some(property) => property,
                    None => return unknown,
                },
                _ => return Declared::Open,
            },
            Some(_) => return unknown,
        };
        here = next;
        done += 1 + step.len();
    }
    Declared::As(here)
}

/// The keys that an object's schema lists.
pub(super) fn properties(schema: &Value) -> Vec<&str> {
    match schema.at("/properties") {
        Some(Value::Map(properties)) => properties.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}
