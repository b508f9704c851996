//! Commands about files.

use serde_json::Value;

use crate::support::{Place, text};

#[test]
fn every_starter_passes_the_check_and_the_scenario_holds() {
    let place = Place::new();
    for kind in ["topology", "contract", "tool", "scenario"] {
        let file = place.run(&["new", kind, "mine"]);
        place.run(&["check", file.good().trim()]).good();
        let again = place.run(&["new", kind, "mine"]);
        assert_eq!(again.code, 2, "{}", again.stderr);
        assert!(
            again.stderr.contains("is there already"),
            "{}",
            again.stderr
        );
    }
    let report = place.run(&["run", "scenarios/mine.yaml", "--json"]).json(0);
    assert_eq!(text(&report, "/verdict"), "held");
}

#[test]
fn every_schema_is_json_and_says_what_it_is_of() {
    let place = Place::new();
    for kind in ["topology", "contract", "tool", "scenario", "model"] {
        let schema = place.run(&["schema", kind]).json(0);
        assert!(
            text(&schema, "/title").to_lowercase().contains(kind),
            "{kind}"
        );
    }
}

#[test]
fn the_library_is_listed_and_each_scenario_can_be_printed_changed_and_checked() {
    let place = Place::new();
    let listed = place.run(&["scenarios", "--json"]).json(0);
    for row in listed.as_array().expect("a list") {
        let name = text(row, "/scenario");
        let shown = place.run(&["scenarios", "show", name]);
        place.write("copy.yaml", shown.good());
        place.run(&["check", "copy.yaml"]).good();
    }
    assert!(
        place
            .run(&["scenarios"])
            .good()
            .contains("crash-after-write")
    );
}

#[test]
fn several_wrong_files_are_all_said() {
    let place = Place::new();
    place.write("one.yaml", "tool: one\n");
    place.write("two.yaml", "nothing: at all\n");
    let said = place.run(&["check", "one.yaml", "two.yaml", "--json"]);
    let error: Value = said.json(2);
    let places = error
        .pointer("/error/diagnostics")
        .and_then(Value::as_array)
        .expect("a list");
    let files: Vec<&str> = places.iter().map(|place| text(place, "/file")).collect();
    assert!(
        files.contains(&"one.yaml") && files.contains(&"two.yaml"),
        "{files:?}"
    );
}

#[test]
fn a_policy_set_is_begun_checked_and_what_is_wrong_with_it_is_placed() {
    let place = Place::new();
    place.run(&["new", "policy", "mine"]).good();
    assert_eq!(
        place.run(&["check", "policies/mine"]).good().trim(),
        "policies/mine: a good policy set"
    );
    assert_eq!(place.run(&["new", "policy", "mine"]).code, 2);
    assert!(
        place
            .run(&["schema", "policy"])
            .good()
            .contains("entity Workload")
    );
    place.write(
        "policies/mine/more.cedar",
        "\npermit (principal, action, resource) when { context.nothing };",
    );
    let said = place.run(&["check", "policies/mine"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("policies/mine/more.cedar"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("nothing"), "{}", said.stderr);
}
