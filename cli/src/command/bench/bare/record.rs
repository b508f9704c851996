//! The recorder of the bare loop: a thread that writes one fjall batch with one fsync for whatever has gathered.

use std::{
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use async_nats::Client;
use coppice_messages::commit::Header;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{BATCHES, Record, Waiters, hash, lock};

/// Commits of one fsync.
const BATCH_COMMITS: usize = 4_096;

struct Tables {
    db: Database,
    commits: Keyspace,
    heads: Keyspace,
    positions: Keyspace,
    rows: Keyspace,
}

/// Starts it; it ends when the sender is dropped.
pub(super) fn start(
    data: &Path,
    waiters: Waiters,
    audience: Option<Client>,
) -> Result<SyncSender<Vec<Record>>, fjall::Error> {
    let db = Database::builder(data).open()?;
    let table = |name| db.keyspace(name, KeyspaceCreateOptions::default);
    let tables = Tables {
        commits: table("commits")?,
        heads: table("heads")?,
        positions: table("positions")?,
        rows: table("rows")?,
        db,
    };
    let (records, gathered) = sync_channel(BATCHES);
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let mut position = 0;
        while let Some(batch) = next(&gathered) {
            if let Err(error) = write(&tables, &batch, &mut position) {
                tracing::error!(%error, "the bare loop cannot write");
                return;
            }
            release(&waiters, &batch);
            if let Some(client) = audience.clone() {
                // Beside the hot path, as the store's feed is.
                runtime.spawn(tell(client, batch));
            }
        }
    });
    Ok(records)
}

fn next(gathered: &Receiver<Vec<Record>>) -> Option<Vec<Record>> {
    let mut batch = gathered.recv().ok()?;
    while batch.len() < BATCH_COMMITS {
        let Ok(more) = gathered.try_recv() else { break };
        batch.extend(more);
    }
    Some(batch)
}

fn write(tables: &Tables, batch: &[Record], position: &mut u64) -> Result<(), fjall::Error> {
    let mut write = tables.db.batch();
    for record in batch {
        let (chain, seq, bytes) = record;
        let mut key = [0; 16];
        key[..8].copy_from_slice(&chain.to_be_bytes());
        key[8..].copy_from_slice(&seq.to_be_bytes());
        *position += 1;
        // As the store must: what a record says is read before it is kept.
        let said = Header::decode(bytes)
            .map(|header| header.seq)
            .unwrap_or_default();
        write.insert(&tables.commits, key, &bytes[..]);
        write.insert(&tables.heads, chain.to_be_bytes(), hash(record).0);
        write.insert(&tables.positions, position.to_be_bytes(), key);
        write.insert(&tables.rows, chain.to_be_bytes(), said.to_be_bytes());
    }
    write.commit()?;
    tables.db.persist(PersistMode::SyncData)
}

fn release(waiters: &Waiters, batch: &[Record]) {
    let mut waiting = lock(waiters);
    for (chain, seq, _) in batch {
        if let Some(told) = waiting.remove(&(*chain, *seq)) {
            // Nobody listens only when the measurement was given up.
            let _gone = told.send(());
        }
    }
}

async fn tell(client: Client, batch: Vec<Record>) {
    for (_, _, bytes) in batch {
        if let Err(error) = client.publish("bare.feed", bytes).await {
            tracing::debug!(%error, "a message of the bare feed was not sent");
        }
    }
}
