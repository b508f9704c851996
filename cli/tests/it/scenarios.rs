//! Every scenario of the library holds, and does what it is for.

use serde_json::{Value, json};

use crate::support::{Place, number, text};

/// Runs a scenario of the library: it holds, and nothing was done twice, lost, or told differently by log, stream and host.
pub fn held(place: &Place, name: &str) -> Value {
    let report = place.run(&["run", name, "--json", "--seed", "7"]).json(0);
    assert_eq!(text(&report, "/verdict"), "held");
    assert_eq!(text(&report, "/scenario"), name);
    assert_eq!(number(&report, "/seed"), 7);
    for measure in [
        "duplicates",
        "lost",
        "hand_work",
        "policy_violations",
        "evidence_missing",
    ] {
        assert_eq!(
            number(&report, &format!("/measures/{measure}")),
            0,
            "{measure}"
        );
    }
    assert_eq!(report.pointer("/measures/diverged"), Some(&json!(false)));
    assert!(number(&report, "/measures/steps") > 0);
    let verified = place.run(&["log", "verify", "--json"]).json(0);
    assert_eq!(verified.pointer("/findings"), Some(&json!([])));
    assert_eq!(
        place.run(&["audit", "--json"]).json(0).pointer("/findings"),
        Some(&json!([]))
    );
    report
}

/// The scenario's fault struck, and something was started again for it.
fn struck(report: &Value) {
    let checks = report
        .pointer("/checks")
        .and_then(Value::as_array)
        .expect("a list");
    let fault = checks
        .iter()
        .find(|check| text(check, "/name").starts_with("fault "));
    let fault = fault.expect("the fault is checked");
    assert_eq!(text(fault, "/seen"), "struck");
    assert!(number(report, "/measures/restarts") >= 1);
}

/// How many events of a kind the run's directory has.
pub fn count(place: &Place, kind: &str) -> usize {
    place
        .run(&["events", "--kind", kind, "--json"])
        .good()
        .lines()
        .count()
}

#[test]
fn fan_out_join_researches_in_parallel_and_files_one_ticket() {
    let place = Place::new();
    let report = held(&place, "fan-out-join");
    assert_eq!(number(&report, "/measures/restarts"), 0);
    assert_eq!(count(&place, "run.opened"), 4);
}

#[test]
fn policy_denied_sends_nothing_tells_the_agent_why_and_fails_without_its_policies() {
    let place = Place::new();
    held(&place, "policy-denied");
    assert_eq!(count(&place, "policy.decided"), 1);
    // The verdict is about the policies: without them the refund is paid, and it does not hold.
    let shown = place.run(&["scenarios", "show", "policy-denied"]);
    let without = shown.good().replace("policies: support\n", "");
    place.write("without.yaml", &without);
    let report = place.run(&["run", "without.yaml", "--json"]).json(1);
    assert_eq!(text(&report, "/verdict"), "not_held");
}

#[test]
fn policy_allowed_pays_once_behind_the_decision_that_allows_it() {
    let place = Place::new();
    held(&place, "policy-allowed");
}

#[test]
fn worker_crash_is_survived_by_starting_the_actor_again() {
    let place = Place::new();
    struck(&held(&place, "worker-crash"));
    assert_eq!(count(&place, "child.crashed"), 1);
    assert_eq!(count(&place, "child.restarted"), 1);
}

#[test]
fn lying_tool_is_contradicted_by_the_world_and_nobody_calls_it_again() {
    let place = Place::new();
    held(&place, "lying-tool");
    assert_eq!(count(&place, "effect.contradicted"), 1);
}

#[test]
fn host_crash_is_survived_by_starting_the_host_again() {
    let place = Place::new();
    struck(&held(&place, "host-crash"));
    assert!(count(&place, "run.claimed") >= 1);
    let starts = ["events", "--tenant", "_host", "--kind", "host.*", "--json"];
    let said = place.run(&starts);
    let kinds: Vec<String> = said
        .good()
        .lines()
        .map(|line| {
            let event: Value = serde_json::from_str(line).expect("each line is JSON");
            text(&event, "/kind").to_owned()
        })
        .collect();
    // The first host said nothing at its end: it was killed.
    assert_eq!(kinds, ["host.started", "host.started", "host.stopped"]);
}

