//! What the ports see of the store: open intents and blobs. A port cannot submit a commit, by type.

use bytes::Bytes;
use coppice_messages::{
    Commit, Digest, Event, Payload, Value,
    event::effect,
    ids::{EffectKey, RunId, TenantId},
};
use coppice_store::{BlobError, OpenEffect, Store, clock};
use futures::future::BoxFuture;

use crate::limits::{ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST};

/// The recorder, as the ports know it.
pub trait Record: Send + Sync {
    /// An effect that was intended in this host's life and has no outcome yet.
    fn open_effect(&self, tenant: &TenantId, run: &RunId, key: &EffectKey) -> Option<OpenEffect>;

    /// Whether a cancel of the run or of an ancestor is recorded, and whose; unreadable counts as a refusal to send.
    fn cancelled(&self, tenant: &TenantId, run: &RunId) -> Option<String>;

    /// Position of the commit that recorded this attempt of an effect; none as well when it cannot be read.
    fn intent_pos(
        &self,
        tenant: &TenantId,
        run: &RunId,
        key: &EffectKey,
        attempt: u32,
    ) -> Option<u64>;

    /// A tenant's blob; none as well when it cannot be read.
    fn blob(&self, tenant: &TenantId, digest: &Digest) -> Option<Bytes>;

    /// Stores a blob; back once it is recorded.
    fn put_blob(
        &self,
        tenant: TenantId,
        bytes: Vec<u8>,
    ) -> BoxFuture<'_, Result<Digest, BlobError>>;
}

impl Record for Store {
    fn open_effect(&self, tenant: &TenantId, run: &RunId, key: &EffectKey) -> Option<OpenEffect> {
        Self::open_effect(self, tenant, run, key)
    }

    fn cancelled(&self, tenant: &TenantId, run: &RunId) -> Option<String> {
        match Self::cancelled(self, tenant, run) {
            Ok(cancelled) => cancelled.map(|run| format!("a cancel of {run} is recorded")),
            Err(error) => Some(format!("whether it is cancelled cannot be read: {error}")),
        }
    }

    fn intent_pos(
        &self,
        tenant: &TenantId,
        run: &RunId,
        key: &EffectKey,
        attempt: u32,
    ) -> Option<u64> {
        let is_it = |event: &Event| match event {
            Event::Effect(effect::Event::Intended(intended)) => {
                intended.key == *key && intended.attempt == attempt
            }
            _ => false,
        };
        for recorded in self.log().chain(tenant, run) {
            let recorded = recorded.ok()?;
            let commit = Commit::decode(&recorded.bytes).ok()?;
            if commit.events.iter().any(|entry| is_it(&entry.event)) {
                return Some(recorded.pos);
            }
        }
        None
    }

    fn blob(&self, tenant: &TenantId, digest: &Digest) -> Option<Bytes> {
        self.log().blob(tenant, digest).unwrap_or_else(|error| {
            tracing::warn!(%error, %digest, %tenant, "a blob cannot be read");
            None
        })
    }

    fn put_blob(
        &self,
        tenant: TenantId,
        bytes: Vec<u8>,
    ) -> BoxFuture<'_, Result<Digest, BlobError>> {
        Box::pin(Self::put_blob(self, tenant, bytes))
    }
}

/// A value that is larger than any blob may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are more than a blob may have")]
pub(crate) struct TooLarge {
    pub bytes: usize,
}

/// The value behind a payload, if its blob is there and is JSON data.
pub(crate) fn resolve(record: &dyn Record, tenant: &TenantId, payload: &Payload) -> Option<Value> {
    match payload {
        Payload::Inline(value) => Some(value.clone()),
        Payload::Blob { digest, .. } => Value::parse(&record.blob(tenant, digest)?).ok(),
    }
}

/// When a value is kept as a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Apart {
    /// When it is too large for an event.
    WhenLarge,
    /// Always: whoever watches events does not see it.
    Always,
}

/// The payload of a value. A large value is stored first, however long the store takes: what happened outside must be recorded.
pub(crate) async fn keep(
    record: &dyn Record,
    tenant: &TenantId,
    value: Value,
    apart: Apart,
) -> Result<Payload, TooLarge> {
    let (payload, bytes) = match apart {
        // Nothing is no secret.
        Apart::Always if value != Value::Null => {
            let (payload, bytes) = Payload::blob_of(&value);
            (payload, Some(bytes))
        }
        Apart::Always | Apart::WhenLarge => Payload::of(value),
    };
    let Some(bytes) = bytes else {
        return Ok(payload);
    };
    put(record, tenant, bytes).await.map(|()| payload)
}

/// Stores bytes that no event cites as a value; what is larger than any blob may be is not kept.
pub(crate) async fn keep_bytes(record: &dyn Record, tenant: &TenantId, bytes: Vec<u8>) {
    if let Err(too_large) = put(record, tenant, bytes).await {
        tracing::warn!(%too_large, "a bad result cannot be kept");
    }
}

async fn put(record: &dyn Record, tenant: &TenantId, bytes: Vec<u8>) -> Result<(), TooLarge> {
    let mut attempt = 0;
    loop {
        match record.put_blob(tenant.clone(), bytes.clone()).await {
            Ok(_) => return Ok(()),
            Err(BlobError::TooLarge { bytes }) => return Err(TooLarge { bytes }),
            Err(error @ (BlobError::LogUnreadable | BlobError::Unknown)) => {
                tracing::warn!(%error, "a result cannot be stored yet");
                clock::pause(clock::backoff(attempt, ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST)).await;
                attempt += 1;
            }
        }
    }
}
