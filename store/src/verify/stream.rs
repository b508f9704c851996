//! The log against the stream: what the stream has is in the log with the same bytes or was refused, and, while the stream still has its
//! beginning, the log has nothing that the stream does not have.

use std::{collections::HashSet, fmt};

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use coppice_messages::{
    Digest, Header,
    ids::{RunId, TenantId},
};
use futures::StreamExt as _;

use crate::{
    bus::Bus,
    limits::{CONSUMER_IDLE, READ_BYTES, READ_MESSAGES, REQUEST_WAIT},
    log::{LogReader, ReadError, commits, meta},
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

fn unreadable(error: impl fmt::Display) -> VerifyStreamError {
    VerifyStreamError::Stream {
        said: error.to_string(),
    }
}

/// Compares what the stream has up to the log's position in it.
pub(crate) async fn compare(
    reader: &LogReader,
    bus: &Bus,
) -> Result<StreamVerified, VerifyStreamError> {
    let mut found = StreamVerified::default();
    let info = bus.stream().get_info().await.map_err(unreadable)?;
    let first = info.state.first_sequence.max(1);
    // In this order, and before the stream: what is being put back is known not to be there yet, and what is recorded meanwhile is in neither
    // comparison.
    let lost = meta::lost(&reader.tables.meta)?.unwrap_or_default();
    let pos = reader.position()?;
    let last = reader.stream_position()?.map_or(0, |p| p.seq);
    found.whole = first == 1;
    let mut refused = HashSet::new();
    for quarantined in reader.quarantine() {
        let quarantined = quarantined?;
        refused.insert((quarantined.message, quarantined.index));
    }
    let mut seen: HashSet<Digest> = HashSet::new();
    if last >= first {
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: first,
            },
            ack_policy: AckPolicy::None,
            inactive_threshold: CONSUMER_IDLE,
            num_replicas: 1,
            memory_storage: true,
            ..pull::Config::default()
        };
        let consumer = bus
            .stream()
            .create_consumer(config)
            .await
            .map_err(unreadable)?;
        let mut messages = consumer
            .stream()
            .max_messages_per_batch(READ_MESSAGES)
            .max_bytes_per_batch(READ_BYTES)
            .messages()
            .await
            .map_err(unreadable)?;
        loop {
            let next = tokio::time::timeout(REQUEST_WAIT, messages.next()).await;
            let message = next
                .map_err(|_| unreadable("it fell silent"))?
                .ok_or_else(|| unreadable("it ended"))?
                .map_err(unreadable)?;
            let seq = message.info().map_err(unreadable)?.stream_sequence;
            found.messages += 1;
            if let Some((Lane::Commits, tenant)) = parse_stream_subject(&message.subject) {
                let payload = message.payload.clone();
                for (index, bytes) in (0..).zip(wire::decode_commits(&payload).unwrap_or_default())
                {
                    if !refused.contains(&(seq, index)) && seen.insert(Digest::of(&bytes)) {
                        found.commits += 1;
                        found
                            .faults
                            .extend(missing_from_log(reader, &tenant, seq, &bytes)?);
                    }
                }
            }
            if seq >= last {
                break;
            }
        }
    }
    if found.whole {
        found
            .faults
            .extend(missing_from_stream(reader, (pos, &lost.positions), &seen)?);
    }
    Ok(found)
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

fn missing_from_stream(
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
