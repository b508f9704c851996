//! Identifiers: what is refused, what is derived.

use std::{fmt::Debug, str::FromStr};

use coppice_messages::{
    Digest,
    digest::LengthPrefixed,
    ids::{
        AgentName, ClientKey, EffectKey, HostId, InvalidId, NodeName, RunId, SchemaName, SlotName,
        TenantId, ToolName, TreeId,
    },
};
use proptest::prelude::*;
use serde::de::DeserializeOwned;

use crate::samples::named;

/// Given a text, when it is taken as each type of id, then all refuse it for this reason, in code and in documents.
#[track_caller]
fn check_refused(given: &str, reason: &str) {
    refuses::<TenantId>(given, reason);
    refuses::<RunId>(given, reason);
    refuses::<TreeId>(given, reason);
    refuses::<NodeName>(given, reason);
    refuses::<ToolName>(given, reason);
    refuses::<AgentName>(given, reason);
    refuses::<SchemaName>(given, reason);
    refuses::<HostId>(given, reason);
    refuses::<ClientKey>(given, reason);
    if given.len() <= 32 {
        refuses::<SlotName>(given, reason);
    }
}

#[track_caller]
fn refuses<T: FromStr<Err = InvalidId> + Debug + DeserializeOwned>(given: &str, reason: &str) {
    let refused = given.parse::<T>().expect_err("it is not usable as an id");
    assert!(refused.to_string().contains(reason), "{refused}");
    let json = serde_json::to_string(given).expect("text is JSON");
    let refused = serde_json::from_str::<T>(&json).expect_err("it is not usable as an id");
    assert!(refused.to_string().contains(reason), "{refused}");
}

#[test]
fn an_id_that_would_change_a_subject_is_refused() {
    for given in ["a>", ">", "a*", "*", "a.b", ".", "a b", " ", "a\tb", "a\nb"] {
        check_refused(given, "only the characters");
    }
}

#[test]
fn an_id_of_other_letters_than_ascii_is_refused() {
    for given in ["ä", "а", "a/b", "a\\b", "a\0", "..", "a:b", "a$b"] {
        check_refused(given, "only the characters");
    }
}

#[test]
fn an_id_that_begins_with_an_underscore_is_refused() {
    for given in ["_", "_a", "__", "_INBOX"] {
        check_refused(given, "reserved");
    }
}

#[test]
fn an_empty_id_is_refused() {
    check_refused("", "empty");
}

#[test]
fn an_id_of_65_characters_is_refused_and_of_64_is_not() {
    check_refused(&"a".repeat(65), "more than 64 characters");
    named::<RunId>(&"a".repeat(64));
}

#[test]
fn a_slot_of_33_characters_is_refused_and_of_32_is_not() {
    refuses::<SlotName>(&"a".repeat(33), "more than 32 characters");
    named::<SlotName>(&"a".repeat(32));
}

#[test]
fn a_refusal_of_a_long_text_stays_short() {
    let refused = "a>"
        .repeat(10_000)
        .parse::<RunId>()
        .expect_err("it is too long");
    assert!(refused.to_string().len() < 250, "{refused}");
}

#[test]
fn coppices_own_ids_are_read_but_cannot_be_given() {
    assert!("_sys".parse::<RunId>().is_err());
    assert!("_host".parse::<TenantId>().is_err());
    assert_eq!(
        serde_json::from_str::<RunId>("\"_sys\"").expect("a recorded system chain"),
        RunId::system()
    );
    assert_eq!(
        serde_json::from_str::<TenantId>("\"_host\"").expect("a recorded tenant of the host"),
        TenantId::host()
    );
    assert!(RunId::system().is_system());
    assert!(!named::<RunId>("sys").is_system());
}

