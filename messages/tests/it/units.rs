//! Quantities: what people write is read exactly, and written again the same.

use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

use coppice_messages::{Bytes, MicroUsd, Millis, Timestamp, units::InvalidQuantity};
use proptest::prelude::*;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Given a text, when it is read, then it is this quantity and is written as `written`, in code, JSON and `MessagePack`.
#[track_caller]
fn check<T>(given: &str, expected: T, written: &str)
where
    T: FromStr<Err: Debug> + Display + Debug + PartialEq + Copy + Serialize + DeserializeOwned,
{
    let read: T = given.parse().expect("it is well formed");
    assert_eq!(read, expected);
    assert_eq!(read.to_string(), written);
    round_trip(read).expect("it comes back equal");
}

/// Given a quantity, when it is written and read in each form, then it is the same.
fn round_trip<T>(quantity: T) -> Result<(), TestCaseError>
where
    T: FromStr<Err: Debug> + Display + Debug + PartialEq + Copy + Serialize + DeserializeOwned,
{
    let text: T = quantity
        .to_string()
        .parse()
        .expect("it reads what it writes");
    prop_assert_eq!(text, quantity);
    let json = serde_json::to_vec(&quantity).expect("it is JSON");
    prop_assert_eq!(json[0], b'"', "JSON has the text");
    prop_assert_eq!(
        serde_json::from_slice::<T>(&json).expect("it is read"),
        quantity
    );
    let packed = rmp_serde::to_vec_named(&quantity).expect("it is MessagePack");
    prop_assert!(packed.len() <= 9, "MessagePack has the integer");
    prop_assert_eq!(
        rmp_serde::from_slice::<T>(&packed).expect("it is read"),
        quantity
    );
    Ok(())
}

/// Given texts that are no such quantity, when each is read, then the refusal cites it and says what would be right.
#[track_caller]
fn check_refused<T: FromStr<Err = InvalidQuantity> + Debug>(texts: &[&str]) {
    for text in texts {
        let refused = text.parse::<T>().expect_err(text);
        assert_eq!(refused.given, *text);
        assert!(refused.to_string().contains("expected"), "{refused}");
    }
}

#[test]
fn a_duration_is_a_number_and_a_unit() {
    check("0ms", Millis(0), "0ms");
    check("200ms", Millis(200), "200ms");
    check("90s", Millis(90_000), "90s");
    check("5m", Millis(300_000), "5m");
    check("2h", Millis(7_200_000), "2h");
    check("1d", Millis(86_400_000), "1d");
    check("60s", Millis(60_000), "1m");
    check("1500ms", Millis(1500), "1500ms");
    check(
        "18446744073709551615ms",
        Millis(u64::MAX),
        "18446744073709551615ms",
    );
}

#[test]
fn what_is_no_duration_is_refused() {
    check_refused::<Millis>(&[
        "",
        "5",
        "m",
        "5 m",
        " 5m",
        "5m ",
        "-5m",
        "+5m",
        "1.5s",
        "5min",
        "5M",
        "1h30m",
        "5µs",
        "18446744073709551616ms",
        "18446744073709551615s",
        "٥m",
    ]);
}

#[test]
fn a_size_is_a_number_and_perhaps_a_unit() {
    check("0", Bytes(0), "0");
    check("512", Bytes(512), "512");
    check("64KiB", Bytes(64 << 10), "64KiB");
    check("10MiB", Bytes(10 << 20), "10MiB");
    check("1GiB", Bytes(1 << 30), "1GiB");
    check("1024KiB", Bytes(1 << 20), "1MiB");
    check("1025", Bytes(1025), "1025");
}

#[test]
fn what_is_no_size_is_refused() {
    check_refused::<Bytes>(&[
        "",
        "KiB",
        "64 KiB",
        "64kib",
        "64KB",
        "64K",
        "-1",
        "1.5MiB",
        "1TiB",
        "18446744073709551616",
        "18446744073709551615KiB",
    ]);
}

#[test]
fn money_is_dollars_with_at_most_six_decimals() {
    check("1.50 USD", MicroUsd(1_500_000), "1.50 USD");
    check("1.5 USD", MicroUsd(1_500_000), "1.50 USD");
    check("3 USD", MicroUsd(3_000_000), "3.00 USD");
    check("0 USD", MicroUsd(0), "0.00 USD");
    check("0.000001 USD", MicroUsd(1), "0.000001 USD");
    check("1.50USD", MicroUsd(1_500_000), "1.50 USD");
    check(
        "18446744073709.551615 USD",
        MicroUsd(u64::MAX),
        "18446744073709.551615 USD",
    );
}

