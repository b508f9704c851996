//! The simulator: one seed is one history, and every law holds in every history.

use std::ops::RangeInclusive;

use coppice_scenarios::sim;

/// Histories that are not repeatable prove nothing, so that is shown first.
fn check(seeds: RangeInclusive<u64>) {
    let first = *seeds.start();
    let repeated = sim::meta(first..=first + 4);
    assert!(repeated.held(), "{repeated}");
    let report = sim::run(seeds, &sim::Options::default(), &mut |_| {});
    assert!(report.held(), "{report}");
}

#[test]
fn one_seed_is_one_history() {
    let report = sim::meta(1..=30);
    assert!(report.held(), "{report}");
}

// Two tests, so that two cores share them.
#[test]
fn every_law_holds_in_the_histories_of_the_first_250_seeds() {
    check(1..=250);
}

#[test]
fn every_law_holds_in_the_histories_of_the_next_250_seeds() {
    check(251..=500);
}

#[test]
fn another_seed_is_another_history_of_some_length() {
    let report = sim::run(1..=10, &sim::Options::default(), &mut |_| {});
    assert!(report.steps > 1_000 && report.commits > 100, "{report}");
}

#[test]
fn a_file_is_replayed_by_its_seed_and_anything_else_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("seed-3.json");
    let history = format!("sha256:{}", "0".repeat(64));
    let text = format!(
        r#"{{ "coppice_sim": 1, "seed": 3, "law": "a law", "what": "seen", "steps": 9, "history": "{history}", "tail": [] }}"#
    );
    std::fs::write(&file, text).expect("written");
    let replayed = sim::replay(&file).expect("a file of a seed");
    assert_eq!(replayed.expected.seed, 3);
    assert!(replayed.seen.is_none() && !replayed.is_same());
    std::fs::write(&file, "{}").expect("written");
    let refused = sim::replay(&file).expect_err("no file of a seed");
    assert!(matches!(refused, sim::FileError::Malformed { .. }));
}
