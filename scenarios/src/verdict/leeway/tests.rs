//! Which counts a fault of the command line loosens, in which direction, and which none does.

use super::Leeway;
use crate::scenario::{Count, DeskCount, EventKind};

const WRITTEN: u64 = 3;

/// What is held against 2, 3 and 4 of a kind of which 3 are written down.
#[track_caller]
fn check(kind: &str, faults: usize, holds: [bool; 3]) {
    let mut leeway = Leeway::of(faults);
    let kind: EventKind = serde_json::from_value(kind.into()).expect("a kind");
    let count = leeway.events("it", &kind, Count::exactly(WRITTEN));
    let seen = [WRITTEN - 1, WRITTEN, WRITTEN + 1].map(|seen| count.holds(seen));
    assert_eq!(seen, holds, "{} with {faults} faults", kind.as_str());
    let loosened = holds != [false, true, false];
    assert_eq!(
        leeway.used().len(),
        usize::from(loosened),
        "what was loosened is said"
    );
}

const EXACT: [bool; 3] = [false, true, false];
const OR_MORE: [bool; 3] = [false, true, true];
const OR_FEWER: [bool; 3] = [true, true, false];

#[test]
fn without_a_fault_of_the_command_line_every_count_is_exact() {
    for kind in [
        "effect.landed",
        "effect.unknown",
        "run.claimed",
        "run.ended",
    ] {
        check(kind, 0, EXACT);
    }
}

#[test]
fn what_a_death_a_doubt_or_a_repetition_adds_may_be_more_and_never_less() {
    for kind in [
        "run.claimed",
        "child.crashed",
        "child.restarted",
        "effect.unknown",
        "effect.lost",
        "effect.intended",
        "effect.reconciled",
        "callback.absorbed",
        "host.started",
    ] {
        check(kind, 1, OR_MORE);
    }
}

#[test]
fn a_receipt_that_is_found_by_look_up_is_one_landed_effect_less() {
    check("effect.landed", 1, OR_FEWER);
}

#[test]
fn ends_children_joins_and_decisions_stay_exact_whatever_was_injected() {
    for kind in [
        "run.opened",
        "run.ended",
        "child.delegated",
        "child.settled",
        "child.given_up",
        "join.decided",
        "check.passed",
        "effect.conflicted",
        "run.cancel_requested",
    ] {
        check(kind, 3, EXACT);
    }
}

#[test]
fn what_exists_at_the_desk_stays_exact_and_only_requests_may_be_more() {
    let seen = |what, seen| {
        let mut leeway = Leeway::of(1);
        leeway.desk("it", what, Count::exactly(WRITTEN)).holds(seen)
    };
    for exists in [DeskCount::Tickets, DeskCount::Refunds, DeskCount::Files] {
        assert!(!seen(exists, WRITTEN + 1) && !seen(exists, WRITTEN - 1));
    }
    for asked in [DeskCount::Reads, DeskCount::Callbacks] {
        assert!(seen(asked, WRITTEN + 1) && !seen(asked, WRITTEN - 1));
    }
}

#[test]
fn only_the_receipt_may_be_missing_from_a_trajectory_and_only_with_a_fault() {
    let may = |faults, kind| Leeway::of(faults).may_miss(kind);
    assert!(may(1, "effect.landed"));
    assert!(!may(0, "effect.landed"));
    assert!(!may(1, "run.ended"));
}
