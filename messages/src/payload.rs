//! Data carried by an event: in the event itself while it is small, else a blob that the event cites by digest.

use serde::{Deserialize, Serialize};

use crate::{digest::Digest, value::Value};

/// Above this many canonical bytes a payload is stored as a blob.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// A value, or where it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// The value itself.
    Inline(Value),
    /// A blob holds the value's canonical JSON bytes.
    Blob {
        /// SHA-256 of the bytes; the blob's address.
        digest: Digest,
        /// How many bytes.
        bytes: u64,
    },
}

/// Where the values behind blobs are found. Content-addressed, so a look-up is as pure as a constant.
pub trait Blobs {
    /// The value whose canonical bytes have this digest, if it is at hand.
    fn value(&self, digest: &Digest) -> Option<Value>;
}

/// No blobs at hand.
pub struct NoBlobs;

impl Blobs for NoBlobs {
    fn value(&self, _: &Digest) -> Option<Value> {
        None
    }
}

impl Payload {
    /// The value, looked up when it is a blob.
    #[must_use]
    pub fn resolve(&self, blobs: &dyn Blobs) -> Option<Value> {
        match self {
            Self::Inline(value) => Some(value.clone()),
            Self::Blob { digest, .. } => blobs.value(digest),
        }
    }

    /// The digest of the value's canonical bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match self {
            Self::Inline(value) => value.digest(),
            Self::Blob { digest, .. } => *digest,
        }
    }

    /// The blob of a value, however small it is, with its bytes, which must be stored before.
    #[must_use]
    pub fn blob_of(value: &Value) -> (Self, Vec<u8>) {
        let bytes = value.canonical();
        let payload = Self::Blob {
            digest: Digest::of(&bytes),
            bytes: bytes.len() as u64,
        };
        (payload, bytes)
    }

    /// Puts `value` in the event, or, when it is too large, returns the blob's bytes that must be stored before.
    #[must_use]
    pub fn of(value: Value) -> (Self, Option<Vec<u8>>) {
        // Small scalars need no measuring; everything else is measured in its canonical form.
        let bytes = value.canonical();
        if bytes.len() <= INLINE_BYTES_MAX {
            return (Self::Inline(value), None);
        }
        (
            Self::Blob {
                digest: Digest::of(&bytes),
                bytes: bytes.len() as u64,
            },
            Some(bytes),
        )
    }
}
