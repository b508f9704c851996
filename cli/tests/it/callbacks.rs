//! `coppice callback`: to a run that waits, again, after its end, and about what nobody made.

use serde_json::json;

use crate::support::{Place, text};

const TOPOLOGY: &str = r"
topology: called-back
version: 1
contract: default
result_schema: ticket_ref_v1
input: { type: object, required: [request_id], properties: { request_id: { type: string } } }
nodes:
  file: { call: { tool: create_ticket, arguments: { title: T, body: {}, request_id: { from: input, at: /request_id } } } }
  called: { after: [file], wait: { callback: { of: file, timeout: 10m } } }
  done:
    after: [called]
    end:
      reason: succeeded
      answer: { ticket: { from: called, at: /ticket } }
      evidence: [ { check: find_ticket, arguments: { request_id: { from: input, at: /request_id } }, expect: { eq: [ { from: check, at: /count }, 1 ] } } ]
";

const INPUT: &str = r#"{"request_id": "r-1"}"#;

/// The key of the only write, once it is intended.
fn key(place: &Place) -> String {
    let intended = ["events", "--kind", "effect.intended", "--json"];
    loop {
        let said = place.run(&intended);
        if let Some(line) = said.good().lines().next() {
            let event: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
            return text(&event, "/body/key").to_owned();
        }
    }
}

#[test]
fn a_callback_is_taken_once_and_answered_alike_and_one_about_nothing_is_bad_input() {
    let place = Place::new();
    place.write("called-back.yaml", TOPOLOGY);
    let up = place.up();
    let submit = ["submit", "called-back.yaml", "--input", INPUT, "--key", "k"];
    let tree = place.run(&submit).good().trim().to_owned();
    let key = key(&place);
    let waiting = loop {
        let found = place
            .run(&["ls", "--waiting", "callback", "--json"])
            .json(0);
        if found.get(0).is_some() {
            break found;
        }
    };
    assert_eq!(text(&waiting, "/0/run"), tree);
    assert_eq!(text(&waiting, "/0/what"), "callback");
    assert!(text(&waiting, "/0/who").starts_with("callback about file, else the clock"));
    assert!(text(&waiting, "/0/since") < text(&waiting, "/0/until"));
    let said = place.run(&["ls", "--waiting", "callback"]);
    assert!(
        said.good().contains("callback about file"),
        "{}",
        said.stdout
    );
    for other in ["signal", "timer"] {
        assert_eq!(
            place.run(&["ls", "--waiting", other, "--json"]).json(0),
            json!([])
        );
    }
    assert_eq!(place.run(&["ls", "--waiting", "godot"]).code, 2);
    let value = r#"{"ticket": "t-7"}"#;
    let first = ["callback", &key, "--id", "cb-1", "--value", value, "--json"];
    let received = json!({ "run": tree, "outcome": "received" });
    for _ in 0..2 {
        assert_eq!(place.run(&first).json(0), received);
    }
    let waited = [&submit[..], &["--wait"]].concat();
    let said = place.run(&waited);
    assert!(said.good().contains("t-7"), "{}", said.stdout);
    let late = place.run(&["callback", &key, "--id", "cb-2"]);
    let shown = format!("{tree}: the run had ended (succeeded); nothing is changed\n");
    assert_eq!(late.good(), shown);
    let nobodys = place.run(&["callback", &"0".repeat(64), "--id", "cb-3"]);
    assert_eq!(nobodys.code, 2);
    assert!(
        nobodys.stderr.contains("has made no write under the key"),
        "{}",
        nobodys.stderr
    );
    let refused = place.run(&["events", "--kind", "callback.refused"]);
    assert!(
        refused.good().contains("unknown_operation"),
        "{}",
        refused.stdout
    );
    up.stop();
}

#[test]
fn each_callback_three_times_late_foreign_and_unsigned_is_one_effect() {
    let place = Place::new();
    let report = place.run(&["run", "duplicate-callback", "--json"]).json(0);
    assert_eq!(text(&report, "/verdict"), "held", "{report}");
    let absorbed = place.run(&["events", "--kind", "callback.absorbed", "--json"]);
    let late = absorbed
        .good()
        .lines()
        .filter(|line| line.contains("the run had ended"));
    assert_eq!(late.count(), 1, "{}", absorbed.stdout);
}

#[test]
fn a_run_waits_for_a_callback_a_signal_and_a_time_over_the_death_of_its_host() {
    let place = Place::new();
    let report = place
        .run(&["run", "wait-and-signal", "--dup-callback", "5", "--json"])
        .json(0);
    // The command line multiplies what the scenario counts, and the report says what was judged with that in mind.
    assert_eq!(text(&report, "/verdict"), "held", "{report}");
    let leeway = report.pointer("/leeway").and_then(|names| names.as_array());
    let leeway = leeway.expect("a list");
    for name in ["desk.callbacks", "events.callback.absorbed"] {
        assert!(leeway.contains(&json!(name)), "{name}: {report}");
    }
    let report = place.run(&["run", "wait-and-signal", "--json"]).json(0);
    assert_eq!(text(&report, "/verdict"), "held", "{report}");
    assert_eq!(report.pointer("/leeway"), None, "{report}");
}

#[test]
fn a_scenario_whose_callback_never_comes_does_not_hold() {
    let place = Place::new();
    let topology = include_str!("../../../scenarios/library/topologies/called-back.yaml");
    place.write(
        "topologies/called-back.yaml",
        &topology.replace("timeout: 1m", "timeout: 1s"),
    );
    let scenario = include_str!("../../../scenarios/library/scenarios/duplicate-callback.yaml");
    let silent = scenario.replace("- { route: create_ticket", "- { route: close_ticket");
    place.write("silent.yaml", &silent);
    let said = place.run(&["run", "silent.yaml"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    for line in [
        "NOT HELD  reason: timed_out (expected succeeded)",
        "NOT HELD  events.callback.received: 0 (expected 1)",
        "NOT HELD  fault *@callback=duplicate*3: never struck (expected struck)",
    ] {
        assert!(said.stdout.contains(line), "{line}: {}", said.stdout);
    }
}
