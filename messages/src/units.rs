//! Quantities with their units: times, durations, sizes and money, integers only.
//!
//! In MessagePack each is an integer; in YAML and JSON each is the text that people write (`5m`, `64KiB`, `1.50 USD`,
//! RFC 3339 times).

mod rfc3339;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is not a quantity of the wanted unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a {what}: expected {expected}")]
pub struct InvalidQuantity {
    /// What was given.
    pub given: String,
    /// Which quantity was wanted.
    pub what: &'static str,
    /// What would be right.
    pub expected: &'static str,
}

/// UTC, in microseconds since 1970. Given by the host's clock; never used for order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// A span of time in milliseconds, written `200ms`, `90s`, `5m`, `2h`, `1d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

/// A number of bytes, written `512`, `64KiB`, `10MiB`, `1GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// Money in millionths of a US dollar, written `1.50 USD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MicroUsd(pub u64);

impl Timestamp {
    /// This time and `span` more; saturates at the end of time.
    #[must_use]
    pub fn plus(self, span: Millis) -> Self {
        let micros = i64::try_from(span.0.saturating_mul(1000)).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// This time less `span`.
    #[must_use]
    pub fn minus(self, span: Millis) -> Self {
        let micros = i64::try_from(span.0.saturating_mul(1000)).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// Milliseconds from `earlier` to this time, zero when it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0) / 1000)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match rfc3339::Text::of(self.0) {
            Some(text) => f.write_str(text.as_str()),
            None => write!(f, "{}us", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = InvalidQuantity;
    fn from_str(given: &str) -> Result<Self, InvalidQuantity> {
        rfc3339::read(given).map(Self).ok_or_else(|| {
            invalid(
                given,
                "time",
                "RFC 3339 with a zone, such as 2026-08-07T18:30:00Z",
            )
        })
    }
}

/// Units from the greatest to the one whose size is 1.
type Scale = [(&'static str, u64)];

const DURATIONS: &Scale = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
const SIZES: &Scale = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("", 1),
];

/// The amount in the greatest unit that leaves no fraction.
fn write_scaled(f: &mut fmt::Formatter<'_>, amount: u64, scale: &Scale) -> fmt::Result {
    let whole =
        |(_, size): &&(&str, u64)| *size == 1 || (amount >= *size && amount.is_multiple_of(*size));
    let (unit, size) = scale.iter().find(whole).copied().unwrap_or(("", 1));
    write!(f, "{}{unit}", amount / size)
}

fn parse_scaled(given: &str, scale: &Scale) -> Option<u64> {
    let (number, unit) = split_unit(given);
    let (_, size) = scale.iter().find(|(known, _)| *known == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*size)
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, DURATIONS)
    }
}

impl FromStr for Millis {
    type Err = InvalidQuantity;
    fn from_str(given: &str) -> Result<Self, InvalidQuantity> {
        let expected = "a whole number and a unit: 200ms, 90s, 5m, 2h, 1d";
        parse_scaled(given, DURATIONS)
            .map(Self)
            .ok_or_else(|| invalid(given, "duration", expected))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, SIZES)
    }
}

impl FromStr for Bytes {
    type Err = InvalidQuantity;
    fn from_str(given: &str) -> Result<Self, InvalidQuantity> {
        let expected = "a whole number of bytes, KiB, MiB or GiB: 512, 64KiB, 10MiB";
        parse_scaled(given, SIZES)
            .map(Self)
            .ok_or_else(|| invalid(given, "size", expected))
    }
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if rest.is_multiple_of(10_000) {
            write!(f, "{whole}.{:02} USD", rest / 10_000)
        } else {
            write!(f, "{whole}.{rest:06} USD")
        }
    }
}

impl FromStr for MicroUsd {
    type Err = InvalidQuantity;
    fn from_str(given: &str) -> Result<Self, InvalidQuantity> {
        let refuse = || {
            invalid(
                given,
                "sum of money",
                "dollars with at most six decimals, such as \"1.50 USD\"",
            )
        };
        let number = given.strip_suffix("USD").ok_or_else(refuse)?.trim_end();
        let (whole, decimals) = match number.split_once('.') {
            Some((_, "")) => return Err(refuse()),
            Some(parts) => parts,
            None => (number, ""),
        };
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || decimals.len() > 6 || !digits(whole) || !digits(decimals) {
            return Err(refuse());
        }
        let whole: u64 = whole.parse().map_err(|_| refuse())?;
        let rest: u64 = format!("{decimals:0<6}").parse().map_err(|_| refuse())?;
        whole
            .checked_mul(1_000_000)
            .and_then(|m| m.checked_add(rest))
            .map(Self)
            .ok_or_else(refuse)
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (&text[..at], &text[at..])
}

fn invalid(given: &str, what: &'static str, expected: &'static str) -> InvalidQuantity {
    InvalidQuantity {
        given: given.chars().take(80).collect(),
        what,
        expected,
    }
}

macro_rules! quantity_serde {
    ($name:ident, $integer:ty) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    self.0.serialize(serializer)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    String::deserialize(deserializer)?
                        .parse()
                        .map_err(serde::de::Error::custom)
                } else {
                    <$integer>::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

quantity_serde!(Timestamp, i64);
quantity_serde!(Millis, u64);
quantity_serde!(Bytes, u64);
quantity_serde!(MicroUsd, u64);
