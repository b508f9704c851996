//! Resource rules and access: patterns, what covers what, and the meet of rules.

use coppice_messages::{
    Access, Operation,
    scope::{Pattern, Resources},
};
use proptest::prelude::*;

use crate::{
    narrowing::random::{PATTERNS, PROBES, resources},
    samples::{all_named, named},
};

/// Whether `one` permits nothing that `other` does not.
fn is_within(one: &Resources, other: &Resources) -> bool {
    PROBES
        .iter()
        .all(|resource| !one.permits(resource) || other.permits(resource))
}

proptest! {
    #[test]
    fn the_meet_permits_exactly_what_both_permit(a in resources(), b in resources()) {
        for resource in PROBES {
            let by_both = a.permits(resource) && b.permits(resource);
            prop_assert_eq!(a.meet(&b).permits(resource), by_both, "{}", resource);
        }
    }

    #[test]
    fn the_meet_is_commutative(a in resources(), b in resources()) {
        prop_assert_eq!(a.meet(&b), b.meet(&a));
    }

    #[test]
    fn the_meet_is_idempotent(a in resources(), b in resources()) {
        prop_assert_eq!(a.meet(&a), a.clone());
        prop_assert_eq!(a.meet(&b).meet(&b), a.meet(&b));
    }

    #[test]
    fn the_meet_is_associative(a in resources(), b in resources(), c in resources()) {
        prop_assert_eq!(a.meet(&b).meet(&c), a.meet(&b.meet(&c)));
    }

    #[test]
    fn the_meet_is_monotone(a in resources(), b in resources(), c in resources()) {
        let less = a.meet(&b);
        prop_assert!(is_within(&less, &a));
        prop_assert!(is_within(&less.meet(&c), &a.meet(&c)));
    }

    #[test]
    fn the_order_of_rules_does_not_matter(a in resources()) {
        let turned = Resources {
            allow: a.allow.iter().rev().cloned().collect(),
            deny: a.deny.iter().rev().cloned().collect(),
        };
        prop_assert_eq!(turned, a);
    }
}

#[test]
fn a_pattern_covers_another_exactly_when_it_matches_all_that_the_other_matches() {
    let patterns: Vec<Pattern> = all_named(PATTERNS);
    for wide in &patterns {
        for narrow in &patterns {
            let matched_too = PROBES
                .iter()
                .all(|resource| !narrow.matches(resource) || wide.matches(resource));
            assert_eq!(wide.covers(narrow), matched_too, "{wide} covers {narrow}");
        }
    }
}

#[test]
fn a_prefix_matches_what_is_under_it_and_not_itself() {
    let pattern: Pattern = named("desk/*");
    for (resource, matched) in [
        ("desk/1", true),
        ("desk/a/b", true),
        ("desk/", false),
        ("desk", false),
        ("desks/1", false),
        ("Desk/1", false),
    ] {
        assert_eq!(pattern.matches(resource), matched, "{resource}");
    }
}

#[test]
fn a_star_anywhere_but_after_a_last_slash_is_refused() {
    for given in ["", "*", "/*", "a*", "*/a", "a/*/b", "a/**", "*/*", "a/*b"] {
        let refused = given.parse::<Pattern>().expect_err(given);
        assert!(refused.to_string().contains("ends in /*"), "{refused}");
    }
}

#[test]
fn nothing_is_permitted_unless_it_is_allowed() {
    for resource in PROBES {
        assert!(!Resources::default().permits(resource));
    }
}

#[test]
fn access_is_ordered_and_only_reading_needs_less_than_writing() {
    assert!(Access::None < Access::ReadOnly && Access::ReadOnly < Access::ReadWrite);
    for operation in Operation::ALL {
        let reads = operation.access() == Access::ReadOnly;
        assert_eq!(reads, operation == Operation::Read, "{operation}");
        assert_ne!(operation.access(), Access::None);
    }
}
