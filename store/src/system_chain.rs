//! The system chains: facts of no run. The store is their only writer, so each append follows the one before it.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use coppice_messages::{
    Commit, Digest, Entry, Event,
    commit::FORMAT,
    event::system,
    ids::{RunId, TenantId, TreeId},
};
use tokio::sync::{Mutex, oneshot};

use crate::{
    admission::Reason,
    clock,
    log::{LogReader, ReadError},
    presence::PresenceError,
    publisher::{Publisher, Verdict},
};

/// Why a fact was not appended.
#[derive(Debug, thiserror::Error)]
pub enum SystemEventError {
    /// The chain's end cannot be read.
    #[error("the end of the system chain cannot be read")]
    Read(
        #[from]
        #[source]
        ReadError,
    ),
    /// It cannot be encoded.
    #[error("the fact cannot be encoded")]
    Encode(
        #[from]
        #[source]
        rmp_serde::encode::Error,
    ),
    /// Another writer is on the chain.
    #[error("the recorder refuses the fact: {0}")]
    Refused(Reason),
    /// Another host is in the realm.
    #[error(transparent)]
    OtherHost(PresenceError),
    /// The store stopped first; it may or may not be recorded.
    #[error("the store stopped before the fact was recorded")]
    Unknown,
}

/// Appends to the system chains; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct SystemChains {
    // One append of a tenant at a time: the next one cites its hash.
    locks: Arc<std::sync::Mutex<HashMap<TenantId, Arc<Mutex<()>>>>>,
}

impl SystemChains {
    pub async fn append(
        &self,
        publisher: &Publisher,
        reader: &LogReader,
        tenant: TenantId,
        fact: system::Event,
    ) -> Result<u64, SystemEventError> {
        let turn = {
            let mut locks = self
                .locks
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            Arc::clone(locks.entry(tenant.clone()).or_default())
        };
        let _turn = turn.lock().await;
        let head = reader.head(&tenant, &RunId::system())?;
        let commit = Commit {
            v: FORMAT,
            tenant: tenant.clone(),
            tree: TreeId::of_root(&RunId::system()),
            run: RunId::system(),
            seq: head.as_ref().map_or(1, |h| h.next_seq),
            epoch: 1,
            prev: head.map_or(Digest::ZERO, |h| h.hash),
            at: clock::now(),
            trace: String::new(),
            parent: None,
            events: vec![Entry {
                cause: None,
                event: Event::System(fact),
            }],
        };
        let bytes = Bytes::from(commit.encode()?);
        let hash = Digest::of(&bytes);
        let (tell, told) = oneshot::channel();
        let waiter = Box::new(move |verdict| {
            let _ = tell.send(verdict);
        });
        publisher.submit(tenant, bytes, hash, waiter);
        match told.await {
            Ok(Verdict::Admitted { pos }) => Ok(pos),
            Ok(Verdict::Refused(reason)) => Err(SystemEventError::Refused(reason)),
            Ok(Verdict::Unknown) | Err(_) => Err(SystemEventError::Unknown),
        }
    }
}
