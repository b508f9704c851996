//! JSON data: what is refused on the way in, and that one value has one canonical form and one digest.

use coppice_messages::{
    Digest, Payload, Value,
    payload::{Blobs, INLINE_BYTES_MAX, NoBlobs},
    value::{DEPTH_MAX, INTEGER_MAX},
};
use proptest::prelude::*;

use crate::strategies;

/// Given JSON text, when it is parsed, then its canonical form is this.
#[track_caller]
fn check(json: &str, canonical: &str) {
    let value = Value::parse(json.as_bytes()).expect("it is JSON data");
    assert_eq!(value.to_string(), canonical);
    assert_eq!(value.digest(), Digest::of(canonical.as_bytes()));
    let packed = rmp_serde::to_vec_named(&value).expect("it encodes");
    let unpacked: Value = rmp_serde::from_slice(&packed).expect("it decodes");
    assert_eq!(unpacked, value);
}

/// Given JSON text, when it is parsed, then it is refused for this reason.
#[track_caller]
fn check_refused(json: &str, reason: &str) {
    let refused = Value::parse(json.as_bytes()).expect_err("it is not usable");
    assert!(refused.to_string().contains(reason), "{refused}");
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    check_refused(r#"{"a": 1, "a": 1}"#, "\"a\" stands twice");
    check_refused(r#"[{"b": {"a": 1, "c": 2, "a": 3}}]"#, "\"a\" stands twice");
    check_refused(r#"{"a": 1, "\u0061": 2}"#, "\"a\" stands twice");
}

#[test]
fn keys_that_only_look_alike_are_two() {
    check(
        "{\"\u{e4}\": 1, \"a\u{308}\": 2}",
        "{\"a\u{308}\":2,\"\u{e4}\":1}",
    );
}

#[test]
fn integers_are_kept_up_to_where_json_readers_disagree() {
    check("9007199254740991", "9007199254740991");
    check("-9007199254740991", "-9007199254740991");
    for beyond in [
        "9007199254740992",
        "-9007199254740992",
        "9223372036854775807",
        "18446744073709551615",
        "18446744073709551616",
        "1e16",
        "-1e300",
        "9007199254740992.0",
    ] {
        check_refused(beyond, "write it as text");
    }
}

#[test]
fn a_number_that_is_not_finite_is_refused() {
    for given in ["1e400", "-1e400"] {
        check_refused(given, "out of range");
    }
    for given in ["NaN", "Infinity", "-Infinity", "[nan]"] {
        assert!(Value::parse(given.as_bytes()).is_err(), "{given}");
    }
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let packed = rmp_serde::to_vec(&number).expect("MessagePack has such numbers");
        let refused = rmp_serde::from_slice::<Value>(&packed).expect_err("it is not finite");
        assert!(refused.to_string().contains("not finite"), "{refused}");
    }
}

#[test]
fn numbers_that_are_equal_are_one_value() {
    for one in ["1", "1.0", "1.000", "10e-1", "1E0", "0.1e1"] {
        assert_eq!(Value::parse(one.as_bytes()), Ok(Value::Int(1)));
        check(one, "1");
    }
    for zero in ["0", "-0", "0.0", "-0.0", "0e5"] {
        assert_eq!(Value::parse(zero.as_bytes()), Ok(Value::Int(0)));
        check(zero, "0");
    }
    for large in ["9007199254740991.0", "9.007199254740991e15"] {
        check(large, "9007199254740991");
    }
}

#[test]
fn a_float_that_code_made_whole_has_the_digest_of_the_integer() {
    assert_eq!(Value::Float(3.0).digest(), Value::Int(3).digest());
    assert_eq!(Value::Float(-0.0).digest(), Value::Int(0).digest());
}

#[test]
fn nesting_ends_at_64() {
    let nested = |open: &str, close: &str, depth| open.repeat(depth) + "1" + &close.repeat(depth);
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deepest = nested(open, close, DEPTH_MAX);
        check(&deepest, &deepest);
        check_refused(&nested(open, close, DEPTH_MAX + 1), "nested deeper than 64");
        assert!(Value::parse(nested(open, close, 100_000).as_bytes()).is_err());
    }
}

#[test]
fn half_of_a_surrogate_pair_is_refused() {
    for given in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""a\ud800b""#,
        r#""\udc00\ud800""#,
        r#""\ud800\ud800""#,
        r#"{"\ud83d": 1}"#,
    ] {
        assert!(Value::parse(given.as_bytes()).is_err(), "{given}");
    }
    check(r#""\ud83d\ude00""#, "\"😀\"");
}

#[test]
fn text_that_is_not_utf_8_is_refused() {
    for given in [&b"\"\xff\""[..], b"\"\xed\xa0\x80\"", b"\"\xc0\xaf\""] {
        assert!(Value::parse(given).is_err(), "{given:?}");
    }
}

#[test]
fn anything_after_the_value_is_refused() {
    for given in [
        "1 2",
        "{} x",
        "[1],",
        "",
        " ",
        "{\"a\":1,}",
        "'a'",
        "// a\n1",
    ] {
        assert!(Value::parse(given.as_bytes()).is_err(), "{given}");
    }
}

/// RFC 8785, 3.2.2 and 3.2.4.
#[test]
fn the_canonical_form_is_that_of_the_example_in_rfc_8785() {
    check(
        r#"{
          "numbers": [4.50, 2e-3, 0.000000000000000000000000001, 333333333.33333329],
          "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
          "literals": [null, true, false]
        }"#,
        concat!(
            r#"{"literals":[null,true,false],"numbers":[4.5,0.002,1e-27,333333333.3333333],"#,
            r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
        ),
    );
}

