//! Archives: what `log export` and `backup` write and `log import` and `restore` read. A stream of bytes that says itself what it holds, that
//! is made and read in pieces, and of which no byte can be changed, taken away or added without being noticed. `docs/keeping.md` has the format.
//!
//! Nothing in here writes a log: an import goes through the stream like every other fact, and a restored log is made whole before it is one.

pub mod cites;
mod frame;
mod held;
mod import;
mod pages;
mod plan;
mod restore;
mod trees;
mod whole;

use bytes::Bytes;
use coppice_messages::{
    Digest, Timestamp,
    ids::{RunId, TenantId, TreeId},
};
use serde::{Deserialize, Serialize};

pub use self::{
    frame::{Encoder, ReadArchiveError, Reader},
    held::{Held, held, recorded},
    import::{ImportError, Imported, import},
    pages::{Page, Pages},
    plan::{Conflict, Plan, PlanError, plan},
    restore::{RestoreError, Restored, restore},
    trees::{Chosen, Selection, TreeRecords, choose},
    whole::{WholeError, WholeRecords, check},
};
use crate::log::ReadError;

/// The format version of archives that this build writes; a newer one is refused.
pub const FORMAT: u16 = 1;

/// The first line of an archive.
pub const MAGIC: &[u8] = b"coppice archive\n";

/// What an archive is made of: a header, then what it holds, then the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The first record.
    Header(Header),
    /// A tree begins: the commits of its runs follow, in the order of the log, and the blobs that no tree before has brought.
    Tree(Tree),
    /// One commit.
    Commit(Carried),
    /// One chunk of a blob; they come in order.
    Chunk(Chunk),
    /// One entry of a whole log, as it lies in its key family.
    Entry(Entry),
    /// The last record.
    End(End),
}

/// What the archive is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Format version.
    pub v: u16,
    /// When it was made.
    pub at: Timestamp,
    /// The last position of the log that it was made from.
    pub pos: u64,
    /// Trees in it; of a whole log nothing is said here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<u64>,
}

/// A tree of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Whose.
    pub tenant: TenantId,
    /// Which.
    pub tree: TreeId,
    /// Its runs.
    pub runs: u64,
    /// Commits of all of them.
    pub commits: u64,
    /// When the last of its runs ended; absent while one is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

/// A commit as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Whose.
    pub tenant: TenantId,
    /// Its exact bytes, over which its hash is taken.
    #[serde(with = "bin")]
    pub bytes: Bytes,
}

/// A chunk of a blob, cut as on the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Whose.
    pub tenant: TenantId,
    /// The blob's address.
    pub blob: Digest,
    /// Bytes of the whole blob.
    pub bytes: u64,
    /// Which chunk, from 0.
    pub index: u32,
    /// The chunk's bytes.
    #[serde(with = "bin")]
    pub data: Bytes,
}

/// An entry of a whole log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The key family.
    pub table: String,
    /// Its key.
    #[serde(with = "bin")]
    pub key: Bytes,
    /// Its value.
    #[serde(with = "bin")]
    pub value: Bytes,
}

/// The archive is whole when this is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Records before this one.
    pub records: u64,
}

mod bin {
    use bytes::Bytes;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        serde_bytes::ByteBuf::deserialize(deserializer).map(|bytes| bytes.into_vec().into())
    }
}

/// Why the log does not give what an archive is to hold.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// The log cannot be read.
    #[error("the log cannot be read")]
    Read(
        #[from]
        #[source]
        ReadError,
    ),
    /// A commit's bytes are not those that were recorded.
    #[error(
        "position {pos}: {tenant}/{run} is damaged and cannot be copied: coppice log verify says more; name the trees that are wanted, without this one"
    )]
    Damaged {
        /// Whose.
        tenant: TenantId,
        /// Which run.
        run: RunId,
        /// Where.
        pos: u64,
    },
    /// A blob is not whole any more.
    #[error(
        "the blob {blob} of {tenant} is damaged and cannot be copied: coppice log verify says more"
    )]
    Blob {
        /// Whose.
        tenant: TenantId,
        /// Which.
        blob: Digest,
    },
    /// A tree was asked for that is not there.
    #[error("there is no tree {tree}: coppice ls --roots lists what there is")]
    NoTree {
        /// Which.
        tree: TreeId,
    },
    /// A record cannot be encoded.
    #[error("a record cannot be encoded: {said}")]
    Encode {
        /// What the encoder says.
        said: String,
    },
}