#[test]
fn what_is_no_money_is_refused() {
    check_refused::<MicroUsd>(&[
        "",
        "USD",
        "1.50",
        "1.50 EUR",
        "$1.50",
        "1,50 USD",
        ".50 USD",
        "1. USD",
        "-1 USD",
        "+1 USD",
        "1.0000001 USD",
        "1e3 USD",
        "1.5.0 USD",
        "18446744073709.551616 USD",
        "18446744073710 USD",
    ]);
}

#[test]
fn a_time_is_rfc_3339_with_a_zone() {
    let noon = Timestamp(1_786_127_400_000_000);
    check("2026-08-07T18:30:00Z", noon, "2026-08-07T18:30:00.000000Z");
    check(
        "2026-08-07T20:30:00+02:00",
        noon,
        "2026-08-07T18:30:00.000000Z",
    );
    check(
        "2026-08-07T18:30:00.000001Z",
        Timestamp(noon.0 + 1),
        "2026-08-07T18:30:00.000001Z",
    );
    check(
        "2000-02-29T00:00:00.1234567-00:30",
        Timestamp(951_784_200_123_456),
        "2000-02-29T00:30:00.123456Z",
    );
    check(
        "1969-12-31T23:59:59.999999Z",
        Timestamp(-1),
        "1969-12-31T23:59:59.999999Z",
    );
}

#[test]
fn what_is_no_time_is_refused() {
    check_refused::<Timestamp>(&[
        "",
        "2026-08-07",
        "2026-08-07T18:30:00",
        "18:30",
        "2026-02-30T00:00:00Z",
        "1786127400",
        "2026-08-07T25:00:00Z",
        "tomorrow",
        "2026-00-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-08-07T18:30:00.Z",
        "2026-08-07T18:30:00+24:00",
        "2026-08-07T18:30:00Z ",
        "2026-08-07T18:61:00Z",
    ]);
}

#[test]
fn a_yaml_size_without_a_unit_is_a_plain_number() {
    #[derive(Deserialize)]
    struct Document {
        size: Bytes,
    }
    for (given, size) in [
        ("size: 512", 512),
        ("size: \"512\"", 512),
        ("size: 64KiB", 64 << 10),
    ] {
        let read: Document = serde_saphyr::from_str(given).expect("it is a size");
        assert_eq!(read.size, Bytes(size));
    }
}

#[test]
fn times_saturate_at_both_ends() {
    let (first, last) = (Timestamp(i64::MIN), Timestamp(i64::MAX));
    assert_eq!(last.plus(Millis(1)), last);
    assert_eq!(Timestamp(0).plus(Millis(u64::MAX)), last);
    assert_eq!(first.minus(Millis(1)), first);
    assert_eq!(first.since(last), Millis(0));
    assert_eq!(Timestamp(2500).since(Timestamp(500)), Millis(2));
}

proptest! {
    #[test]
    fn every_duration_comes_back(number in any::<u64>(), unit in prop::sample::select(vec![1, 1000, 60_000, 3_600_000, 86_400_000])) {
        round_trip(Millis(number))?;
        round_trip(Millis((number % 1000) * unit))?;
    }

    #[test]
    fn every_size_comes_back(number in any::<u64>(), shift in prop::sample::select(vec![0, 10, 20, 30])) {
        round_trip(Bytes(number))?;
        round_trip(Bytes((number % 1000) << shift))?;
    }

    #[test]
    fn every_sum_of_money_comes_back(number in any::<u64>()) {
        round_trip(MicroUsd(number))?;
        round_trip(MicroUsd(number % 100 * 10_000))?;
    }

    #[test]
    fn every_time_of_the_years_0_to_9999_comes_back(micros in -62_167_219_200_000_000_i64..=253_402_300_799_999_999) {
        round_trip(Timestamp(micros))?;
    }

    #[test]
    fn no_text_makes_a_quantity_panic(text in any::<String>()) {
        let _ = text.parse::<Millis>();
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<MicroUsd>();
        let _ = text.parse::<Timestamp>();
    }
}
