//! Secrets that the tool broker holds, and taking them out of whatever comes back before anything of it is kept.
//!
//! A secret is known by its value and not by where it stood: a tool may print it, quote it in an error or send it encoded. What is looked for is
//! the text itself and its base64 (both alphabets, at every place of a longer text), percent and hexadecimal forms.

use std::{
    borrow::Cow,
    fmt::Write as _,
    sync::{Arc, PoisonError, RwLock},
};

use coppice_messages::Value;

use crate::limits::SECRETS_KEPT;

/// What stands where a secret stood.
pub const MASK: &str = "[masked]";

/// Shortest secret that can be told from other text.
pub const SECRET_BYTES_MIN: usize = 8;

/// Everything that is looked for; cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets(Arc<RwLock<Vec<Arc<Forms>>>>);

/// One secret in all its forms, the longest first.
struct Forms {
    plain: String,
    forms: Vec<String>,
}

impl Secrets {
    /// From now on this is masked. A secret that is known already costs nothing.
    pub fn learn(&self, secret: &str) {
        let known = |all: &[Arc<Forms>]| all.iter().any(|forms| forms.plain == secret);
        if secret.len() < SECRET_BYTES_MIN
            || known(&self.0.read().unwrap_or_else(PoisonError::into_inner))
        {
            return;
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known(&all) {
            return;
        }
        if all.len() >= SECRETS_KEPT {
            all.remove(0);
        }
        all.push(Arc::new(Forms::of(secret)));
    }

    /// Whether there is anything to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    /// A text without secrets.
    #[must_use]
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut masked = Cow::Borrowed(text);
        for form in all.iter().flat_map(|forms| &forms.forms) {
            if masked.contains(form.as_str()) {
                masked = Cow::Owned(masked.replace(form.as_str(), MASK));
            }
        }
        masked
    }

    /// Data without secrets, neither in texts nor in the names of members.
    #[must_use]
    pub fn mask_value(&self, value: Value) -> Value {
        if self.is_empty() {
            return value;
        }
        match value {
            Value::Text(text) => Value::Text(self.mask(&text).into_owned()),
            Value::List(list) => {
                Value::List(list.into_iter().map(|item| self.mask_value(item)).collect())
            }
            Value::Map(map) => Value::Map(
                map.into_iter()
                    .map(|(name, item)| (self.mask(&name).into_owned(), self.mask_value(item)))
                    .collect(),
            ),
            scalar @ (Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_)) => scalar,
        }
    }

    /// The body of an answer without secrets. Data are looked at as data, so that no way to write a sign in JSON hides one.
    #[must_use]
    pub fn mask_body(&self, body: Vec<u8>) -> Vec<u8> {
        if self.is_empty() {
            return body;
        }
        if let Ok(value) = Value::parse(&body) {
            let masked = self.mask_value(value.clone());
            return if masked == value {
                body
            } else {
                masked.canonical()
            };
        }
        let text = String::from_utf8_lossy(&body);
        match self.mask(&text) {
            Cow::Borrowed(_) => body,
            Cow::Owned(masked) => masked.into_bytes(),
        }
    }
}

impl Forms {
    fn of(plain: &str) -> Self {
        let bytes = plain.as_bytes();
        let mut forms = vec![plain.to_owned()];
        for upper in [false, true] {
            forms.push(hex(bytes, "", upper));
            forms.push(percent(bytes, upper));
            forms.push(hex(bytes, "%", upper));
        }
        for alphabet in [STANDARD, URL_SAFE] {
            forms.extend((0..3).map(|before| base64_within(bytes, before, alphabet)));
        }
        forms.retain(|form| form.len() >= SECRET_BYTES_MIN);
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Self {
            plain: plain.to_owned(),
            forms,
        }
    }
}

fn hex(bytes: &[u8], before: &str, upper: bool) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing into a String cannot fail.
        let _ = if upper {
            write!(text, "{before}{byte:02X}")
        } else {
            write!(text, "{before}{byte:02x}")
        };
    }
    text
}

/// Percent-encoded down to the unreserved signs.
fn percent(bytes: &[u8], upper: bool) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(*byte));
        } else {
            text.push_str(&hex(&[*byte], "%", upper));
        }
    }
    text
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What the base64 form of a longer text has of these bytes, whatever stands around them: with so many bytes before them in their group of
/// three, and without the signs that a neighbour has a share in.
fn base64_within(bytes: &[u8], before: usize, alphabet: &[u8; 64]) -> String {
    let mut padded = vec![0; before];
    padded.extend_from_slice(bytes);
    let bits = padded.len() * 8;
    let first = (before * 8).div_ceil(6);
    let sign = |nth: usize| {
        let index = (0..6).fold(0_usize, |index, bit| {
            let at = nth * 6 + bit;
            let byte = padded.get(at / 8).copied().unwrap_or_default();
            (index << 1) | usize::from((byte >> (7 - at % 8)) & 1)
        });
        alphabet.get(index).copied().map_or('=', char::from)
    };
    (first..bits / 6).map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knowing(secret: &str) -> Secrets {
        let secrets = Secrets::default();
        secrets.learn(secret);
        secrets
    }

    const SECRET: &str = "pa+ss/wörd?42";

    #[test]
    fn a_secret_is_masked_in_four_encodings() {
        let secrets = knowing(SECRET);
        // What python3 -c "import base64, urllib.parse" makes of it.
        for form in [
            SECRET,
            "cGErc3Mvd8O2cmQ/NDI=",
            "cGErc3Mvd8O2cmQ_NDI=",
            "pa%2Bss%2Fw%C3%B6rd%3F42",
            "pa%2bss%2fw%c3%b6rd%3f42",
            "70612b73732f77c3b672643f3432",
            "70612B73732F77C3B672643F3432",
        ] {
            let masked = secrets.mask(form).into_owned();
            assert!(masked.starts_with(MASK), "{form}: {masked}");
            assert!(masked.len() <= MASK.len() + 4, "{form}: {masked}");
        }
    }

    #[test]
    fn base64_is_masked_at_every_place_of_a_longer_text() {
        let secrets = knowing("hunter2-hunter2");
        // user:hunter2-hunter2, Bearer hunter2-hunter2, a:hunter2-hunter2
        for form in [
            "dXNlcjpodW50ZXIyLWh1bnRlcjI=",
            "QmVhcmVyIGh1bnRlcjItaHVudGVyMg==",
            "YTpodW50ZXIyLWh1bnRlcjI=",
        ] {
            let masked = secrets.mask(form).into_owned();
            assert!(masked.contains(MASK), "{form}: {masked}");
        }
    }

    #[test]
    fn no_way_to_write_json_hides_a_secret() {
        let secrets = knowing("hunter2-hunter2");
        let body = br#"{"a":["\u0068unter2-hunter2"],"hunter2-hunter2":1,"b":2}"#.to_vec();
        let masked = String::from_utf8(secrets.mask_body(body)).unwrap();
        assert_eq!(masked, r#"{"[masked]":1,"a":["[masked]"],"b":2}"#);
        let page = b"<p>hunter2-hunter2".to_vec();
        assert_eq!(secrets.mask_body(page), b"<p>[masked]");
    }

    #[test]
    fn what_holds_no_secret_stays_byte_for_byte() {
        let secrets = knowing("hunter2-hunter2");
        let body = br#"{ "b": 1.0, "a": "hunter2" }"#.to_vec();
        assert_eq!(secrets.mask_body(body.clone()), body);
        assert!(!Secrets::default().mask("hunter2").contains(MASK));
    }
}
