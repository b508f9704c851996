//! What a message of the stream looks like: a MessagePack array of `bin`, each one commit; or one chunk of a blob.

use bytes::{BufMut as _, Bytes, BytesMut};
use coppice_messages::Digest;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::{
    limits::{BLOB_BYTES_MAX, BLOB_CHUNK_BYTES, MESSAGE_ENTRY_OVERHEAD},
    subjects::Lane,
};

/// Bytes that are no message of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a MessagePack array of byte strings")]
pub struct Malformed;

/// An array of `bin`.
#[must_use]
pub fn encode_commits(commits: &[Bytes]) -> Bytes {
    let size = commits
        .iter()
        .map(|c| c.len() + MESSAGE_ENTRY_OVERHEAD)
        .sum::<usize>();
    let mut out = BytesMut::with_capacity(size + MESSAGE_ENTRY_OVERHEAD);
    // At most 1,024 commits: the 16-bit forms always suffice for the array; one form, so that equal input gives equal bytes.
    out.put_u8(0xdc);
    out.put_u16(u16::try_from(commits.len()).unwrap_or(u16::MAX));
    for commit in commits {
        out.put_u8(0xc6);
        out.put_u32(u32::try_from(commit.len()).unwrap_or(u32::MAX));
        out.put_slice(commit);
    }
    out.freeze()
}

/// The commits of a message, as views of its bytes. Takes every form of array and `bin`, since any language may have written it.
///
/// # Errors
/// [`Malformed`].
pub fn decode_commits(message: &Bytes) -> Result<Vec<Bytes>, Malformed> {
    let mut at = 0;
    let count = match take(message, &mut at, 1)?[0] {
        byte @ 0x90..=0x9f => usize::from(byte & 0x0f),
        0xdc => big_endian(take(message, &mut at, 2)?),
        0xdd => big_endian(take(message, &mut at, 4)?),
        _ => return Err(Malformed),
    };
    let mut commits = Vec::with_capacity(count.min(message.len()));
    for _ in 0..count {
        let length = match take(message, &mut at, 1)?[0] {
            0xc4 => big_endian(take(message, &mut at, 1)?),
            0xc5 => big_endian(take(message, &mut at, 2)?),
            0xc6 => big_endian(take(message, &mut at, 4)?),
            _ => return Err(Malformed),
        };
        let from = at;
        take(message, &mut at, length)?;
        commits.push(message.slice(from..at));
    }
    if at == message.len() {
        Ok(commits)
    } else {
        Err(Malformed)
    }
}

fn take<'a>(message: &'a [u8], at: &mut usize, length: usize) -> Result<&'a [u8], Malformed> {
    let end = at.checked_add(length).ok_or(Malformed)?;
    let taken = message.get(*at..end).ok_or(Malformed)?;
    *at = end;
    Ok(taken)
}

fn big_endian(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | usize::from(*byte))
}

/// One chunk of a blob.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk<'a> {
    /// Format version.
    pub v: u16,
    /// The blob's address.
    pub blob: Digest,
    /// Bytes of the whole blob.
    pub bytes: u64,
    /// Which chunk, from 0.
    pub index: u32,
    /// The chunk's bytes.
    #[serde(with = "serde_bytes", borrow)]
    pub data: &'a [u8],
}

/// The format version of chunks that this build writes.
pub const CHUNK_FORMAT: u16 = 1;

impl<'a> Chunk<'a> {
    /// How many chunks a blob of this size has; an empty blob has one.
    pub fn count(bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(BLOB_CHUNK_BYTES).max(1)).unwrap_or(u32::MAX)
    }

    /// Chunk number `index` of a blob.
    pub fn of(blob: Digest, whole: &'a [u8], index: u32) -> Self {
        let from = (index as usize * BLOB_CHUNK_BYTES).min(whole.len());
        let to = (from + BLOB_CHUNK_BYTES).min(whole.len());
        Self {
            v: CHUNK_FORMAT,
            blob,
            bytes: whole.len() as u64,
            index,
            data: &whole[from..to],
        }
    }

    /// The chunk's message.
    pub fn encode(&self) -> Bytes {
        // Writing named fields into memory cannot fail; an empty message would be quarantined.
        rmp_serde::to_vec_named(self).unwrap_or_default().into()
    }

    /// Reads a chunk; its sizes must agree with each other.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let chunk: Self = rmp_serde::from_slice(message).map_err(|_| Malformed)?;
        let bytes = usize::try_from(chunk.bytes).map_err(|_| Malformed)?;
        if bytes > BLOB_BYTES_MAX || chunk.index >= Self::count(bytes) {
            return Err(Malformed);
        }
        let from = chunk.index as usize * BLOB_CHUNK_BYTES;
        if chunk.data.len() == (bytes - from).min(BLOB_CHUNK_BYTES) {
            Ok(chunk)
        } else {
            Err(Malformed)
        }
    }

    /// Whether it is the last of its blob.
    pub fn is_last(&self) -> bool {
        self.index as u64 * BLOB_CHUNK_BYTES as u64 + self.data.len() as u64 == self.bytes
    }
}

