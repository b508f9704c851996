//! Arguments as values of Cedar, within bounds.

use cedar_policy::RestrictedExpression;
use coppice_messages::Value;

use crate::limits::{POLICY_ARGUMENT_BYTES, POLICY_ARGUMENT_PARTS};

/// What is left of the bounds while arguments are turned into values.
struct Left {
    parts: usize,
    bytes: usize,
}

/// The arguments; none when they are beyond the bounds.
///
/// Cedar has no null: a member that is null is absent. It has no binary fractions: one is a `decimal` where four digits say it exactly, else
/// its text.
pub(super) fn arguments(value: &Value) -> Option<RestrictedExpression> {
    let mut left = Left {
        parts: POLICY_ARGUMENT_PARTS,
        bytes: POLICY_ARGUMENT_BYTES,
    };
    match value {
        Value::Null => Some(record([])),
        value => left.expression(value),
    }
}

pub(super) fn record(
    members: impl IntoIterator<Item = (String, RestrictedExpression)>,
) -> RestrictedExpression {
    // Fails for a key that stands twice alone; those that lead here cannot.
    RestrictedExpression::new_record(members)
        .unwrap_or_else(|_| RestrictedExpression::new_string(String::new()))
}

pub(super) fn text(text: impl Into<String>) -> RestrictedExpression {
    RestrictedExpression::new_string(text.into())
}

impl Left {
    fn take(&mut self, bytes: usize) -> Option<()> {
        self.parts = self.parts.checked_sub(1)?;
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(())
    }

    fn expression(&mut self, value: &Value) -> Option<RestrictedExpression> {
        self.take(0)?;
        Some(match value {
            Value::Null => text(""),
            Value::Bool(value) => RestrictedExpression::new_bool(*value),
            Value::Int(value) => RestrictedExpression::new_long(*value),
            Value::Float(value) => fraction(*value),
            Value::Text(value) => {
                self.take(value.len())?;
                text(value.as_str())
            }
            Value::List(list) => {
                let items: Option<Vec<_>> = list.iter().map(|item| self.expression(item)).collect();
                RestrictedExpression::new_set(items?)
            }
            Value::Map(map) => {
                let present = map.iter().filter(|(_, value)| **value != Value::Null);
                let members: Option<Vec<_>> = present
                    .map(|(key, value)| {
                        self.take(key.len())?;
                        Some((key.clone(), self.expression(value)?))
                    })
                    .collect();
                record(members?)
            }
        })
    }
}

/// The members of the arguments that are decimal numbers written as text, as the contracts write money: as numbers that can be compared.
pub(super) fn amounts(value: &Value) -> RestrictedExpression {
    let Value::Map(members) = value else {
        return record([]);
    };
    let amount = |(key, value): (&String, &Value)| {
        let words = value.as_text().filter(|words| is_decimal(words))?;
        Some((key.clone(), RestrictedExpression::new_decimal(words)))
    };
    record(members.iter().filter_map(amount))
}

/// What Cedar reads as a decimal, and is far from the ends of its range.
fn is_decimal(words: &str) -> bool {
    let digits = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let unsigned = words.strip_prefix('-').unwrap_or(words);
    unsigned
        .split_once('.')
        .is_some_and(|(whole, fraction)| digits(whole, 14) && digits(fraction, 4))
}

fn fraction(value: f64) -> RestrictedExpression {
    let words = format!("{value:.4}");
    if words.parse() == Ok(value) && value.abs() < 900_000_000_000_000.0 {
        RestrictedExpression::new_decimal(words)
    } else {
        text(value.to_string())
    }
}
