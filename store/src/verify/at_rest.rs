//! The stream of a private server while no host runs: read as it is, before anything is put back. nats-server is started on its store for that; it
//! may give up itself what it cannot read there.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use async_nats::jetstream::stream::Stream;
use coppice_messages::Digest;

use super::{
    VerifyStreamError,
    stream::{StreamFault, StreamVerified, from_stream, missing_from_stream, unreadable},
};
use crate::{
    bus::{Bus, BusError, Refusals},
    data_dir::DataDir,
    follow::{Follower, Input, Output, WentBack},
    gone::{self, Gone},
    limits::STREAM_BYTES_MAX,
    log::{Log, LogReader, OpenLogError, heal},
    mark,
    nats_server::{GuardCommand, ManagedServer, Role, ServerError},
    ranges::Ranges,
    recorder::reader::{digest_at, nanos},
    store::{connect::patiently, open::private_endpoint},
    subjects::Realm,
};

/// Why a stream at rest cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum AtRestError {
    /// The log or its directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenLogError),
    /// The private nats-server does not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The stream cannot be reached.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// One of the two cannot be read.
    #[error(transparent)]
    Compare(#[from] VerifyStreamError),
}

/// What comparing a log at rest with its stream found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtRest {
    /// The differences.
    pub seen: StreamVerified,
    /// Whether the next host puts back by itself what the stream lacks.
    pub is_put_back: bool,
    /// Messages of the stream that no host has read yet; the next one does.
    pub unread: u64,
}

/// What the stream has, where there is no log that could be held against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamAlone {
    /// Messages that can be read.
    pub messages: u64,
    /// Commits in them, each counted once.
    pub commits: u64,
    /// How many the log had, as far as that is known.
    pub had: Option<u64>,
    /// The last position of the log, where nothing is wrong with it but that it ends there.
    pub older: Option<u64>,
    /// What cannot be read.
    pub gone: Option<Gone>,
    /// Logs that were set aside before.
    pub aside: Vec<PathBuf>,
}

/// Compares a log at rest with the stream of its private server.
///
/// # Errors
/// [`AtRestError`].
pub async fn at_rest(log: &Log, guard: GuardCommand) -> Result<AtRest, AtRestError> {
    let (server, stream) = stream_of(log.directory(), guard).await?;
    let compared = compared(&log.reader(), stream.as_ref()).await;
    server.stop().await;
    Ok(compared?)
}

/// Reads the stream of a directory whose log is gone or cannot be used, and changes nothing.
///
/// # Errors
/// [`AtRestError`].
pub async fn stream_alone(data: &Path, guard: GuardCommand) -> Result<StreamAlone, AtRestError> {
    let directory = DataDir::take_existing(data).map_err(OpenLogError::from)?;
    let mark = mark::read(&directory.mark());
    let had = mark.map(|mark| mark.pos.saturating_sub(mark.trimmed));
    let older = heal::ends_at(&directory.log(), mark.as_ref());
    let (server, stream) = stream_of(&directory, guard).await?;
    let read = all_of(stream.as_ref()).await;
    server.stop().await;
    let looked = read?;
    let gone = (!looked.gone.is_empty()).then_some(Gone {
        messages: looked.gone,
        after: looked.before,
        behind: looked.behind,
        had,
        older,
    });
    Ok(StreamAlone {
        messages: looked.messages,
        commits: looked.before + looked.behind,
        had,
        older,
        gone,
        aside: directory.logs_set_aside(),
    })
}

async fn stream_of(
    directory: &DataDir,
    guard: GuardCommand,
) -> Result<(ManagedServer, Option<Stream>), AtRestError> {
    let realm = Realm::local();
    let server = ManagedServer::start(&directory.nats(), guard, &realm, STREAM_BYTES_MAX).await?;
    let endpoint = private_endpoint(&server, Role::Host);
    let refusals = Refusals::default();
    match patiently(true, || Bus::stream_as_it_is(&endpoint, &refusals)).await {
        Ok(stream) => Ok((server, stream)),
        Err(error) => {
            server.stop().await;
            Err(error.into())
        }
    }
}

async fn all_of(stream: Option<&Stream>) -> Result<gone::Looked, VerifyStreamError> {
    let Some(stream) = stream else {
        return Ok(gone::Looked::default());
    };
    let last = stream.get_info().await.map_err(unreadable)?;
    let mut seen = HashSet::new();
    let is_new = |_: &_, _: &_, bytes: &[u8]| Ok(seen.insert(Digest::of(bytes)));
    let looked = gone::look(stream, (1, last.state.last_sequence), is_new).await;
    looked.map_err(unreadable)
}

async fn compared(
    reader: &LogReader,
    stream: Option<&Stream>,
) -> Result<AtRest, VerifyStreamError> {
    let (pos, read_to) = (
        reader.position()?,
        reader.stream_position()?.map_or(0, |p| p.seq),
    );
    let mut seen = StreamVerified {
        whole: true,
        ..StreamVerified::default()
    };
    let (mut commits, mut unread) = (HashSet::new(), 0);
    let why = match stream {
        None => Some("there is no stream".to_owned()),
        Some(stream) => {
            let state = stream.get_info().await.map_err(unreadable)?.state;
            let why = went_back(reader, stream).await?;
            // The numbers of another stream mean nothing: all of it is compared.
            let last = match why {
                Some(WentBack::Recreated { .. }) => state.last_sequence,
                _ => state.last_sequence.min(read_to),
            };
            unread = state.last_sequence.saturating_sub(read_to.max(last));
            let stretch = (state.first_sequence.max(1), last);
            commits = from_stream(reader, stream, stretch, &mut seen).await?;
            why.map(|why| why.to_string())
        }
    };
    // What a host was putting back is not there either.
    let lacking = missing_from_stream(reader, (pos, &Ranges::default()), &commits)?;
    let lost = reader.lost()? > 0;
    let is_put_back = why.is_some() || lost;
    let nothing_was_read = pos == 0;
    let why = why.filter(|_| !nothing_was_read);
    let told = why.map(|why| StreamFault::WentBack { pos, why });
    seen.faults = told
        .into_iter()
        .chain(std::mem::take(&mut seen.faults))
        .chain(lacking)
        .collect();
    Ok(AtRest {
        seen,
        is_put_back,
        unread,
    })
}

/// What a host would notice first, if it is that the stream went back.
async fn went_back(
    reader: &LogReader,
    stream: &Stream,
) -> Result<Option<WentBack>, VerifyStreamError> {
    let position = reader.stream_position()?;
    let mut follower = Follower::new(position, reader.first_message()?).alone();
    let mut output = follower.step(&Input::Reconnected);
    loop {
        let input = match output {
            Output::AskInfo => {
                let info = stream.get_info().await.map_err(unreadable)?;
                Input::Info {
                    created: nanos(info.created),
                    first: info.state.first_sequence,
                    last: info.state.last_sequence,
                }
            }
            Output::Compare(seq) => {
                let known = reader.message_digest(seq)?;
                // One that cannot be fetched does not agree.
                let found = digest_at(stream, seq).await.ok().flatten();
                let agrees = found.is_some() && found == known;
                Input::Compared { seq, agrees }
            }
            Output::PutBack(loss) => return Ok(Some(loss.why)),
            Output::MakeStream
            | Output::Read { .. }
            | Output::Admit
            | Output::Ignore
            | Output::Stop(_) => return Ok(None),
        };
        output = follower.step(&input);
    }
}