/// RFC 8785, 3.2.3: by UTF-16 code units, so that U+1F600 (d83d de00) stands before U+FB33.
#[test]
fn keys_are_ordered_by_their_utf_16_code_units() {
    check(
        r#"{
          "\u20ac": "Euro Sign",
          "\r": "Carriage Return",
          "\ufb33": "Hebrew Letter Dalet With Dagesh",
          "1": "One",
          "\ud83d\ude00": "Emoji: Grinning Face",
          "\u0080": "Control",
          "\u00f6": "Latin Small Letter O With Diaeresis"
        }"#,
        concat!(
            r#"{"\r":"Carriage Return","1":"One","#,
            "\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",",
            "\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",",
            "\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}"
        ),
    );
}

/// RFC 8785, appendix B: those that are no integers beyond the limit.
#[test]
fn numbers_have_the_forms_of_rfc_8785() {
    for (bits, form) in [
        (0x0000_0000_0000_0000_u64, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        assert_eq!(Value::Float(f64::from_bits(bits)).to_string(), form);
        check(form, form);
    }
}

#[test]
fn a_pointer_leads_to_members_and_items() {
    let json = br#"{"a/b": [10, {"m~n": true}], "~1": 2, "": 3, "0": 4}"#;
    let value = Value::parse(json).expect("it is JSON data");
    assert_eq!(value.at(""), Some(&value));
    assert_eq!(value.at("/a~1b/0"), Some(&Value::Int(10)));
    assert_eq!(value.at("/a~1b/1/m~0n"), Some(&Value::Bool(true)));
    assert_eq!(value.at("/~01"), Some(&Value::Int(2)));
    assert_eq!(value.at("/"), Some(&Value::Int(3)));
    assert_eq!(value.at("/0"), Some(&Value::Int(4)));
}

#[test]
fn a_pointer_to_nothing_leads_nowhere() {
    let value = Value::parse(br#"{"a": [10, 11]}"#).expect("it is JSON data");
    for pointer in [
        "a",
        "/b",
        "/a/2",
        "/a/-",
        "/a/-1",
        "/a/+1",
        "/a/01",
        "/a/00",
        "/a/0/0",
        "/a/",
        "/a/ 1",
        "/a/18446744073709551616",
    ] {
        assert_eq!(value.at(pointer), None, "{pointer}");
    }
}

struct One(Vec<u8>);

impl Blobs for One {
    fn value(&self, digest: &Digest) -> Option<Value> {
        let is_it = Digest::of(&self.0) == *digest;
        is_it.then(|| Value::parse(&self.0).expect("a blob holds canonical JSON"))
    }
}

#[test]
fn a_value_above_64_kib_is_carried_beside_the_event() {
    let text = |bytes: usize| Value::Text("a".repeat(bytes - 2));
    let (inline, beside) = Payload::of(text(INLINE_BYTES_MAX));
    assert_eq!(inline.resolve(&NoBlobs), Some(text(INLINE_BYTES_MAX)));
    assert_eq!(beside, None);
    let large = text(INLINE_BYTES_MAX + 1);
    let (cited, beside) = Payload::of(large.clone());
    let bytes = beside.expect("the blob must be stored");
    assert_eq!(cited.digest(), large.digest());
    assert_eq!(cited.resolve(&NoBlobs), None);
    assert_eq!(cited.resolve(&One(bytes)), Some(large));
}

proptest! {
    #[test]
    fn a_value_is_read_back_from_its_canonical_form_and_from_messagepack(value in strategies::json()) {
        let canonical = value.canonical();
        let read = Value::parse(&canonical).expect("the canonical form is JSON data");
        prop_assert_eq!(read.canonical(), canonical);
        prop_assert_eq!(&read, &value);
        let packed = rmp_serde::to_vec_named(&value).expect("it encodes");
        prop_assert_eq!(rmp_serde::from_slice::<Value>(&packed).expect("it decodes"), value);
    }

    #[test]
    fn every_fraction_comes_back_to_the_last_bit(number in strategies::fraction()) {
        let read = Value::parse(&Value::Float(number).canonical());
        prop_assert_eq!(read, Ok(Value::Float(number)));
    }

    #[test]
    fn a_whole_number_is_an_integer_however_it_is_written(number in -INTEGER_MAX..=INTEGER_MAX) {
        for json in [format!("{number}"), format!("{number}.0"), format!("{number}0e-1")] {
            prop_assert_eq!(Value::parse(json.as_bytes()), Ok(Value::Int(number)), "{}", json);
        }
        let packed = rmp_serde::to_vec(&(number as f64)).expect("it encodes");
        prop_assert_eq!(rmp_serde::from_slice::<Value>(&packed).expect("it decodes"), Value::Int(number));
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in any::<Vec<u8>>()) {
        let _ = Value::parse(&bytes);
        let _ = rmp_serde::from_slice::<Value>(&bytes);
    }

    #[test]
    fn no_pointer_panics(value in strategies::json(), pointer in "(/[a~01/-]{0,3}){0,4}") {
        let _ = value.at(&pointer);
    }
}
