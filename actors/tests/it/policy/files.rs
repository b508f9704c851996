//! A set is read whole or refused, with the place of everything that is wrong.

use coppice_actors::policy::{PolicyFiles, PolicySet};

use super::{files, write};

fn refused(policies: &str, entities: &str) -> String {
    match PolicySet::load(&files(policies, entities)) {
        Ok(_) => panic!("it was taken: {policies}"),
        Err(wrong) => wrong.to_string(),
    }
}

#[test]
fn what_is_wrong_is_named_with_file_line_and_column() {
    let table = [
        (
            "permit (principal, action, resource)\nwhen { context. };",
            "policies/own.cedar:2:17: ",
            "unexpected token",
        ),
        (
            "permit (principal, action == Action::\"pay_refund\", resource)\nwhen { context.arguments.amuont == \"1\" };",
            "policies/own.cedar:2:8: ",
            "amuont",
        ),
        (
            "permit (principal, action == Action::\"pay_refund\", resource)\nwhen { principal.depth == \"deep\" };",
            "policies/own.cedar:2:8: ",
            "not compatible",
        ),
        (
            "\n@aprove(\"role:operator\")\npermit (principal, action, resource);",
            "policies/own.cedar:2:1: ",
            "@aprove has no meaning",
        ),
        (
            "@approve(\"operators\")\npermit (principal, action, resource);",
            "policies/own.cedar:1:1: ",
            "\"operators\" is nobody",
        ),
        (
            "@approve(\"role:operator\") @people(\"0\")\npermit (principal, action, resource);",
            "policies/own.cedar:1:27: ",
            "@people is a number",
        ),
        (
            "@people(\"2\")\npermit (principal, action, resource);",
            "policies/own.cedar:1:1: ",
            "nothing says who",
        ),
        (
            "@approve(\"role:operator\")\nforbid (principal, action, resource);",
            "policies/own.cedar:1:1: ",
            "cannot be approved",
        ),
        (
            "@id(\"a\") permit (principal, action, resource);\n@id(\"a\") forbid (principal, action, resource);",
            "policies/own.cedar:1:1: ",
            "two policies have the id a",
        ),
        (
            "permit (principal == ?principal, action, resource);",
            "policies/own.cedar:1:22: ",
            "is a template",
        ),
    ];
    for (policies, place, words) in table {
        let said = refused(policies, "[]");
        assert!(said.contains(words), "{words}: {said}");
        assert!(said.starts_with(place), "{place}: {said}");
    }
}

#[test]
fn entities_are_held_against_the_schema() {
    let said = refused("", "[\n  { \"uid\": ] }\n]");
    assert!(
        said.starts_with("policies/entities.json:2:12: this is no JSON"),
        "{said}"
    );
    let said = refused(
        "",
        "[\n  { \"uid\": { \"type\": \"Resource\", \"id\": \"order::1\" }, \"attrs\": { \"kind\": \"order\" }, \"parents\": [] }\n]",
    );
    assert!(said.starts_with("policies/entities.json:2:"), "{said}");
    assert!(said.contains("order::1"), "{said}");
}

#[test]
fn a_schema_that_is_none_is_named_with_its_place() {
    let mut texts = files("", "[]").texts().clone();
    texts.insert(
        "schema.cedarschema".to_owned(),
        "entity User;\nentity ;".to_owned(),
    );
    let Err(wrong) = PolicySet::load(&PolicyFiles::of("policies", texts)) else {
        panic!("it was taken");
    };
    let said = wrong.to_string();
    assert!(
        said.starts_with("policies/schema.cedarschema:2:8: "),
        "{said}"
    );
}

#[test]
fn a_directory_without_a_schema_is_no_policy_set() {
    let place = tempfile::tempdir().unwrap();
    let error = PolicyFiles::read(place.path()).unwrap_err().to_string();
    assert!(error.contains("has no schema.cedarschema"), "{error}");
    assert!(error.contains("coppice new policy"), "{error}");
}

#[test]
fn the_version_is_that_of_what_the_files_say() {
    let of = |policies: &str, entities: &str| files(policies, entities).version();
    let one = of("permit (principal, action, resource);\n", "[]");
    assert_eq!(of("permit (principal, action, resource);\r\n", "[]"), one);
    assert_eq!(of("permit (principal, action, resource);\n", " [ ]\n"), one);
    assert_ne!(of("forbid (principal, action, resource);\n", "[]"), one);
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "");
    let before = PolicyFiles::read(place.path()).unwrap().version();
    std::fs::write(place.path().join("README.md"), "about these").unwrap();
    assert_eq!(PolicyFiles::read(place.path()).unwrap().version(), before);
    std::fs::write(place.path().join("more.cedar"), "").unwrap();
    assert_ne!(PolicyFiles::read(place.path()).unwrap().version(), before);
}
