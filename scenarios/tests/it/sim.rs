//! The simulator: one seed is one history, and every law holds in every history.

use coppice_scenarios::sim;

#[test]
fn one_seed_is_one_history() {
    let report = sim::meta(1..=20);
    assert!(report.held(), "{report}");
}

#[test]
fn every_law_holds_in_five_hundred_histories() {
    let options = sim::Options::default();
    let report = sim::run(1..=500, &options, &mut |_| {});
    assert!(report.held(), "{report}");
}
