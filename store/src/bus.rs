//! The connection to NATS and the stream: made or read back, compared with what it must be.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_nats::{
    Client, ConnectOptions, Event, ServerError,
    jetstream::{
        self, ErrorCode,
        context::{GetStreamError, GetStreamErrorKind},
        stream,
    },
};
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::sync::watch;

use crate::{
    address::ServerAddress,
    clock,
    limits::{BACKOFF_FIRST, BACKOFF_LONGEST, MESSAGE_BYTES_MAX, PAYLOAD_BYTES_MIN, REQUEST_WAIT},
    store::Endpoint,
    subjects::Realm,
};

/// Which connection stands: counts connections, so that each new one is noticed, however short the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    connections: u64,
    up: bool,
}

impl Link {
    pub fn is_up(self) -> bool {
        self.up
    }
}

/// What the server refused on each connection that stands, by the connection's name; cheap to clone. A refused publication has no other answer.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<BTreeMap<&'static str, Refusal>>>);

struct Refusal {
    said: String,
    times: u64,
}

impl Refusals {
    /// What it said last, of one connection.
    pub fn last(&self) -> Option<String> {
        self.held()
            .first_key_value()
            .map(|(_, refusal)| refusal.said.clone())
    }

    /// How often something was refused on a connection, while that stands.
    pub fn times(&self, connection: &str) -> Option<u64> {
        self.held().get(connection).map(|refusal| refusal.times)
    }

    /// Takes it that what was sent since `times` was counted, and answered, was not refused any more.
    pub fn settle(&self, connection: &str, times: u64) {
        self.held()
            .retain(|name, refusal| *name != connection || refusal.times != times);
    }

    fn note(&self, connection: &'static str, event: &Event) {
        match event {
            // A connection has the permissions of its time.
            Event::Connected => {
                self.held().remove(connection);
            }
            Event::ServerError(ServerError::AuthorizationViolation | ServerError::Other(_)) => {
                let mut held = self.held();
                let times = held.get(connection).map_or(0, |refusal| refusal.times) + 1;
                let said = event.to_string();
                held.insert(connection, Refusal { said, times });
            }
            _ => {}
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<&'static str, Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How to prove who connects.
#[derive(Clone)]
pub enum Credentials {
    /// Nobody in particular.
    None,
    /// A user with a password.
    Password {
        /// Who.
        user: String,
        /// The secret.
        password: String,
    },
    /// A NATS credentials file.
    File(PathBuf),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Password { user, .. } => write!(f, "Password({user})"),
            Self::File(path) => write!(f, "File({})", path.display()),
        }
    }
}

/// Why the bus cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The credentials file cannot be read.
    #[error("the credentials file {path} cannot be read")]
    Credentials {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// Nobody answers, or who answers refuses.
    #[error("cannot connect to NATS at {url}")]
    Connect {
        /// Where.
        url: ServerAddress,
        /// What the client says.
        #[source]
        source: async_nats::ConnectError,
    },
    /// Its messages are too small.
    #[error(
        "the NATS server at {url} takes messages of at most {found} bytes (max_payload); coppice needs {PAYLOAD_BYTES_MIN}"
    )]
    SmallPayload {
        /// Where.
        url: ServerAddress,
        /// Its limit.
        found: usize,
    },
    /// The stream can neither be found nor made.
    #[error("the stream {stream} cannot be made at {url}: is JetStream on, and is there space?")]
    CreateStream {
        /// Where.
        url: ServerAddress,
        /// Which stream.
        stream: String,
        /// What the client says.
        #[source]
        source: jetstream::context::CreateStreamError,
    },
    /// The stream cannot be read back.
    #[error("the stream {stream} at {url} cannot be asked about itself")]
    GetStream {
        /// Where.
        url: ServerAddress,
        /// Which stream.
        stream: String,
        /// What the client says.
        #[source]
        source: jetstream::context::GetStreamError,
    },
    /// There is a stream of this name, and it is not what coppice needs.
    #[error("the stream {stream} at {url} has {setting} {found}, but coppice needs {needed}")]
    OtherStream {
        /// Where.
        url: ServerAddress,
        /// Which stream.
        stream: String,
        /// The setting that differs.
        setting: &'static str,
        /// Its value.
        found: String,
        /// The value needed.
        needed: String,
    },
}

/// A connection with its stream; cheap to clone.
#[derive(Clone)]
pub(crate) struct Bus {
    client: Client,
    jetstream: jetstream::Context,
    stream: stream::Stream,
    realm: Realm,
    url: ServerAddress,
    stream_bytes_max: u64,
    link: watch::Receiver<Link>,
    message_bytes_max: usize,
}

