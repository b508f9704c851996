//! The log against the stream: what the stream has is in the log with the same bytes or was refused, and, while the stream still has its
//! beginning, the log has nothing that the stream does not have.

use std::{collections::HashSet, fmt};

use async_nats::jetstream::stream::Stream;
use coppice_messages::{
    Digest, Header,
    ids::{RunId, TenantId},
};

use crate::{
    log::{LogReader, ReadError, commits, messages, meta},
    passage::Passage,
    ranges::Ranges,
    subjects::{Lane, parse_stream_subject},
    wire,
};

/// What comparing the log with the stream found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamVerified {
    /// Messages read.
    pub messages: u64,
    /// Commits in them, each counted once.
    pub commits: u64,
    /// Whether the stream still has its beginning, so that the comparison went both ways.
    pub whole: bool,
    /// What is wrong; empty when log and stream agree.
    pub faults: Vec<StreamFault>,
}

/// A difference between log and stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFault {
    /// The log has other bytes, or none, for a commit of the stream that it did not refuse.
    NotInLog {
        /// Number of the message.
        message: u64,
        /// Whose run.
        tenant: TenantId,
        /// The run.
        run: RunId,
        /// Number of the commit's first event.
        seq: u64,
    },
    /// The stream has its beginning, but not this commit of the log, and the commit is not being put back.
    NotInStream {
        /// The commit's position.
        pos: u64,
        /// Whose run.
        tenant: TenantId,
        /// The run.
        run: RunId,
        /// Number of its first event.
        seq: u64,
    },
    /// A message with a part of a blob of the log cannot be read.
    BlobNotInStream {
        /// Number of the message.
        message: u64,
        /// Whose blob.
        tenant: TenantId,
        /// The blob.
        blob: Digest,
        /// How far the log has come.
        pos: u64,
    },
    /// The stream is not the one that the log was read from, or ends before; nothing was put back yet.
    WentBack {
        /// How far the log has come.
        pos: u64,
        /// How it is known.
        why: String,
    },
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInLog {
                message,
                tenant,
                run,
                seq,
            } => write!(
                f,
                "message {message} of the stream: {tenant}/{run} event {seq} is not in the log with these bytes"
            ),
            Self::NotInStream {
                pos,
                tenant,
                run,
                seq,
            } => write!(
                f,
                "position {pos}: {tenant}/{run} event {seq} is not in the stream"
            ),
            Self::BlobNotInStream {
                message,
                tenant,
                blob,
                ..
            } => write!(
                f,
                "message {message} of the stream, a part of the blob {blob} of {tenant}, cannot be read"
            ),
            Self::WentBack { why, .. } => f.write_str(why),
        }
    }
}

/// Why log and stream cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum VerifyStreamError {
    /// The log cannot be read.
    #[error("the log cannot be read")]
    Log(
        #[from]
        #[source]
        ReadError,
    ),
    /// The stream cannot be read.
    #[error("the stream cannot be read: {said}")]
    Stream {
        /// What the client says.
        said: String,
    },
}

pub(super) fn unreadable(error: impl fmt::Display) -> VerifyStreamError {
    VerifyStreamError::Stream {
        said: error.to_string(),
    }
}

/// Compares what the stream has up to the log's position in it.
pub(crate) async fn compare(
    reader: &LogReader,
    stream: &Stream,
) -> Result<StreamVerified, VerifyStreamError> {
    let info = stream.get_info().await.map_err(unreadable)?;
    let first = info.state.first_sequence.max(1);
    // In this order, and before the stream: what is being put back is known not to be there yet, and what is recorded meanwhile is in neither
    // comparison.
    let lost = meta::lost(&reader.tables.meta)?.unwrap_or_default();
    let pos = reader.position()?;
    let last = reader.stream_position()?.map_or(0, |p| p.seq);
    let mut found = StreamVerified {
        whole: first == 1,
        ..StreamVerified::default()
    };
    let seen = from_stream(reader, stream, (first, last), &mut found).await?;
    if found.whole {
        found
            .faults
            .extend(missing_from_stream(reader, (pos, &lost.positions), &seen)?);
    }
    Ok(found)
}

/// Reads a stretch of the stream and looks for all that it has in the log. Returns the commits that it has.
pub(super) async fn from_stream(
    reader: &LogReader,
    stream: &Stream,
    (first, last): (u64, u64),
    found: &mut StreamVerified,
) -> Result<HashSet<Digest>, VerifyStreamError> {
    let mut refused = HashSet::new();
    for quarantined in reader.quarantine() {
        let quarantined = quarantined?;
        refused.insert((quarantined.message, quarantined.index));
    }
    let mut seen: HashSet<Digest> = HashSet::new();
    let mut passage = Passage::new(stream.clone(), first, last);
    while let Some(message) = passage.next().await.map_err(unreadable)? {
        found.messages += 1;
        let Some((Lane::Commits, tenant)) = parse_stream_subject(&message.subject) else {
            continue;
        };
        for (index, bytes) in (0..).zip(wire::decode_commits(&message.payload).unwrap_or_default())
        {
            if !refused.contains(&(message.seq, index)) && seen.insert(Digest::of(&bytes)) {
                found.commits += 1;
                found
                    .faults
                    .extend(missing_from_log(reader, &tenant, message.seq, &bytes)?);
            }
        }
    }
    let pos = reader.position()?;
    for seq in passage.gone().iter() {
        let brought = messages::get(&reader.tables.messages, seq)?;
        let blobs = brought.into_iter().flat_map(|brought| brought.blobs);
        let faults = blobs.map(|(tenant, blob)| StreamFault::BlobNotInStream {
            message: seq,
            tenant,
            blob,
            pos,
        });
        found.faults.extend(faults);
    }
    Ok(seen)
}

fn missing_from_log(
    reader: &LogReader,
    tenant: &TenantId,
    message: u64,
    bytes: &[u8],
) -> Result<Option<StreamFault>, ReadError> {
    // Bytes that are no commit were refused, and perhaps are not kept any more.
    let Ok(header) = Header::decode(bytes) else {
        return Ok(None);
    };
    let stored = commits::at_or_before(&reader.tables.commits, tenant, &header.run, header.seq)?;
    let same = stored.is_some_and(|s| s.seq == header.seq && s.bytes == bytes);
    Ok((!same).then(|| StreamFault::NotInLog {
        message,
        tenant: tenant.clone(),
        run: header.run,
        seq: header.seq,
    }))
}

pub(super) fn missing_from_stream(
    reader: &LogReader,
    (until, lost): (u64, &Ranges),
    seen: &HashSet<Digest>,
) -> Result<Vec<StreamFault>, ReadError> {
    let mut faults = Vec::new();
    for commit in reader.commits_from(1) {
        let commit = commit?;
        if commit.pos > until {
            break;
        }
        if !lost.contains(commit.pos) && !seen.contains(&Digest::of(&commit.bytes)) {
            faults.push(StreamFault::NotInStream {
                pos: commit.pos,
                tenant: commit.tenant,
                run: commit.run,
                seq: commit.seq,
            });
        }
    }
    Ok(faults)
}
