//! The codec of commits: what it refuses, what it lets through unread, and that no bytes whatever make it panic.

use coppice_messages::{
    Commit, Event, Value,
    commit::{DecodeError, FORMAT, Header},
    value::{DEPTH_MAX, INTEGER_MAX},
};
use proptest::{collection::vec, prelude::*};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{samples, strategies};

/// A map whose entries stand in the given order, and may stand twice.
struct Ordered<'a>(Vec<(&'a str, Part<'a>)>);

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Data(Value),
    Events(Vec<Ordered<'a>>),
    Bytes(serde_bytes::ByteArray<32>),
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, part) in &self.0 {
            map.serialize_entry(key, part)?;
        }
        map.end()
    }
}

/// The bytes of a commit of `format` with one event of these fields.
fn bytes_of(format: i64, event: Vec<(&str, Value)>) -> Vec<u8> {
    let event = event
        .into_iter()
        .map(|(key, value)| (key, Part::Data(value)));
    let commit = Ordered(vec![
        ("v", Part::Data(Value::Int(format))),
        ("tenant", Part::Data("acme".into())),
        ("tree", Part::Data("run_85a".into())),
        ("run", Part::Data("run_85a".into())),
        ("seq", Part::Data(Value::Int(1))),
        ("epoch", Part::Data(Value::Int(1))),
        ("prev", Part::Bytes(serde_bytes::ByteArray::new([0; 32]))),
        ("at", Part::Data(Value::Int(0))),
        ("trace", Part::Data("".into())),
        ("events", Part::Events(vec![Ordered(event.collect())])),
    ]);
    rmp_serde::to_vec_named(&commit).expect("a commit of plain data encodes")
}

fn claimed() -> Value {
    Value::map([("owner", Value::from("host-1")), ("why", "start".into())])
}

/// Given one event of these fields, when the commit is decoded, then its event is as expected or the reason is named.
#[track_caller]
fn check(event: Vec<(&str, Value)>, expected: Result<&str, &str>) {
    match (Commit::decode(&bytes_of(1, event)), expected) {
        (Ok(commit), Ok(kind)) => assert_eq!(commit.events[0].event.kind(), kind),
        (Err(DecodeError::Malformed { source, .. }), Err(reason)) => {
            let said = source.to_string();
            assert!(said.contains(reason), "{said:?} does not say {reason:?}");
        }
        (given, expected) => panic!("{given:?}, expected {expected:?}"),
    }
}

#[test]
fn an_event_is_read_by_its_kind_and_version() {
    let event = vec![
        ("kind", "run.claimed".into()),
        ("v", Value::Int(1)),
        ("body", claimed()),
    ];
    check(event, Ok("run.claimed"));
}

#[test]
fn a_cause_that_is_null_is_none() {
    let event = vec![
        ("kind", "run.claimed".into()),
        ("v", Value::Int(1)),
        ("cause", Value::Null),
        ("body", claimed()),
    ];
    check(event, Ok("run.claimed"));
}

#[test]
fn an_unknown_kind_is_unrecognised_and_the_rest_is_read() {
    let commit = Commit::decode(&bytes_of(
        1,
        vec![
            ("kind", "run.teleported".into()),
            ("v", Value::Int(1)),
            ("body", samples::value()),
        ],
    ))
    .expect("an unknown kind is no malformed commit");
    let kind = "run.teleported".to_owned();
    assert_eq!(commit.events[0].event, Event::Unrecognised { kind });
    assert_eq!(commit.seq, 1);
}

#[test]
fn a_newer_version_of_a_known_kind_is_unrecognised() {
    let commit = Commit::decode(&bytes_of(
        1,
        vec![
            ("kind", "run.claimed".into()),
            ("v", Value::Int(2)),
            ("body", "in another shape".into()),
        ],
    ))
    .expect("a newer version is no malformed commit");
    let kind = "run.claimed".to_owned();
    assert_eq!(commit.events[0].event, Event::Unrecognised { kind });
}

#[test]
fn a_body_before_its_kind_is_refused() {
    let event = vec![
        ("body", claimed()),
        ("kind", "run.claimed".into()),
        ("v", Value::Int(1)),
    ];
    check(event, Err("body stands before kind"));
}

#[test]
fn a_body_before_its_version_is_refused() {
    let event = vec![
        ("kind", "run.claimed".into()),
        ("body", claimed()),
        ("v", Value::Int(1)),
    ];
    check(event, Err("body stands before v"));
}

#[test]
fn an_event_without_a_body_is_refused() {
    let event = vec![("kind", "run.claimed".into()), ("v", Value::Int(1))];
    check(event, Err("missing field `body`"));
}

