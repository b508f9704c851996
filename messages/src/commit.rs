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

/// Room for a commit as most are; a larger one asks for more.
const ENCODED_BYTES: usize = 2 * 1024;

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
                let (mut kind, mut v) = (None::<Cow<'de, str>>, None::<u16>);
                let mut cause = None::<Option<Cause>>;
                let mut event = None;
                while let Some(key) = access.next_key::<Cow<'de, str>>()? {
                    match &*key {
                        "kind" if kind.is_none() => kind = Some(access.next_value()?),
                        "v" if v.is_none() => v = Some(access.next_value()?),
                        "cause" if cause.is_none() => cause = Some(access.next_value()?),
                        "body" if event.is_none() => {
                            let kind = kind
                                .as_deref()
                                .ok_or_else(|| de::Error::custom("body stands before kind"))?;
                            let v = v.ok_or_else(|| de::Error::custom("body stands before v"))?;
                            event = Some(access.next_value_seed(Body { kind, v })?);
                        }
                        // Also a field for the second time: who reads the first and who reads the last would disagree.
                        other => {
                            return Err(de::Error::custom(format_args!(
                                "an event has kind, v, cause and body, each once; {other:?} is too many"
                            )));
                        }
                    }
                }
                let event = event.ok_or_else(|| de::Error::missing_field("body"))?;
                Ok(Entry {
                    cause: cause.flatten(),
                    event,
                })
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
    /// There is more after the commit: its hash would not be that of the chain.
    #[error("these {bytes} bytes go on after the end of the commit")]
    TrailingBytes {
        /// How many bytes there were.
        bytes: usize,
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

#[derive(Deserialize)]
struct Format {
    v: u16,
}

/// Reads one value that is all of `bytes`.
fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, DecodeError> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    let read = T::deserialize(&mut decoder).map_err(|source| {
        // A newer format may have any shape: it must not be taken for damage.
        match rmp_serde::from_slice::<Format>(bytes) {
            Ok(Format { v }) if v > FORMAT => DecodeError::NewerFormat { found: v },
            Ok(_) | Err(_) => DecodeError::Malformed {
                bytes: bytes.len(),
                source,
            },
        }
    })?;
    match de::IgnoredAny::deserialize(&mut decoder) {
        Err(rmp_serde::decode::Error::InvalidMarkerRead(_)) => Ok(read),
        Ok(_) | Err(_) => Err(DecodeError::TrailingBytes { bytes: bytes.len() }),
    }
}

fn known_format(v: u16) -> Result<(), DecodeError> {
    if v > FORMAT {
        return Err(DecodeError::NewerFormat { found: v });
    }
    Ok(())
}

impl Commit {
    /// The commit's bytes, over which its hash is made.
    ///
    /// # Errors
    /// Only when memory cannot be had; kept as an error because a panic would cost the whole host.
    pub fn encode(&self) -> Result<Vec<u8>, rmp_serde::encode::Error> {
        let mut bytes = Vec::with_capacity(ENCODED_BYTES);
        rmp_serde::encode::write_named(&mut bytes, self)?;
        Ok(bytes)
    }

    /// Reads a commit.
    ///
    /// # Errors
    /// [`DecodeError`]; an unknown event kind is none, it becomes [`Event::Unrecognised`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let commit: Self = read(bytes)?;
        known_format(commit.v)?;
        Ok(commit)
    }

    /// Number of the event after this commit's last.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.seq.saturating_add(self.events.len() as u64)
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
    pub kind: Cow<'static, str>,
}

impl Header {
    /// Reads only the header of a commit.
    ///
    /// # Errors
    /// Bytes that do not have the shape of a commit, or a newer format.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let header: Self = read(bytes)?;
        known_format(header.v)?;
        Ok(header)
    }

    /// That of a commit which was read whole: what [`Header::decode`] makes of the same bytes.
    #[must_use]
    pub fn of(commit: &Commit) -> Self {
        let kind = |entry: &Entry| Kind {
            kind: entry.event.kept_kind(),
        };
        Self {
            v: commit.v,
            tenant: commit.tenant.clone(),
            tree: commit.tree.clone(),
            run: commit.run.clone(),
            seq: commit.seq,
            epoch: commit.epoch,
            prev: commit.prev,
            at: commit.at,
            parent: commit.parent.clone(),
            events: commit.events.iter().map(kind).collect(),
        }
    }

    /// Number of the event after this commit's last.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.seq.saturating_add(self.events.len() as u64)
    }
}

impl Entry {
    /// How many bytes this event takes in a commit, without encoding it into memory.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        struct Count(usize);
        impl std::io::Write for Count {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0 += bytes.len();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut count = Count(0);
        // Counting cannot fail; an entry that cannot be encoded is refused where its commit is.
        let _ = rmp_serde::encode::write_named(&mut count, self);
        count.0
    }
}