/// By what a message is known again: SHA-256 over the digests of its parts, which are known anyway, so that no payload is digested twice,
/// and the time at which the stream stored it.
#[derive(Default)]
pub struct DigestOfParts(sha2::Sha256);

impl DigestOfParts {
    /// A commit of the message, by its hash.
    pub fn commit(&mut self, hash: &Digest) {
        self.0.update(b"commit");
        self.0.update(hash.0);
    }

    /// The message is this chunk. Its data is known by the blob's address.
    pub fn chunk(&mut self, chunk: &Chunk<'_>) {
        self.0.update(b"chunk");
        self.0.update(chunk.blob.0);
        self.0.update(chunk.index.to_be_bytes());
        self.0.update(chunk.bytes.to_be_bytes());
    }

    /// The message is neither.
    pub fn other(&mut self, payload: &[u8]) {
        self.0.update(b"other");
        self.0.update(payload);
    }

    /// The digest, with the time at which the stream stored the message, in nanoseconds: the same parts sent again are another message.
    #[must_use]
    pub fn finish(mut self, at: i64) -> Digest {
        self.0.update(at.to_be_bytes());
        Digest(self.0.finalize().into())
    }
}

/// The digest of a message that was just fetched, and that the stream stored at this time.
#[must_use]
pub fn message_digest(lane: Option<Lane>, at: i64, payload: &Bytes) -> Digest {
    let mut parts = DigestOfParts::default();
    let read = match lane {
        Some(Lane::Commits) => decode_commits(payload)
            .map(|commits| commits.iter().for_each(|c| parts.commit(&Digest::of(c)))),
        Some(Lane::Chunks) => Chunk::decode(payload).map(|chunk| parts.chunk(&chunk)),
        None => Err(Malformed),
    };
    if read.is_err() {
        parts.other(payload);
    }
    parts.finish(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Few cases of large inputs: generating them is what takes the time.
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn commits_come_out_of_a_message_as_they_went_in(
            commits in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..40),
        ) {
            let commits: Vec<Bytes> = commits.into_iter().map(Bytes::from).collect();
            prop_assert_eq!(decode_commits(&encode_commits(&commits)), Ok(commits));
        }

        #[test]
        fn a_message_of_another_writer_of_messagepack_is_read(
            commits in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70_000), 0..4),
        ) {
            let written: Vec<_> = commits.iter().map(|c| serde_bytes::Bytes::new(c)).collect();
            let message = Bytes::from(rmp_serde::to_vec(&written).expect("encodes"));
            let commits: Vec<Bytes> = commits.into_iter().map(Bytes::from).collect();
            prop_assert_eq!(decode_commits(&message), Ok(commits));
        }

        #[test]
        fn bytes_of_any_kind_are_read_or_refused_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let bytes = Bytes::from(bytes);
            let _ = decode_commits(&bytes);
            let _ = Chunk::decode(&bytes);
        }

        #[test]
        fn the_chunks_of_a_blob_are_the_blob(bytes in 0..3 * BLOB_CHUNK_BYTES) {
            let whole: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            let mut joined = Vec::new();
            let count = Chunk::count(whole.len());
            for index in 0..count {
                let message = Chunk::of(Digest::of(&whole), &whole, index).encode();
                let chunk = Chunk::decode(&message).expect("a chunk");
                prop_assert_eq!(chunk.is_last(), index + 1 == count);
                joined.extend_from_slice(chunk.data);
            }
            prop_assert_eq!(joined, whole);
        }
    }

    #[test]
    fn a_message_cut_short_or_with_something_behind_it_is_refused() {
        let whole = encode_commits(&[Bytes::from_static(b"commit")]);
        for length in 0..whole.len() {
            assert_eq!(decode_commits(&whole.slice(..length)), Err(Malformed));
        }
        let longer = Bytes::from([&whole[..], b"x"].concat());
        assert_eq!(decode_commits(&longer), Err(Malformed));
    }
}