#[test]
fn crash_after_write_asks_the_desk_instead_of_writing_again() {
    let place = Place::new();
    struck(&held(&place, "crash-after-write"));
    assert_eq!(count(&place, "effect.unknown"), 1);
    assert_eq!(count(&place, "effect.reconciled"), 1);
}

#[test]
fn two_children_that_come_to_one_key_make_one_ticket() {
    let place = Place::new();
    held(&place, "one-request-twice");
    assert_eq!(count(&place, "effect.intended"), 2);
    assert_eq!(count(&place, "effect.landed"), 1);
}

#[test]
fn widening_refused_lists_each_refusal_with_its_field() {
    let place = Place::new();
    held(&place, "widening-refused");
    let said = place.run(&["events", "--kind", "proposal.refused", "--json"]);
    let mut fields: Vec<String> = said
        .good()
        .lines()
        .map(|line| {
            let event: Value = serde_json::from_str(line).expect("each line is JSON");
            text(&event, "/body/path").to_owned()
        })
        .collect();
    fields.sort();
    assert_eq!(fields.len(), 3);
    for part in ["budget", "deadline", "tools"] {
        assert!(
            fields.iter().any(|field| field.contains(part)),
            "{part}: {fields:?}"
        );
    }
}

#[test]
fn a_fault_of_the_command_line_strikes_and_the_listed_addresses_are_those_that_can_be_given() {
    let place = Place::new();
    let offered = place.run(&["faults", "fan-out-join", "--json"]).json(0);
    let offered = offered.as_array().expect("a list");
    let landed = offered.iter().find(|offer| {
        text(offer, "/path") == "root/research[1]" && text(offer, "/event") == "effect.landed"
    });
    assert!(landed.is_some(), "{offered:?}");
    let fault = "root/research[1]@effect.landed:before=kill_actor";
    let report = place
        .run(&["run", "worker-crash", "--fault", fault, "--json"])
        .json(0);
    let checks = report
        .pointer("/checks")
        .and_then(Value::as_array)
        .expect("a list");
    let check = checks
        .iter()
        .find(|check| text(check, "/name") == format!("fault {fault}"))
        .expect("it is checked");
    assert_eq!(check.pointer("/held"), Some(&json!(true)));
    // The scenario says one crash; now there are two, and the verdict allows for it.
    assert_eq!(count(&place, "child.crashed"), 2);
    assert_eq!(text(&report, "/reason"), "succeeded");
}

#[test]
fn what_does_not_hold_ends_with_code_1_and_says_what_was_expected() {
    let place = Place::new();
    let wrong = place
        .run(&["scenarios", "show", "fan-out-join"])
        .good()
        .replace("tickets: 1", "tickets: 2");
    place.write("mine.yaml", &wrong);
    let said = place.run(&["run", "mine.yaml"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(
        said.stdout
            .contains("NOT HELD  desk.tickets: 1 (expected 2)"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("verdict: not held"), "{}", said.stdout);
}

#[test]
fn repeating_says_the_share_and_its_interval_and_discarding_leaves_nothing() {
    let place = Place::new();
    let said = place.run(&[
        "run",
        "widening-refused",
        "--repeat",
        "2",
        "--discard",
        "--seed",
        "3",
        "--json",
    ]);
    let repeated = said.json(0);
    assert_eq!(number(&repeated, "/held"), 2);
    assert_eq!(repeated.pointer("/all"), Some(&json!(true)));
    let seeds: Vec<u64> = (0..2)
        .map(|nth| number(&repeated, &format!("/reports/{nth}/seed")))
        .collect();
    assert_eq!(seeds, [3, 4]);
    let low = repeated
        .pointer("/interval_95/0")
        .and_then(Value::as_f64)
        .expect("a number");
    assert!((0.3..0.4).contains(&low), "{low}");
    let left = std::fs::read_dir(place.path().join(".coppice/runs"))
        .expect("it is there")
        .count();
    assert_eq!(left, 0);
}
