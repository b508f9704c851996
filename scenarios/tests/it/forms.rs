//! The schema and the starter of scenario files agree with the reader.

use coppice_actors::faults::Fault;
use coppice_messages::Value;
use coppice_scenarios::{
    library::Source,
    scenario::{Answer, Document, Expect, Person, Scenario, Signal, Worlds},
};
use coppice_topology::{load, schema::Kind, starter::Starter};
use serde::de::DeserializeOwned;

#[test]
fn the_starter_can_be_read_with_all_that_it_names() {
    let text = Starter::Scenario.text("my-first").expect("a usable name");
    let read = Scenario::read(Source {
        file: "my-first.yaml".to_owned(),
        bytes: text.into_bytes(),
        directory: None,
    });
    let scenario = read.expect("the starter is a scenario");
    assert_eq!(scenario.document.scenario.as_str(), "my-first");
    assert_eq!(scenario.document.faults.len(), 1);
}

/// The keys that the reader knows, from what it says about one that it does not know.
fn known_keys<T: DeserializeOwned + std::fmt::Debug>() -> Vec<String> {
    let fault = load::read::<T>("f", b"zzzzzzzzzzzzzzzzzzzzzzzz: 1").expect_err("an unknown key");
    let help = fault.help.expect("what is known");
    let all = help.rsplit("nown: ").next().expect("a list");
    let mut keys: Vec<String> = all.split(", ").map(str::to_owned).collect();
    keys.sort();
    keys
}

fn schema_keys(at: &str) -> Vec<String> {
    let schema = Kind::Scenario.schema();
    match schema.at(&format!("/properties{at}")) {
        Some(Value::Map(properties)) => properties.keys().cloned().collect(),
        other => panic!("{at}: {other:?}"),
    }
}

#[test]
fn the_schema_has_the_keys_that_the_reader_has() {
    assert_eq!(known_keys::<Document>(), schema_keys(""));
    assert_eq!(known_keys::<Worlds>(), schema_keys("/world/properties"));
    let desk = known_keys::<coppice_scenarios::desk::World>();
    assert_eq!(desk, schema_keys("/world/properties/desk/properties"));
    let webhook = known_keys::<coppice_scenarios::desk::Webhook>();
    let of_desk = "/world/properties/desk/properties/webhooks/items/properties";
    assert_eq!(webhook, schema_keys(of_desk));
    assert_eq!(
        known_keys::<Person>(),
        schema_keys("/people/items/properties")
    );
    let deeds = "/people/items/properties/do/anyOf/1/properties/signal/properties";
    assert_eq!(known_keys::<Signal>(), schema_keys(deeds));
    assert_eq!(
        known_keys::<Fault>(),
        schema_keys("/faults/items/properties")
    );
    assert_eq!(known_keys::<Expect>(), schema_keys("/expect/properties"));
    let answer = schema_keys("/expect/properties/answer/properties");
    assert_eq!(known_keys::<Answer>(), answer);
}
