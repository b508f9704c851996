//! What each message of the stream brought: `<number of the message>` → a MessagePack map. It is how a stream that went back is known, and how
//! what it lost is found in the log.

use coppice_messages::{Digest, ids::TenantId};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch};
use serde::{Deserialize, Serialize};

use super::{ReadError, key};
use crate::ranges::Ranges;

/// One message that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    /// By what it is known again (`wire::DigestOfParts`).
    pub digest: Digest,
    /// Positions of its commits that are in the log, whether this message brought them there or an earlier one.
    #[serde(default, skip_serializing_if = "Ranges::is_empty")]
    pub positions: Ranges,
    /// Whole blobs that it has a chunk of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blobs: Vec<(TenantId, Digest)>,
}

/// Writes what a message brought; belongs in the same batch.
pub(crate) fn put(
    batch: &mut WriteBatch,
    messages: &Keyspace,
    seq: u64,
    message: &Message,
) -> Result<(), ReadError> {
    let value = rmp_serde::to_vec_named(message)
        .map_err(|_| ReadError::unreadable("a message of the stream"))?;
    batch.insert(messages, seq.to_be_bytes(), value);
    Ok(())
}

/// Forgets a message.
pub(crate) fn remove(batch: &mut WriteBatch, messages: &Keyspace, seq: u64) {
    batch.remove(messages, seq.to_be_bytes());
}

fn read(value: &[u8]) -> Result<Message, ReadError> {
    rmp_serde::from_slice(value).map_err(|_| ReadError::unreadable("a message of the stream"))
}

/// One message.
pub(crate) fn get(messages: &Keyspace, seq: u64) -> Result<Option<Message>, ReadError> {
    messages
        .get(seq.to_be_bytes())?
        .map(|value| read(&value))
        .transpose()
}

/// The first message that is known.
pub(crate) fn first(messages: &Keyspace) -> Result<Option<u64>, ReadError> {
    let Some(first) = messages.first_key_value() else {
        return Ok(None);
    };
    let seq = key::last_number(&first.key()?);
    seq.map(Some)
        .ok_or_else(|| ReadError::unreadable("a message's number"))
}

/// Every message below `first` or above `after`: what a stream that begins and agrees there does not have.
pub(crate) fn outside(
    messages: &Keyspace,
    first: u64,
    after: u64,
) -> impl Iterator<Item = Result<(u64, Message), ReadError>> + Send + 'static {
    let below = messages.range(..first.to_be_bytes());
    let above = messages.range(
        after
            .max(first.saturating_sub(1))
            .saturating_add(1)
            .to_be_bytes()..,
    );
    below.chain(above).map(|found| {
        let (key, value) = found.into_inner()?;
        let seq =
            key::last_number(&key).ok_or_else(|| ReadError::unreadable("a message's number"))?;
        Ok((seq, read(&value)?))
    })
}
