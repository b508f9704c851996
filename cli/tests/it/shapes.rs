//! The scenarios of trees of many shapes hold, and `--cancel` cancels.

use serde_json::{Value, json};

use crate::{
    scenarios::{count, held},
    support::{Place, number, text},
};

/// What was seen of one expectation.
fn seen<'r>(report: &'r Value, name: &str) -> &'r str {
    let checks = report.pointer("/checks").and_then(Value::as_array);
    let mut checks = checks.expect("a list").iter();
    let check = checks.find(|check| text(check, "/name") == name);
    text(check.unwrap_or_else(|| panic!("{name}: {report}")), "/seen")
}

#[test]
fn nested_narrows_at_three_levels_and_brings_the_deepest_result_to_the_root() {
    let place = Place::new();
    held(&place, "nested");
    assert_eq!(count(&place, "child.delegated"), 5);
}

#[test]
fn quorum_is_decided_once_by_two_of_three_over_the_death_of_the_host() {
    let place = Place::new();
    let report = held(&place, "quorum");
    assert_eq!(
        seen(&report, "joins.root/voter"),
        "succeeded, failed, succeeded"
    );
}

#[test]
fn fail_fast_cancels_the_others_and_what_comes_late_leads_to_nothing() {
    let place = Place::new();
    held(&place, "fail-fast");
    assert_eq!(count(&place, "effect.intended"), 1);
}

#[test]
fn cancel_tree_ends_every_descendant_and_its_receipt_says_what_the_desk_did() {
    let place = Place::new();
    let report = held(&place, "cancel-tree");
    assert_eq!(
        seen(&report, "cancel.receipt"),
        "5 descendants, 1 effects landed and 1 in doubt"
    );
    assert_eq!(seen(&report, "cancel.sent_after"), "0");
}

#[test]
fn restart_storm_gives_the_worker_up_and_the_join_goes_on() {
    let place = Place::new();
    let report = held(&place, "restart-storm");
    assert_eq!(number(&report, "/measures/restarts"), 2);
}

#[test]
fn runaway_spawn_stops_at_the_limits_of_the_envelopes() {
    let place = Place::new();
    held(&place, "runaway-spawn");
    assert_eq!(count(&place, "run.opened"), 63);
}

#[test]
fn no_progress_is_stopped_long_before_the_budget_is_gone() {
    let place = Place::new();
    held(&place, "no-progress");
    assert_eq!(count(&place, "progress.stalled"), 1);
}

#[test]
fn a_cancel_of_the_command_line_cancels_the_run_that_it_names() {
    let place = Place::new();
    let cancel = "root@child.delegated";
    let report = place
        .run(&[
            "run",
            "fan-out-join",
            "--cancel",
            cancel,
            "--fault",
            "root/research[1]@model.proposed:before=delay(2s)",
            "--json",
        ])
        .json(1);
    assert_eq!(text(&report, "/reason"), "cancelled");
    assert_eq!(seen(&report, "cancel.open"), "0");
    assert_eq!(report.pointer("/measures/diverged"), Some(&json!(false)));
    let wrong = place.run(&["run", "fan-out-join", "--cancel", "root@child.delegatd"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("child.delegated"), "{}", wrong.stderr);
}

#[test]
fn a_death_on_purpose_adds_claims_and_restarts_and_the_verdict_holds_all_the_rest() {
    for fault in [
        "root@effect.landed:before=kill_host",
        "root/research[1]@model.proposed:before=panic",
    ] {
        let place = Place::new();
        let said = place.run(&["run", "fan-out-join", "--fault", fault, "--json"]);
        let report = said.json(0);
        let loosened = report.pointer("/leeway").and_then(|names| names.as_array());
        let loosened = loosened.expect("a list");
        assert!(
            loosened.contains(&serde_json::json!("never.run.claimed")),
            "{report}"
        );
        for exact in ["reason", "desk.tickets", "duplicates", "lost", "rebuild"] {
            assert!(!loosened.contains(&serde_json::json!(exact)), "{report}");
        }
    }
}
