//! What each route takes, and the business rules on it.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{limits, refusal::Refusal, world::Route};

/// Reads a route's arguments, or says what is wrong with them.
pub(super) fn read<T: DeserializeOwned>(route: Route, arguments: Value) -> Result<T, Refusal> {
    serde_json::from_value(arguments).map_err(|error| Refusal::Malformed {
        route,
        why: error.to_string(),
    })
}

/// `{id}` of an object in the path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    pub(super) id: String,
}

/// One query parameter: a key, a request id, or a text to search for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    pub(super) value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateTicket {
    pub(super) title: String,
    pub(super) body: Value,
    #[serde(default)]
    pub(super) note: Option<String>,
    #[serde(default)]
    pub(super) request_id: Option<String>,
}

impl CreateTicket {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        text("title", &self.title, limits::TITLE_CHARS)?;
        self.request_id
            .as_deref()
            .map_or(Ok(()), |id| text("request_id", id, limits::NAME_CHARS))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CloseTicket {
    pub(super) id: String,
    #[serde(default)]
    pub(super) note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PayRefund {
    pub(super) order: String,
    pub(super) amount: Amount,
    pub(super) currency: String,
    #[serde(default)]
    pub(super) note: Option<String>,
}

impl PayRefund {
    /// The amount in minor units, once everything is in order.
    pub(super) fn check(&self) -> Result<u64, Refusal> {
        text("order", &self.order, limits::NAME_CHARS)?;
        let known =
            self.currency.len() == 3 && self.currency.bytes().all(|byte| byte.is_ascii_uppercase());
        if !known {
            return Err(invalid(
                "currency",
                "must be three capital letters, such as EUR",
            ));
        }
        self.amount.minor()
    }
}

/// Money: `"12.50"`, or 1250 minor units.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Amount {
    Minor(u64),
    Text(String),
}

impl Amount {
    fn minor(&self) -> Result<u64, Refusal> {
        let minor = match self {
            Self::Minor(minor) => Some(*minor),
            Self::Text(text) => from_text(text),
        };
        minor
            .filter(|minor| (1..=limits::REFUND_MINOR).contains(minor))
            .ok_or_else(|| {
                let most = limits::REFUND_MINOR;
                invalid(
                    "amount",
                    &format!("must be \"12.50\" or minor units, from 1 to {most}"),
                )
            })
    }
}

fn from_text(text: &str) -> Option<u64> {
    let (whole, cents) = text.split_once('.')?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(cents) || cents.len() != 2 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(100)?.checked_add(cents.parse().ok()?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    pub(super) id: String,
    pub(super) content: String,
    /// The version that the writer has seen; absent: whatever it is.
    #[serde(default)]
    pub(super) version: Option<u64>,
}

impl WriteFile {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        text("name", &self.id, limits::NAME_CHARS)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if self.id.bytes().all(plain) {
            return Ok(());
        }
        Err(invalid(
            "name",
            "must be made of letters, digits, `.`, `_` and `-`",
        ))
    }
}

/// Refuses a text that is empty or too long.
pub(super) fn text(field: &'static str, value: &str, most: usize) -> Result<(), Refusal> {
    let chars = value.chars().count();
    if chars == 0 || chars > most {
        return Err(invalid(
            field,
            &format!("has {chars} characters, not 1 to {most}"),
        ));
    }
    Ok(())
}

fn invalid(field: &'static str, why: &str) -> Refusal {
    Refusal::Invalid {
        field,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_exactly_or_not_at_all() {
        let text = |text: &str| Amount::Text(text.into()).minor().ok();
        assert_eq!(text("12.50"), Some(1250));
        assert_eq!(text("0.01"), Some(1));
        assert_eq!(text("1000000.00"), Some(limits::REFUND_MINOR));
        for wrong in [
            "12.5",
            "12",
            ".50",
            "-1.00",
            "+1.00",
            "1e3",
            "0.00",
            "1000000.01",
            "1.000",
            "18446744073709551615.00",
        ] {
            assert_eq!(text(wrong), None, "{wrong}");
        }
        assert_eq!(Amount::Minor(1250).minor().ok(), Some(1250));
        assert_eq!(Amount::Minor(0).minor().ok(), None);
    }
}
