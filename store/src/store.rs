//! The store as a whole: options, opening, what can be asked of it, closing in order.

mod beat;
pub(crate) mod connect;
pub(crate) mod open;

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use coppice_messages::{
    Digest,
    event::system::{self, HostStarted},
    ids::{EffectKey, HostId, RunId, TenantId},
};
use tokio::sync::{Mutex, watch};

pub use self::open::OpenError;
use self::open::Parts;
use crate::{
    address::ServerAddress,
    bus::{Bus, Credentials, Refusals},
    fatal::{Fatal, FatalCell},
    faults::{FaultHooks, NoFaults},
    limits::{BLOB_BYTES_MAX, DRAIN_WAIT, STREAM_BYTES_MAX},
    log::{LogReader, ReadError},
    nats_server::{GuardCommand, Role},
    open_effects::OpenEffect,
    presence,
    publisher::{BlobError, Publisher, Waiter},
    recent_ends::RecentEnd,
    recorder::{Indexes, Progress, feed::Dropped},
    room::{Reserve, RoomWatch, Storage},
    subjects::Realm,
    system_chain::{SystemChains, SystemEventError},
    verify::{self, StreamVerified, VerifyStreamError},
};

/// Which NATS server is used.
#[derive(Debug, Clone)]
pub enum BusOptions {
    /// A private one, started below the data directory; its realm is `local`.
    Private {
        /// How its guard is started.
        guard: GuardCommand,
    },
    /// One that runs already.
    Shared {
        /// Where.
        url: ServerAddress,
        /// The realm, which must be named.
        realm: Realm,
        /// Who connects.
        credentials: Credentials,
    },
}

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// The data directory.
    pub data: PathBuf,
    /// Which NATS server.
    pub bus: BusOptions,
    /// This host.
    pub host: HostId,
    /// The host that the directory had before, where it did not say that it stopped.
    pub before: Option<HostId>,
    /// Whether recorded events are published for subscribers.
    pub feed: bool,
    /// `max_bytes` of a stream that is made.
    pub stream_bytes_max: u64,
    /// What is kept free.
    pub reserve: Reserve,
    /// Faults on purpose.
    pub hooks: Arc<dyn FaultHooks>,
}

impl Options {
    /// The usual options.
    #[must_use]
    pub fn new(data: impl Into<PathBuf>, host: HostId, bus: BusOptions) -> Self {
        Self {
            data: data.into(),
            bus,
            host,
            before: None,
            feed: true,
            stream_bytes_max: STREAM_BYTES_MAX,
            reserve: Reserve::default(),
            hooks: Arc::new(NoFaults),
        }
    }
}

/// How a client connects to the bus that the store uses.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Where.
    pub url: ServerAddress,
    /// The realm.
    pub realm: Realm,
    /// Who connects.
    pub credentials: Credentials,
    /// The prefix of the client's inboxes.
    pub inbox_prefix: String,
}

/// How the store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether the bus is connected.
    pub connected: bool,
    /// Commits and blobs that the recorder has not spoken about.
    pub waiting: usize,
    /// For how long it has been silent about them.
    pub silent_for: Duration,
    /// What was said about the last message that the stream did not store, and for how long it has stored none.
    pub unstored: Option<(String, Duration)>,
    /// The log's last position.
    pub pos: u64,
    /// The last message of the stream that is in the log.
    pub stream: u64,
    /// What the server refused on a connection that stands, as it said it.
    pub refused: Option<String>,
    /// Events dropped from the feed since the start.
    pub dropped: u64,
    /// Commits ever refused.
    pub quarantined: u64,
    /// Batches written since the start; each had one fsync.
    pub batches: u64,
}

/// NATS in, fjall down. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    publisher: Publisher,
    reader: LogReader,
    indexes: Indexes,
    system: SystemChains,
    dropped: Dropped,
    progress: watch::Receiver<Progress>,
    storage: watch::Receiver<Storage>,
    fatal: FatalCell,
    bus: Bus,
    refusals: Refusals,
    service: async_nats::Client,
    endpoint: Endpoint,
    // Taken by whoever closes.
    parts: Mutex<Option<Parts>>,
}

