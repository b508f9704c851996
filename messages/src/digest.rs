//! SHA-256 digests and the two ways in which Coppice makes them: over bytes, and over length-prefixed parts.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::Digest as _;

/// A SHA-256 digest. `bin` of 32 bytes in MessagePack, `sha256:<hex>` in JSON and YAML.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// What stands before the digits in text.
const PREFIX: &str = "sha256:";
/// Hexadecimal digits of a digest.
const HEX: usize = 64;

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a digest: expected sha256: and 64 hexadecimal digits, a to f small")]
pub struct InvalidDigest {
    /// What was given.
    pub given: String,
}

impl Digest {
    /// What the first commit of a chain names as its predecessor.
    pub const ZERO: Self = Self([0; 32]);

    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The first `digits` hexadecimal digits, at most 64.
    #[must_use]
    pub fn hex_prefix(&self, digits: usize) -> String {
        let mut buffer = [0; HEX];
        let hex = self.hex(&mut buffer);
        hex.get(..digits).unwrap_or(hex).to_owned()
    }

    /// All hexadecimal digits. Digests stand in every event of the feed: whatever is written digit by digit there was a twentieth of the
    /// host's time.
    fn hex<'a>(&self, buffer: &'a mut [u8; HEX]) -> &'a str {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for (pair, byte) in buffer.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0xf)];
        }
        // Nothing but digits stands in it.
        std::str::from_utf8(buffer).unwrap_or_default()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        f.write_str(self.hex(&mut [0; HEX]))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex_prefix(12))
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(given: &str) -> Result<Self, InvalidDigest> {
        let refuse = || InvalidDigest {
            given: given.chars().take(100).collect(),
        };
        let hex = given.strip_prefix(PREFIX).ok_or_else(refuse)?;
        // Small digits only, so that a digest has one text.
        if hex.len() != 64 || !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(refuse());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).map_err(|_| refuse())?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let mut text = [0; PREFIX.len() + HEX];
            text[..PREFIX.len()].copy_from_slice(PREFIX.as_bytes());
            text[PREFIX.len()..].copy_from_slice(self.hex(&mut [0; HEX]).as_bytes());
            serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Digest;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a SHA-256 digest")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Digest, E> {
                bytes
                    .try_into()
                    .map(Digest)
                    .map_err(|_| E::invalid_length(bytes.len(), &"32 bytes"))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Digest, E> {
                text.parse().map_err(E::custom)
            }
        }
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(Visitor)
        } else {
            deserializer.deserialize_bytes(Visitor)
        }
    }
}

/// Hashes parts with their lengths before them, so that ("ab", "c") and ("a", "bc") differ.
#[derive(Default)]
pub struct LengthPrefixed(sha2::Sha256);

impl LengthPrefixed {
    /// No parts yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one part.
    #[must_use]
    pub fn part(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    /// The digest of all parts.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}
