//! The JSON Schemas and the starters: what the reader takes, the schema takes, and what a schema names, the reader knows.

use coppice_messages::Value;
use coppice_topology::{
    check::{self, FileKind},
    load,
    schema::Kind,
    starter::Starter,
};

use crate::files::Directory;

fn validator(kind: Kind) -> jsonschema::Validator {
    let schema = serde_json::from_str(&kind.text()).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn json(file: &str, bytes: &[u8]) -> serde_json::Value {
    let value: Value = load::read(file, bytes).unwrap().value;
    serde_json::to_value(value).unwrap()
}

fn meets(kind: Kind, file: &str, bytes: &[u8]) {
    let validator = validator(kind);
    let value = json(file, bytes);
    let faults: Vec<String> = validator
        .iter_errors(&value)
        .map(|fault| format!("{file}{}: {fault}", fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_file_of_the_library_meets_its_schema() {
    let library = Directory::library();
    let mut met = 0;
    for (folder, kind) in [
        ("topologies", Kind::Topology),
        ("contracts", Kind::Contract),
        ("tools", Kind::Tool),
        ("models", Kind::Model),
        ("scenarios", Kind::Scenario),
    ] {
        let Ok(entries) = std::fs::read_dir(library.0.join(folder)) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            meets(kind, &path.display().to_string(), &bytes);
            met += 1;
        }
    }
    assert!(met > 8, "the library is there");
}

#[test]
fn every_starter_passes_the_check_and_meets_its_schema() {
    for (starter, kind) in [
        (Starter::Topology, Kind::Topology),
        (Starter::Contract, Kind::Contract),
        (Starter::Tool, Kind::Tool),
        (Starter::Scenario, Kind::Scenario),
    ] {
        let text = starter.text("note-order").unwrap();
        assert!(!text.contains("NAME.yaml beside") || text.contains("note-order"));
        let file = starter.path("note-order");
        let checked = check::file(&file, text.as_bytes(), &Directory::library());
        let checked = checked.unwrap_or_else(|faults| panic!("{faults}"));
        let expected = match starter {
            Starter::Topology => FileKind::Topology,
            Starter::Contract => FileKind::Contract,
            Starter::Tool => FileKind::Tool,
            Starter::Scenario => FileKind::Scenario,
        };
        assert_eq!(checked, expected);
        meets(kind, &file, text.as_bytes());
    }
}

#[test]
fn a_starter_with_an_unusable_name_is_refused() {
    let error = Starter::Tool.text("drop table").unwrap_err();
    assert!(error.to_string().starts_with("name \"drop table\""));
}

#[test]
fn a_file_that_the_reader_refuses_for_its_form_is_refused_by_the_schema() {
    let refused = Directory(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/refused").into());
    for (file, kind) in [
        ("topology-unknown-key.yaml", Kind::Topology),
        ("topology-missing-key.yaml", Kind::Topology),
        ("topology-wrong-type.yaml", Kind::Topology),
        ("topology-bad-node-name.yaml", Kind::Topology),
        ("topology-bad-tool-name.yaml", Kind::Topology),
        ("topology-bad-duration.yaml", Kind::Topology),
        ("topology-bad-reference-key.yaml", Kind::Topology),
        ("topology-bad-pointer.yaml", Kind::Topology),
        ("topology-bad-condition.yaml", Kind::Topology),
        ("topology-condition-of-three.yaml", Kind::Topology),
        ("topology-unknown-reason.yaml", Kind::Topology),
        ("topology-node-without-body.yaml", Kind::Topology),
        ("topology-over-and-width.yaml", Kind::Topology),
        ("topology-fan-out-without-delegation.yaml", Kind::Topology),
        ("contract-field-missing.yaml", Kind::Contract),
        ("contract-unknown-operation.yaml", Kind::Contract),
        ("contract-money-without-currency.yaml", Kind::Contract),
        ("contract-too-deep.yaml", Kind::Contract),
        ("tool-says-retry.yaml", Kind::Tool),
        ("tool-in-two-ways.yaml", Kind::Tool),
        ("tool-in-no-way.yaml", Kind::Tool),
        ("model-turn-with-two-deeds.yaml", Kind::Model),
        ("model-without-turns.yaml", Kind::Model),
    ] {
        let value = json(file, &refused.bytes(file));
        assert!(!validator(kind).is_valid(&value), "{file} meets the schema");
    }
}

/// The keys that the reader knows at a place, from what it says about one that it does not know.
fn known_keys<T: serde::de::DeserializeOwned + std::fmt::Debug>() -> Vec<String> {
    let fault = load::read::<T>("f", b"zzzzzzzzzzzzzzzzzzzzzzzz: 1").unwrap_err();
    let help = fault.help.unwrap();
    let all = help.rsplit("nown: ").next().unwrap();
    let mut keys: Vec<String> = all.split(", ").map(str::to_owned).collect();
    keys.sort();
    keys
}

fn schema_keys(kind: Kind, at: &str) -> Vec<String> {
    let schema = kind.schema();
    let Some(Value::Map(properties)) = schema.at(at) else {
        panic!("{at} of {kind}");
    };
    properties.keys().cloned().collect()
}

#[test]
fn the_schema_has_the_keys_that_the_reader_has() {
    use coppice_messages::{Contract, contract, delegation};
    use coppice_topology::{document, expr, node, plan, script, tool};
    let topology = |at: &str| schema_keys(Kind::Topology, at);
    assert_eq!(known_keys::<document::Topology>(), topology("/properties"));
    assert_eq!(
        known_keys::<plan::Agent>(),
        topology("/$defs/agent/properties")
    );
    assert_eq!(
        known_keys::<node::Node>(),
        topology("/$defs/node/properties")
    );
    let of = |key: &str| topology(&format!("/$defs/node/properties/{key}/properties"));
    assert_eq!(known_keys::<node::Call>(), of("call"));
    assert_eq!(known_keys::<node::AgentLoop>(), of("agent"));
    assert_eq!(known_keys::<node::FanOut>(), of("fan_out"));
    assert_eq!(
        known_keys::<node::Restart>(),
        of("fan_out/properties/restart")
    );
    assert_eq!(known_keys::<node::Join>(), of("join"));
    assert_eq!(known_keys::<node::End>(), of("end"));
    assert_eq!(
        known_keys::<node::Evidence>(),
        of("end/properties/evidence/items")
    );
    assert_eq!(
        known_keys::<delegation::Request>(),
        topology("/$defs/delegation/properties")
    );
    let budget = topology("/$defs/delegation/properties/budget/properties");
    assert_eq!(known_keys::<delegation::BudgetRequest>(), budget);
    assert_eq!(
        known_keys::<expr::Condition>(),
        topology("/$defs/condition/properties")
    );
    let contract = |at: &str| schema_keys(Kind::Contract, at);
    assert_eq!(known_keys::<Contract>(), contract("/properties"));
    let of = |key: &str| contract(&format!("/properties/{key}/properties"));
    assert_eq!(known_keys::<contract::TaskBoundary>(), of("task_boundary"));
    assert_eq!(
        known_keys::<contract::SuccessEvidence>(),
        of("success_evidence")
    );
    assert_eq!(known_keys::<contract::Authority>(), of("authority"));
    assert_eq!(known_keys::<contract::DataBoundary>(), of("data_boundary"));
    assert_eq!(known_keys::<contract::ContractBudget>(), of("budget"));
    assert_eq!(known_keys::<contract::Termination>(), of("termination"));
    assert_eq!(known_keys::<contract::Recovery>(), of("recovery"));
    assert_eq!(known_keys::<contract::Rollback>(), of("rollback"));
    let of = |key: &str| schema_keys(Kind::Tool, &format!("/properties{key}"));
    assert_eq!(known_keys::<tool::Tool>(), of(""));
    assert_eq!(known_keys::<tool::Http>(), of("/http/properties"));
    assert_eq!(
        known_keys::<tool::InProcess>(),
        of("/in_process/properties")
    );
    assert_eq!(
        known_keys::<tool::InProcessLookup>(),
        of("/in_process/properties/lookup_by_key/properties")
    );
    assert_eq!(
        known_keys::<tool::HttpRequest>(),
        of("/http/properties/request/properties")
    );
    assert_eq!(
        known_keys::<tool::Lookup>(),
        of("/http/properties/lookup_by_key/properties")
    );
    assert_eq!(
        known_keys::<tool::ReceiptPointers>(),
        of("/http/properties/receipt/properties")
    );
    assert_eq!(
        known_keys::<tool::ErrorRow>(),
        of("/http/properties/errors/items/properties")
    );
    assert_eq!(
        known_keys::<tool::Idempotency>(),
        of("/idempotency/properties")
    );
    assert_eq!(known_keys::<tool::Limits>(), of("/limits/properties"));
    assert_eq!(
        known_keys::<script::Script>(),
        schema_keys(Kind::Model, "/properties")
    );
    let turn = schema_keys(Kind::Model, "/$defs/turn/properties");
    assert_eq!(known_keys::<script::Turn>(), turn);
}
