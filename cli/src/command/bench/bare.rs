//! The bare loop: batches with one message in flight → JetStream → an ordered consumer → one fjall batch and fsync → release.
//!
//! What it leaves out is what the store is for: admission against a chain, epochs, re-sending, quarantine, checking that the stream is
//! the same. Its figures are the floor.

mod record;

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::SyncSender,
    },
};

use async_nats::{
    ConnectOptions,
    jetstream::{
        self,
        consumer::{DeliverPolicy, pull},
        stream,
    },
};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use coppice_messages::{Digest, ids::TenantId};
use coppice_store::{Credentials, Endpoint, clock};
use futures::{FutureExt as _, StreamExt as _};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::{
    chain::Chain,
    hot_path::{Measured, gathered},
};
use crate::failure::{Failure, Problem};

/// Commits of one message.
const MESSAGE_COMMITS: usize = 512;
/// Commits that are read before the recorder is given them.
const READ_COMMITS: usize = 2_048;
/// Gathered batches that wait for the recorder.
const BATCHES: usize = 64;

/// One commit on its way: which chain, which number, its bytes.
pub(super) type Record = (u64, u64, Bytes);
/// Who waits for which record.
pub(super) type Waiters = Arc<Mutex<HashMap<(u64, u64), oneshot::Sender<()>>>>;

/// A running bare loop.
pub(super) struct Bare {
    out: mpsc::UnboundedSender<Record>,
    waiters: Waiters,
    chains: AtomicU64,
    tasks: [JoinHandle<()>; 2],
}

fn fault(what: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    let cause = Problem::of(error);
    Failure::Environment(Problem::new(format!(
        "the bare loop: {what}: {}",
        cause.message
    )))
}

impl Bare {
    pub async fn open(endpoint: &Endpoint, data: &Path, feed: bool) -> Result<Self, Failure> {
        let options = match &endpoint.credentials {
            Credentials::Password { user, password } => {
                ConnectOptions::with_user_and_password(user.clone(), password.clone())
            }
            Credentials::None | Credentials::File(_) => ConnectOptions::new(),
        };
        let client = options
            .custom_inbox_prefix(&endpoint.inbox_prefix)
            .connect(endpoint.url.as_str())
            .await
            .map_err(|error| fault("connecting", &error))?;
        let jetstream = jetstream::new(client.clone());
        let stream = jetstream
            .create_stream(stream::Config {
                name: "BARE".to_owned(),
                subjects: vec!["bare.batch".to_owned()],
                storage: stream::StorageType::File,
                ..stream::Config::default()
            })
            .await
            .map_err(|error| fault("making its stream", &error))?;
        let consumer = stream
            .create_consumer(pull::OrderedConfig {
                deliver_policy: DeliverPolicy::All,
                ..pull::OrderedConfig::default()
            })
            .await
            .map_err(|error| fault("making its consumer", &error))?;
        let messages = consumer
            .messages()
            .await
            .map_err(|error| fault("reading its stream", &error))?;
        let waiters = Waiters::default();
        let audience = feed.then(|| client.clone());
        let records = record::start(data, waiters.clone(), audience)
            .map_err(|error| fault("opening its log", &error))?;
        let (out, outgoing) = mpsc::unbounded_channel();
        Ok(Self {
            out,
            waiters,
            chains: AtomicU64::new(0),
            tasks: [
                tokio::spawn(publish(jetstream, outgoing)),
                tokio::spawn(read(messages, records)),
            ],
        })
    }

    /// Appends `of_each` commits to each of so many chains at one time.
    pub async fn run(&self, chains: u32, of_each: u32) -> Result<Measured, Failure> {
        let tenant = TenantId::default_tenant();
        let mut tasks = Vec::new();
        for _ in 0..chains {
            let nth = self.chains.fetch_add(1, Ordering::Relaxed);
            let mut chain = Chain::new(&tenant, "bare", nth)?;
            let (out, waiters) = (self.out.clone(), self.waiters.clone());
            tasks.push(tokio::spawn(async move {
                let ended = || Failure::Environment(Problem::new("the bare loop ended"));
                let mut waits = Vec::new();
                for seq in 0..u64::from(of_each) {
                    let from = clock::mono();
                    let (bytes, _) = chain.next()?;
                    let (told, recorded) = oneshot::channel();
                    lock(&waiters).insert((nth, seq), told);
                    out.send((nth, seq, bytes)).map_err(|_| ended())?;
                    recorded.await.map_err(|_| ended())?;
                    waits.push(from.elapsed());
                }
                Ok(waits)
            }));
        }
        gathered(tasks).await
    }

    /// Ends it; its directory goes with the measurement's.
    pub async fn close(self) -> Result<(), Failure> {
        drop(self.out);
        for task in self.tasks {
            task.abort();
            let _aborted = task.await;
        }
        Ok(())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Entries are only added and taken: whole after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What arrives while a message is on its way travels together in the next.
async fn publish(jetstream: jetstream::Context, mut outgoing: mpsc::UnboundedReceiver<Record>) {
    while let Some(first) = outgoing.recv().await {
        let mut message = BytesMut::new();
        put(&mut message, &first);
        for _ in 1..MESSAGE_COMMITS {
            let Ok(more) = outgoing.try_recv() else { break };
            put(&mut message, &more);
        }
        let sent = async {
            let sent = jetstream.publish("bare.batch", message.freeze()).await?;
            sent.await
        };
        if let Err(error) = sent.await {
            tracing::error!(%error, "the bare loop cannot publish");
            return;
        }
    }
}

async fn read(mut messages: pull::Ordered, records: SyncSender<Vec<Record>>) {
    while let Some(Ok(message)) = messages.next().await {
        let mut batch = Vec::new();
        take(message.payload.clone(), &mut batch);
        while batch.len() < READ_COMMITS {
            let Some(Some(Ok(message))) = messages.next().now_or_never() else {
                break;
            };
            take(message.payload.clone(), &mut batch);
        }
        if records.send(batch).is_err() {
            return;
        }
    }
}

fn put(message: &mut BytesMut, (chain, seq, bytes): &Record) {
    message.put_u64(*chain);
    message.put_u64(*seq);
    message.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    message.put_slice(bytes);
}

fn take(mut payload: Bytes, batch: &mut Vec<Record>) {
    while payload.remaining() > 20 {
        let (chain, seq) = (payload.get_u64(), payload.get_u64());
        let length = payload.get_u32() as usize;
        batch.push((
            chain,
            seq,
            payload.split_to(length.min(payload.remaining())),
        ));
    }
}

/// The hash of a record: what the chain is made of.
pub(super) fn hash((_, _, bytes): &Record) -> Digest {
    Digest::of(bytes)
}