#[test]
fn the_id_of_a_root_follows_from_tenant_and_key() {
    let id = |tenant, key| RunId::root(&named(tenant), &named(key)).to_string();
    assert_eq!(id("default", "REQ-1"), "REQ-1-e4e2bb69593ed895e15d");
    assert_eq!(id("acme", "REQ-1"), "REQ-1-8cdcbea4a700306ece15");
    assert_eq!(
        id("default", &"k".repeat(64)),
        "kkkkkkkkkkkkkkkkkkkkkkkk-044da27a0750a21806e7"
    );
}

#[test]
fn the_id_of_a_child_follows_from_parent_slot_and_ordinal() {
    let id =
        |parent, slot, ordinal| RunId::child(&named(parent), &named(slot), ordinal).to_string();
    assert_eq!(
        id("run_85a", "research", 2),
        "research-2-c70242c4606a5616850b"
    );
    assert_eq!(
        id("run_85a", "research", 3),
        "research-3-b0ed734f0bf280b5cd93"
    );
    assert_eq!(
        id("run_85b", "research", 2),
        "research-2-b27702c741bab207c9cf"
    );
}

#[test]
fn the_key_of_an_effect_follows_from_tenant_tool_lineage_and_operation() {
    let key = EffectKey::derive(
        &named("acme"),
        &named("create_ticket"),
        &named("run_85a"),
        "REQ-1",
    );
    assert_eq!(
        key.hex(),
        "82197e9906bfdbff1d117db3c5413b2274ed2d22273d1e5d852a9ae26a5112d5"
    );
}

#[test]
fn parts_that_join_to_the_same_bytes_have_other_digests() {
    let of = |parts: &[&str]| {
        let hash = |hash: LengthPrefixed, part: &&str| hash.part(part.as_bytes());
        parts.iter().fold(LengthPrefixed::new(), hash).finish()
    };
    assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
    assert_ne!(of(&["ab", "c"]), of(&["abc"]));
    assert_ne!(of(&["ab", ""]), of(&["", "ab"]));
    assert_ne!(of(&[]), of(&[""]));
}

#[test]
fn a_digest_reads_what_it_writes() {
    let digest = Digest::of(b"abc");
    assert_eq!(
        digest.to_string(),
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(digest.to_string().parse(), Ok(digest));
}

#[test]
fn a_text_that_is_no_digest_is_refused() {
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    for given in [
        "",
        "sha256:",
        hex,
        &format!("sha256:{}", &hex[1..]),
        &format!("sha256:{hex}0"),
        &format!("sha256:+{}", &hex[1..]),
        &format!("sha256:{}ä", &hex[2..]),
        &format!("sha256:{}", hex.to_uppercase()),
        &format!("SHA256:{hex}"),
    ] {
        assert!(given.parse::<Digest>().is_err(), "{given}");
    }
}

proptest! {
    #[test]
    fn a_derived_id_is_itself_an_id(
        key in "[A-Za-z0-9-][A-Za-z0-9_-]{0,63}",
        slot in "[A-Za-z0-9-][A-Za-z0-9_-]{0,31}",
        ordinal in any::<u32>(),
    ) {
        let root = RunId::root(&TenantId::default_tenant(), &named(&key));
        prop_assert_eq!(&named::<RunId>(root.as_str()), &root);
        let child = RunId::child(&root, &named(&slot), ordinal);
        prop_assert_eq!(&named::<RunId>(child.as_str()), &child);
    }

    #[test]
    fn an_id_is_taken_exactly_when_it_is_plain(text in "[a_>*. -]{0,4}") {
        let plain = !text.is_empty() && !text.starts_with('_') && !text.contains(['>', '*', '.', ' ']);
        prop_assert_eq!(text.parse::<RunId>().is_ok(), plain);
    }

    #[test]
    fn siblings_have_different_ids(first in any::<u32>(), second in any::<u32>()) {
        prop_assume!(first != second);
        let (parent, slot) = (named("run_85a"), named("research"));
        prop_assert_ne!(RunId::child(&parent, &slot, first), RunId::child(&parent, &slot, second));
    }
}