/// Opens one connection.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    name: &'static str,
    refusals: &Refusals,
) -> Result<(Client, watch::Receiver<Link>), BusError> {
    let url = &endpoint.url;
    let (link, seen) = watch::channel(Link {
        connections: 0,
        up: false,
    });
    let link = Arc::new(link);
    let refusals = refusals.clone();
    let options = ConnectOptions::new()
        .name(name)
        .custom_inbox_prefix(&endpoint.inbox_prefix)
        .connection_timeout(REQUEST_WAIT)
        .request_timeout(Some(REQUEST_WAIT))
        .reconnect_delay_callback(|attempt| {
            let attempt = u32::try_from(attempt).unwrap_or(u32::MAX);
            clock::backoff(attempt, BACKOFF_FIRST, BACKOFF_LONGEST / 8)
        })
        .event_callback(move |event| {
            refusals.note(name, &event);
            match &event {
                Event::Connected => link.send_modify(|l| {
                    l.connections += 1;
                    l.up = true;
                }),
                Event::Disconnected | Event::Closed => link.send_modify(|l| l.up = false),
                Event::SlowConsumer(_) | Event::ServerError(_) | Event::ClientError(_) => {
                    tracing::warn!(%event, "bus");
                }
                Event::LameDuckMode | Event::Draining => {}
            }
            async {}
        });
    let options = match &endpoint.credentials {
        Credentials::None => options,
        Credentials::Password { user, password } => {
            options.user_and_password(user.clone(), password.clone())
        }
        Credentials::File(path) => {
            let text = crate::given::read_text(path).map_err(|source| BusError::Credentials {
                path: path.clone(),
                source,
            })?;
            options
                .credentials(&text)
                .map_err(|source| BusError::Credentials {
                    path: path.clone(),
                    source,
                })?
        }
    };
    let client = options
        .connect(url.as_str())
        .await
        .map_err(|source| BusError::Connect {
            url: url.clone(),
            source,
        })?;
    Ok((client, seen))
}

/// Waits until the server has taken everything that was sent on this connection; the client's own `flush` only empties its buffer.
pub(crate) async fn round_trip(client: &Client) -> bool {
    let inbox = client.new_inbox();
    let there_and_back = async {
        let mut answers = client.subscribe(inbox.clone()).await.ok()?;
        client.publish(inbox, Bytes::new()).await.ok()?;
        answers.next().await
    };
    let answered = tokio::time::timeout(REQUEST_WAIT, there_and_back).await;
    matches!(answered, Ok(Some(_)))
}

