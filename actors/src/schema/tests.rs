//! Schemas: what a mismatch says, and what a schema cannot do.

use super::*;

fn value(json: &str) -> Value {
    Value::parse(json.as_bytes()).unwrap()
}

#[track_caller]
fn check(schema: &str, data: &str, expected: Result<(), (&str, &str)>) {
    let found = Schemas::new().check(&value(schema).into(), &value(data));
    let expected = expected.map_err(|(path, why)| Mismatch {
        path: path.to_owned(),
        why: why.to_owned(),
    });
    assert_eq!(found, expected);
}

#[test]
fn a_mismatch_names_the_place_and_the_reason() {
    let schema = r#"{"properties":{"a/b":{"items":{"type":"integer"}}}}"#;
    check(schema, r#"{"a/b":[1,2]}"#, Ok(()));
    let expected = ("/a~1b/1", r#""x" is not of type "integer""#);
    check(schema, r#"{"a/b":[1,"x"]}"#, Err(expected));
}

#[test]
fn a_reference_inside_the_schema_is_followed() {
    let schema = r##"{"$defs":{"n":{"type":"integer"}},"$ref":"#/$defs/n"}"##;
    check(schema, "1", Ok(()));
    check(
        schema,
        "\"x\"",
        Err(("", r#""x" is not of type "integer""#)),
    );
}

#[test]
fn a_reference_to_elsewhere_makes_the_schema_unusable() {
    for to in ["http://127.0.0.1:1/s.json", "file:///etc/passwd"] {
        let schema = value(&format!(r#"{{"$ref":"{to}"}}"#));
        let mismatch = Schemas::new()
            .check(&schema.clone().into(), &Value::Null)
            .unwrap_err();
        assert!(
            mismatch.why.starts_with("the schema cannot be used: "),
            "{mismatch}"
        );
    }
}

#[test]
fn a_pattern_that_would_run_for_ever_runs_in_linear_time() {
    let data = format!("\"{}!\"", "a".repeat(20_000));
    let found = Schemas::new().check(&value(r#"{"pattern":"^(a+)+$"}"#).into(), &value(&data));
    assert!(found.is_err());
}

#[test]
fn the_words_of_a_mismatch_are_bounded() {
    let data = format!("\"{}\"", "x".repeat(100_000));
    let mismatch = Schemas::new().check(&value(r#"{"type":"integer"}"#).into(), &value(&data));
    assert_eq!(mismatch.unwrap_err().why.chars().count(), WORDS_MAX + 1);
}

#[test]
fn a_document_is_checked_by_its_exact_bytes() {
    let schemas = Schemas::new();
    let document = b"{ \"type\" :\n \"integer\" }";
    assert_eq!(schemas.check_document(document, &Value::Int(1)), Ok(()));
    assert!(schemas.check_document(document, &Value::Null).is_err());
    let broken = schemas.check_document(b"{", &Value::Null).unwrap_err();
    assert!(
        broken.why.starts_with("the schema cannot be used: "),
        "{broken}"
    );
}

#[test]
fn arguments_are_an_object_of_the_named_properties() {
    let schemas = Schemas::new();
    let schema = value(r#"{"properties":{"a":{}}}"#).into();
    assert_eq!(
        schemas.check_arguments(&schema, &value(r#"{"a":1}"#)),
        Ok(())
    );
    let unexpected = schemas
        .check_arguments(&schema, &value(r#"{"b":1}"#))
        .unwrap_err();
    assert_eq!(
        unexpected.to_string(),
        "/b: the tool takes no such argument"
    );
    let list = schemas.check_arguments(&schema, &value("[1]")).unwrap_err();
    assert_eq!(list.to_string(), "the whole: arguments are an object");
    let open = value(r#"{"additionalProperties":{"type":"integer"}}"#).into();
    assert_eq!(schemas.check_arguments(&open, &value(r#"{"b":1}"#)), Ok(()));
}
