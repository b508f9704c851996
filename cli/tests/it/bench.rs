//! The workloads of `coppice bench`, each with a few runs: what they count, not how fast they are.

use serde_json::Value;

use crate::support::Place;

/// The line of one workload.
fn line(arguments: &[&str]) -> Value {
    let place = Place::new();
    let said = place.run(&[&["bench"], arguments, &["--json"]].concat());
    let mut lines = said.good().lines();
    let line = serde_json::from_str(lines.next().unwrap_or_default());
    assert_eq!(lines.next(), None, "{}", said.stdout);
    line.unwrap_or_else(|error| panic!("{error}: {}", said.stdout))
}

#[test]
fn a_tree_of_sixteen_children_with_three_steps_is_sixty_eight_commits() {
    let line = line(&["w1", "--runs", "3", "--concurrency", "3"]);
    assert_eq!(line["workload"], "w1");
    assert_eq!(
        (line["runs"].as_u64(), line["concurrency"].as_u64()),
        (Some(3), Some(3))
    );
    let commits = line["commits_per_run"].as_f64().unwrap();
    // Four of each child: it opens, and each receipt stands beside what comes next. The parent takes in as many ends at once as there are.
    assert!((66.0..90.0).contains(&commits), "{line}");
    for key in [
        "runs_per_s",
        "p50_ms",
        "disk_bytes_per_run",
        "fsyncs_per_run",
        "messages_per_run",
    ] {
        assert!(line[key].as_f64().unwrap() > 0.0, "{key}: {line}");
    }
}

#[test]
fn a_step_in_a_row_is_one_commit() {
    let line = line(&["w2", "--runs", "2"]);
    assert_eq!(line["steps"], 50);
    assert_eq!(line["commits_per_run"], 51.0);
}

#[test]
fn a_host_killed_with_trees_in_flight_does_nothing_twice_and_loses_nothing() {
    let line = line(&["w3", "--runs", "5"]);
    assert_eq!(
        (line["duplicates"].as_u64(), line["lost"].as_u64()),
        (Some(0), Some(0)),
        "{line}"
    );
}

#[test]
fn a_cancelled_parent_of_waiting_children_comes_to_rest() {
    let line = line(&["w4", "--children", "20"]);
    assert_eq!(line["children"], 20);
    assert!(line["quiet_ms"].as_f64().unwrap() > 0.0, "{line}");
}

#[test]
fn a_log_is_rebuilt_with_every_run_that_it_has() {
    let line = line(&["rebuild", "--runs", "2"]);
    // Ten trees come before those that count; each has a root and sixteen children.
    assert_eq!(line["runs"], 12 * 17);
    assert!(line["events"].as_u64().unwrap() > 12 * 17 * 4, "{line}");
}