impl Store {
    /// Opens the store of a data directory: takes its lock, starts or connects to NATS, reads into the log what the stream has beyond it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        open::open(options).await
    }

    /// Hands over a commit; never blocks. `hash` is the SHA-256 of `bytes`.
    pub fn submit(&self, tenant: TenantId, bytes: Bytes, hash: Digest, waiter: Waiter) {
        self.inner.publisher.submit(tenant, bytes, hash, waiter);
    }

    /// Stores a blob and returns its address once it is recorded; a blob that the log has is not sent again. To be awaited before the commit
    /// that cites it is submitted.
    ///
    /// # Errors
    /// [`BlobError`].
    pub async fn put_blob(&self, tenant: TenantId, bytes: Vec<u8>) -> Result<Digest, BlobError> {
        if bytes.len() > BLOB_BYTES_MAX {
            return Err(BlobError::TooLarge { bytes: bytes.len() });
        }
        let blob = Digest::of(&bytes);
        match self.inner.reader.blob_size(&tenant, &blob) {
            Ok(Some(_)) => return Ok(blob),
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, "the log cannot say whether it has a blob");
                return Err(BlobError::LogUnreadable);
            }
        }
        let recorded = self
            .inner
            .publisher
            .submit_blob(tenant, blob, Bytes::from(bytes));
        recorded.await.map_err(|_| BlobError::Unknown)
    }

    /// Appends a fact to a tenant's system chain and returns its position.
    ///
    /// # Errors
    /// [`SystemEventError`].
    pub async fn system_event(
        &self,
        tenant: TenantId,
        fact: system::Event,
    ) -> Result<u64, SystemEventError> {
        let inner = &self.inner;
        inner
            .system
            .append(&inner.publisher, &inner.reader, tenant, fact)
            .await
    }

    /// Records that this host has started, which makes it the one of its realm. Of two that are started at the same moment one is refused,
    /// and is told who the other one is.
    ///
    /// # Errors
    /// [`SystemEventError`].
    pub async fn host_started(&self, started: HostStarted) -> Result<u64, SystemEventError> {
        let own = started.host.clone();
        let fact = system::Event::HostStarted(started);
        match self.system_event(TenantId::host(), fact).await {
            Err(SystemEventError::Refused(reason)) => {
                let (service, endpoint) = (self.client(), &self.inner.endpoint);
                let first = presence::first(service, endpoint, self.log(), &own).await?;
                Err(first.map_or(
                    SystemEventError::Refused(reason),
                    SystemEventError::OtherHost,
                ))
            }
            recorded => recorded,
        }
    }

    /// The run or ancestor of it of which a cancel is recorded: nothing below may be sent any more.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn cancelled(&self, tenant: &TenantId, run: &RunId) -> Result<Option<RunId>, ReadError> {
        let effects = &self.inner.indexes.open_effects;
        let mut next = effects.any_cancelled().then(|| run.clone());
        while let Some(run) = next {
            if effects.is_cancelled(tenant, &run) {
                return Ok(Some(run));
            }
            next = self.log().row(tenant, &run)?.and_then(|row| row.parent);
        }
        Ok(None)
    }

    /// An effect that was intended in this host's life and has no outcome yet.
    #[must_use]
    pub fn open_effect(
        &self,
        tenant: &TenantId,
        run: &RunId,
        key: &EffectKey,
    ) -> Option<OpenEffect> {
        self.inner.indexes.open_effects.get(tenant, run, key)
    }

    /// The commit with which a run ended a moment ago, once: a short cut for whoever supervises it. None says nothing; the log does.
    #[must_use]
    pub fn take_recent_end(&self, tenant: &TenantId, run: &RunId) -> Option<RecentEnd> {
        self.inner.indexes.recent_ends.take(tenant, run)
    }

    /// What is recorded.
    #[must_use]
    pub fn log(&self) -> &LogReader {
        &self.inner.reader
    }

    /// The connection for the host's API, as [`Role::Service`]: on a private server it can answer into inboxes and say nothing else. On a
    /// shared server that is for the operator's permissions to say, and the API must look at the place of a reply itself.
    #[must_use]
    pub fn client(&self) -> &async_nats::Client {
        &self.inner.service
    }

    /// The realm.
    #[must_use]
    pub fn realm(&self) -> &Realm {
        &self.inner.endpoint.realm
    }

    /// How a client of a role connects. On a shared server roles are the operator's matter: every role gets the store's own credentials.
    pub async fn endpoint(&self, role: Role) -> Endpoint {
        let parts = self.inner.parts.lock().await;
        let server = parts.as_ref().and_then(Parts::server);
        server.map_or_else(
            || self.inner.endpoint.clone(),
            |server| open::private_endpoint(server, role),
        )
    }

    /// The process id of the private nats-server, while it runs.
    pub async fn nats_server_pid(&self) -> Option<u32> {
        self.inner.parts.lock().await.as_ref()?.server()?.pid()
    }

    /// Compares the log with the stream, byte by byte, up to where the log has read it.
    ///
    /// # Errors
    /// [`VerifyStreamError`].
    pub async fn verify_stream(&self) -> Result<StreamVerified, VerifyStreamError> {
        verify::compare(&self.inner.reader, self.inner.bus.stream()).await
    }

    /// How the store is.
    #[must_use]
    pub fn status(&self) -> Status {
        let progress = *self.inner.progress.borrow();
        Status {
            connected: self.inner.bus.link().borrow().is_up(),
            waiting: self.inner.publisher.waiting(),
            silent_for: self.inner.publisher.silent_for(),
            unstored: self
                .inner
                .publisher
                .unstored()
                .map(|unstored| (unstored.said.clone(), unstored.elapsed())),
            pos: progress.pos,
            stream: progress.stream,
            refused: self.inner.refusals.last(),
            dropped: self.inner.dropped.count(),
            quarantined: progress.quarantined,
            batches: progress.batches,
        }
    }

    /// Whether there is room for new trees and intents; what ends something always passes.
    #[must_use]
    pub fn storage(&self) -> Storage {
        self.inner.storage.borrow().clone()
    }

    /// Notices each time that there is room again, from now on.
    #[must_use]
    pub fn room(&self) -> RoomWatch {
        RoomWatch::new(self.inner.storage.clone())
    }

    /// How many commits and blobs the stream lost and does not have again yet.
    #[must_use]
    pub fn refilling(&self) -> u64 {
        self.inner.publisher.refilling()
    }

    /// Resolves when the store must not go on; the host then exits.
    pub async fn fatal(&self) -> Fatal {
        self.inner.fatal.wait().await
    }

    /// Closes in order: what is on its way is recorded first, as far as the bus lets it. Later calls return at once.
    pub async fn close(&self) {
        let Some(parts) = self.inner.parts.lock().await.take() else {
            return;
        };
        if self.inner.fatal.get().is_none() {
            let drained = tokio::time::timeout(DRAIN_WAIT, self.inner.publisher.drained()).await;
            if drained.is_err() {
                tracing::warn!(
                    waiting = self.inner.publisher.waiting(),
                    "closing with commits on their way; the next start knows their fate"
                );
            }
        }
        parts.close(&self.inner.publisher).await;
    }
}