impl Bus {
    /// Connects and makes or checks the stream.
    pub async fn open(
        endpoint: &Endpoint,
        stream_bytes_max: u64,
        refusals: &Refusals,
    ) -> Result<Self, BusError> {
        let (url, realm) = (&endpoint.url, endpoint.realm.clone());
        let (client, mut link) = connect(endpoint, "coppice-host", refusals).await?;
        // The first connection is made; its event may still be on its way.
        let _ = link.wait_for(|l| l.is_up()).await;
        let found = client.server_info().max_payload;
        if found < PAYLOAD_BYTES_MIN {
            return Err(BusError::SmallPayload {
                url: url.clone(),
                found,
            });
        }
        let mut jetstream = jetstream::new(client.clone());
        jetstream.set_timeout(REQUEST_WAIT);
        let stream = open_stream(&jetstream, url, &realm, stream_bytes_max).await?;
        Ok(Self {
            client,
            jetstream,
            stream,
            realm,
            url: url.clone(),
            stream_bytes_max,
            link,
            message_bytes_max: (found / 2).min(MESSAGE_BYTES_MAX),
        })
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn jetstream(&self) -> &jetstream::Context {
        &self.jetstream
    }

    pub fn stream(&self) -> &stream::Stream {
        &self.stream
    }

    /// Connects to the stream of an endpoint as it is; none when there is none. Nothing is made.
    pub async fn stream_as_it_is(
        endpoint: &Endpoint,
        refusals: &Refusals,
    ) -> Result<Option<stream::Stream>, BusError> {
        let (client, mut link) = connect(endpoint, "coppice-look", refusals).await?;
        let _ = link.wait_for(|l| l.is_up()).await;
        let mut jetstream = jetstream::new(client);
        jetstream.set_timeout(REQUEST_WAIT);
        let name = endpoint.realm.stream();
        match jetstream.get_stream(&name).await {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(source) => Err(BusError::GetStream {
                url: endpoint.url.clone(),
                stream: name,
                source,
            }),
        }
    }

    /// What the stream says about itself; none when there is no such stream.
    pub async fn stream_info(&self) -> Result<Option<stream::Info>, GetStreamError> {
        match self.jetstream.get_stream(self.realm.stream()).await {
            Ok(stream) => Ok(Some(stream.cached_info().clone())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the stream, or finds that somebody else just did.
    pub async fn make_stream(&self) -> Result<(), BusError> {
        let (url, bytes) = (&self.url, self.stream_bytes_max);
        open_stream(&self.jetstream, url, &self.realm, bytes).await?;
        Ok(())
    }

    /// Throws the stream away and makes a new one.
    pub async fn remake_stream(&self) -> Result<(), BusError> {
        let name = self.realm.stream();
        let deleted = self.jetstream.delete_stream(&name).await;
        if let Err(error) = deleted {
            // What cannot be deleted is perhaps gone; making it says so.
            tracing::warn!(%error, name, "the stream cannot be deleted");
        }
        self.make_stream().await
    }

    pub fn realm(&self) -> &Realm {
        &self.realm
    }

    pub fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    pub fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }
}

fn needed(realm: &Realm, stream_bytes_max: u64) -> stream::Config {
    stream::Config {
        name: realm.stream(),
        subjects: realm.stream_subjects(),
        storage: stream::StorageType::File,
        retention: stream::RetentionPolicy::Limits,
        discard: stream::DiscardPolicy::New,
        max_bytes: i64::try_from(stream_bytes_max).unwrap_or(i64::MAX),
        max_messages: -1,
        max_messages_per_subject: -1,
        deny_delete: true,
        ..stream::Config::default()
    }
}

async fn open_stream(
    jetstream: &jetstream::Context,
    url: &ServerAddress,
    realm: &Realm,
    stream_bytes_max: u64,
) -> Result<stream::Stream, BusError> {
    let wanted = needed(realm, stream_bytes_max);
    let found =
        match jetstream.get_stream(&wanted.name).await {
            Ok(found) => found,
            Err(error) if is_missing(&error) => jetstream
                .create_stream(wanted.clone())
                .await
                .map_err(|source| BusError::CreateStream {
                    url: url.clone(),
                    stream: wanted.name.clone(),
                    source,
                })?,
            Err(source) => {
                return Err(BusError::GetStream {
                    url: url.clone(),
                    stream: wanted.name,
                    source,
                });
            }
        };
    match difference(&found.cached_info().config, &wanted) {
        None => Ok(found),
        Some((setting, found, needed)) => Err(BusError::OtherStream {
            url: url.clone(),
            stream: wanted.name,
            setting,
            found,
            needed,
        }),
    }
}

fn is_missing(error: &GetStreamError) -> bool {
    matches!(
        error.kind(),
        GetStreamErrorKind::JetStream(ref e) if e.error_code() == ErrorCode::STREAM_NOT_FOUND
    )
}

/// The first setting that would let the stream forget, refuse or swallow messages.
fn difference(
    found: &stream::Config,
    wanted: &stream::Config,
) -> Option<(&'static str, String, String)> {
    let mut subjects = found.subjects.clone();
    subjects.sort();
    let settings = [
        ("subjects", subjects.join(" "), wanted.subjects.join(" ")),
        (
            "storage",
            format!("{:?}", found.storage),
            format!("{:?}", wanted.storage),
        ),
        (
            "retention",
            format!("{:?}", found.retention),
            format!("{:?}", wanted.retention),
        ),
        (
            "discard",
            format!("{:?}", found.discard),
            format!("{:?}", wanted.discard),
        ),
        (
            "deny_delete",
            found.deny_delete.to_string(),
            wanted.deny_delete.to_string(),
        ),
        (
            "max_age",
            format!("{:?}", found.max_age),
            format!("{:?}", wanted.max_age),
        ),
        // The size is the operator's choice, but there must be one: without it the stream takes the whole disk.
        (
            "max_bytes",
            (found.max_bytes > 0).to_string(),
            true.to_string(),
        ),
        (
            "max_msgs",
            found.max_messages.max(-1).to_string(),
            wanted.max_messages.to_string(),
        ),
        (
            "max_msgs_per_subject",
            found.max_messages_per_subject.max(-1).to_string(),
            wanted.max_messages_per_subject.to_string(),
        ),
        ("sealed", found.sealed.to_string(), false.to_string()),
        ("no_ack", found.no_ack.to_string(), false.to_string()),
    ];
    settings
        .into_iter()
        .find(|(_, found, wanted)| found != wanted)
}