#[test]
fn a_field_of_an_event_that_stands_twice_is_refused() {
    for twice in ["kind", "v", "body"] {
        let mut event = vec![
            ("kind", "run.claimed".into()),
            ("v", Value::Int(1)),
            ("body", claimed()),
        ];
        let again = event.iter().find(|(key, _)| *key == twice).cloned();
        event.extend(again);
        check(event, Err("each once"));
    }
}

#[test]
fn a_field_that_no_event_has_is_refused() {
    let event = vec![
        ("kind", "run.claimed".into()),
        ("v", Value::Int(1)),
        ("signature", Value::Null),
        ("body", claimed()),
    ];
    check(event, Err("\"signature\" is too many"));
}

#[test]
fn a_newer_format_is_refused_as_newer_by_commit_and_header() {
    let newer = i64::from(FORMAT) + 1;
    let same_shape = bytes_of(
        newer,
        vec![
            ("kind", "run.claimed".into()),
            ("v", Value::Int(1)),
            ("body", claimed()),
        ],
    );
    let other_shape = bytes_of(newer, vec![("what", "run.claimed".into())]);
    for bytes in [same_shape, other_shape] {
        let found = FORMAT + 1;
        for refused in [
            Commit::decode(&bytes).map(|_| ()),
            Header::decode(&bytes).map(|_| ()),
        ] {
            assert!(
                matches!(&refused, Err(DecodeError::NewerFormat { found: f }) if *f == found),
                "{refused:?}"
            );
        }
    }
}

#[test]
fn bytes_after_the_commit_are_refused() {
    let whole = samples::commit("run.claimed").encode().expect("encodes");
    for more in [&[0xc0][..], &[0xc1], &[0xd9], &whole] {
        let bytes = [&whole, more].concat();
        for refused in [
            Commit::decode(&bytes).map(|_| ()),
            Header::decode(&bytes).map(|_| ()),
        ] {
            assert!(
                matches!(refused, Err(DecodeError::TrailingBytes { .. })),
                "{refused:?}"
            );
        }
    }
}

#[test]
fn nesting_without_end_is_refused() {
    for bytes in [vec![0x91; 1 << 20], vec![0x81; 1 << 20]] {
        assert!(Commit::decode(&bytes).is_err());
        assert!(Header::decode(&bytes).is_err());
    }
}

#[test]
fn a_value_that_could_not_be_read_again_is_not_encoded() {
    let nested = |depth| (0..depth).fold(Value::Null, |inner, _| Value::List(vec![inner]));
    let encodes = |value| {
        let mut commit = samples::commit("run.claimed");
        commit.events[0].event = samples::answer_of(value);
        let encoded = commit.encode();
        if let Ok(bytes) = &encoded {
            Commit::decode(bytes).expect("what encodes also decodes");
        }
        encoded.is_ok()
    };
    assert!(encodes(Value::Int(INTEGER_MAX)));
    assert!(encodes(Value::Float(0.5)));
    assert!(encodes(Value::Float(2.0)));
    assert!(encodes(nested(DEPTH_MAX)));
    assert!(!encodes(Value::Int(INTEGER_MAX + 1)));
    assert!(!encodes(Value::Int(i64::MIN)));
    assert!(!encodes(Value::Float(f64::NAN)));
    assert!(!encodes(Value::Float(f64::NEG_INFINITY)));
    assert!(!encodes(Value::Float(1e300)));
    assert!(!encodes(nested(DEPTH_MAX + 1)));
}

#[test]
fn the_number_after_the_last_possible_event_is_no_panic() {
    let last = Commit {
        seq: u64::MAX,
        ..samples::commit("run.claimed")
    };
    assert_eq!(last.next_seq(), u64::MAX);
}

/// Given any bytes, when they are decoded as commit and as header, then both say the same about what both read.
fn same_by_both(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (commit, header) = (Commit::decode(bytes), Header::decode(bytes));
    let Ok(commit) = commit else {
        return Ok(());
    };
    let header = header.map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
    prop_assert_eq!(header.next_seq(), commit.next_seq());
    prop_assert_eq!(header, Header::of(&commit));
    Ok(())
}

proptest! {
    #[test]
    fn a_commit_decodes_to_what_was_encoded(commit in strategies::commit()) {
        let bytes = commit.encode().expect("a commit within the limits encodes");
        prop_assert_eq!(Commit::decode(&bytes).expect("it decodes"), commit);
    }

    #[test]
    fn the_header_agrees_with_the_commit(commit in strategies::commit()) {
        let bytes = commit.encode().expect("a commit within the limits encodes");
        prop_assert!(Commit::decode(&bytes).is_ok());
        same_by_both(&bytes)?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..512)) {
        same_by_both(&bytes)?;
    }

    #[test]
    fn damaged_bytes_never_panic_and_are_read_alike(
        commit in strategies::commit(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = commit.encode().expect("a commit within the limits encodes");
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        same_by_both(&bytes)?;
        bytes.truncate(cut.index(bytes.len()));
        same_by_both(&bytes)?;
    }
}
