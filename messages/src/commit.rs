//! The commit: what one turn of a run decides, appended together or not at all; the unit of admission and of the hash chain.
//!
//! MessagePack maps with field names, so that any language decodes a commit without this code. `kind` and `v` stand before `body` in each
//! event; a commit in which they do not is refused as malformed.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, de, ser::SerializeMap};

use crate::{
    digest::Digest,
    event::{Body, Event},
    ids::{RunId, TenantId, TreeId},
    units::Timestamp,
};

/// The format version that this build writes.
pub const FORMAT: u16 = 1;
/// Greatest number of events of one commit.
pub const COMMIT_EVENTS_MAX: usize = 256;
/// Greatest size of one commit, encoded.
pub const COMMIT_BYTES_MAX: usize = 384 * 1024;

/// One or more events of one run, appended together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// Format version of the commit.
    pub v: u16,
    /// Whose run.
    pub tenant: TenantId,
    /// Its tree.
    pub tree: TreeId,
    /// The run.
    pub run: RunId,
    /// Number of the first event: 1, 2, 3, … per run, without gaps over commits.
    pub seq: u64,
    /// The fencing token.
    pub epoch: u64,
    /// SHA-256 of the previous commit's bytes in this chain; zeros for the first.
    pub prev: Digest,
    /// UTC microseconds, by the host's clock; never used for order.
    pub at: Timestamp,
    /// W3C traceparent.
    pub trace: String,
    /// First commit of a child: what delegated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentRef>,
    /// At least one.
    pub events: Vec<Entry>,
}

/// The recorded commit of the parent that delegated a child; so a tree is one hash DAG.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentRef {
    /// The parent.
    pub run: RunId,
    /// Number of its `child.delegated` event.
    pub seq: u64,
    /// SHA-256 of the bytes of the commit that holds it.
    pub commit: Digest,
}

/// One event in a commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What led to it.
    pub cause: Option<Cause>,
    /// What happened.
    pub event: Event,
}

/// What led to an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A command from outside, by its id.
    Command(String),
    /// An event of another commit.
    Event {
        /// SHA-256 of that commit's bytes.
        commit: Digest,
        /// Place in its events, from 0.
        index: u16,
    },
}

impl Serialize for Entry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(if self.cause.is_some() { 4 } else { 3 }))?;
        map.serialize_entry("kind", self.event.kind())?;
        map.serialize_entry("v", &self.event.version())?;
        if let Some(cause) = &self.cause {
            map.serialize_entry("cause", cause)?;
        }
        map.serialize_entry("body", &self.event)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Entry;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event with kind, v and body")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Entry, A::Error> {
                let (mut kind, mut v, mut cause) = (None::<Cow<'de, str>>, None::<u16>, None);
                let mut event = None;
                while let Some(key) = access.next_key::<Cow<'de, str>>()? {
                    match &*key {
                        "kind" => kind = Some(access.next_value()?),
                        "v" => v = Some(access.next_value()?),
                        "cause" => cause = access.next_value()?,
                        "body" => {
                            let kind = kind
                                .as_deref()
                                .ok_or_else(|| de::Error::custom("body stands before kind"))?;
                            let v = v.ok_or_else(|| de::Error::custom("body stands before v"))?;
                            event = Some(access.next_value_seed(Body { kind, v })?);
                        }
                        other => {
                            return Err(de::Error::unknown_field(
                                other,
                                &["kind", "v", "cause", "body"],
                            ));
                        }
                    }
                }
                let event = event.ok_or_else(|| de::Error::missing_field("body"))?;
                Ok(Entry { cause, event })
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// Bytes that are no commit.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes do not have the shape of a commit.
    #[error("these {bytes} bytes are not a commit")]
    Malformed {
        /// How many bytes there were.
        bytes: usize,
        /// What the decoder says.
        #[source]
        source: rmp_serde::decode::Error,
    },
    /// A newer build wrote it.
    #[error(
        "a commit of format {found}; this build knows formats up to {FORMAT}: start a newer build"
    )]
    NewerFormat {
        /// Its format.
        found: u16,
    },
}

impl Commit {
    /// The commit's bytes, over which its hash is made.
    ///
    /// # Errors
    /// Only when memory cannot be had; kept as an error because a panic would cost the whole host.
    pub fn encode(&self) -> Result<Vec<u8>, rmp_serde::encode::Error> {
        rmp_serde::to_vec_named(self)
    }

    /// Reads a commit.
    ///
    /// # Errors
    /// [`DecodeError`]; an unknown event kind is none, it becomes [`Event::Unrecognised`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let malformed = |source| DecodeError::Malformed {
            bytes: bytes.len(),
            source,
        };
        let commit: Self = rmp_serde::from_slice(bytes).map_err(malformed)?;
        if commit.v > FORMAT {
            return Err(DecodeError::NewerFormat { found: commit.v });
        }
        Ok(commit)
    }

    /// Number of the event after this commit's last.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.seq + self.events.len() as u64
    }
}

/// What admission reads of a commit: its fields and the kinds of its events, never a body.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Header {
    /// See [`Commit::v`].
    pub v: u16,
    /// See [`Commit::tenant`].
    pub tenant: TenantId,
    /// See [`Commit::tree`].
    pub tree: TreeId,
    /// See [`Commit::run`].
    pub run: RunId,
    /// See [`Commit::seq`].
    pub seq: u64,
    /// See [`Commit::epoch`].
    pub epoch: u64,
    /// See [`Commit::prev`].
    pub prev: Digest,
    /// See [`Commit::at`].
    pub at: Timestamp,
    /// See [`Commit::parent`].
    #[serde(default)]
    pub parent: Option<ParentRef>,
    /// The kinds of the events, in order.
    pub events: Vec<Kind>,
}

/// The kind of one event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Kind {
    /// Such as `run.claimed`.
    pub kind: String,
}

impl Header {
    /// Reads only the header of a commit.
    ///
    /// # Errors
    /// Bytes that do not have the shape of a commit.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        rmp_serde::from_slice(bytes).map_err(|source| DecodeError::Malformed {
            bytes: bytes.len(),
            source,
        })
    }

    /// Number of the event after this commit's last.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.seq + self.events.len() as u64
    }
}
