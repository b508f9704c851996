//! Runs that only wait, with no actor: `<tenant> 0 <run> 0` → a MessagePack map. A note of the host and no fact: whatever it says is
//! derived from the chain, and it counts only while the chain's last commit is the one that it names. Without it a run is folded at start.

use coppice_messages::{
    Digest, Timestamp,
    ids::{RunId, TenantId},
};
use fjall::{Keyspace, PersistMode};
use serde::{Deserialize, Serialize};

use super::{LogReader, ReadError, commits, key};

/// A run that only waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sleeper {
    /// Whose run.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// The run that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// When it goes on by itself; none when only somebody else wakes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// SHA-256 of the last commit of its chain.
    pub head: Digest,
}

/// The notes cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("who sleeps cannot be noted: {said}")]
pub struct SleepersError {
    /// What fjall or the encoder says.
    pub said: String,
}

fn said(error: impl std::fmt::Display) -> SleepersError {
    SleepersError {
        said: error.to_string(),
    }
}

impl LogReader {
    /// Notes that a run sleeps. Not fsynced: a note that is lost costs one fold at the next start.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn put_asleep(&self, sleeper: &Sleeper) -> Result<(), SleepersError> {
        let value = rmp_serde::to_vec_named(sleeper).map_err(said)?;
        self.tables
            .sleepers
            .insert(key::of_run(&sleeper.tenant, &sleeper.run), value)
            .map_err(said)
    }

    /// Takes back the notes of these runs, fsynced: a run acts only after its note is gone, or a crash would leave it asleep.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn wake<'a>(
        &self,
        runs: impl IntoIterator<Item = (&'a TenantId, &'a RunId)>,
    ) -> Result<(), SleepersError> {
        let mut batch = self
            .tables
            .db
            .batch()
            .durability(Some(PersistMode::SyncData));
        for (tenant, run) in runs {
            batch.remove(&self.tables.sleepers, key::of_run(tenant, run));
        }
        batch.commit().map_err(said)
    }

    /// Every run that sleeps by a note that still counts.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn sleepers(&self) -> Result<Vec<Sleeper>, ReadError> {
        let mut asleep = Vec::new();
        for sleeper in all(&self.tables.sleepers) {
            let sleeper = self.unread.seen(sleeper)?;
            let last = commits::last(&self.tables.commits, &sleeper.tenant, &sleeper.run);
            match self.unread.seen(last) {
                Ok(Some(last)) if last.hash == sleeper.head => asleep.push(sleeper),
                // A run whose chain is damaged is for whoever folds it to say; it keeps nobody else from sleeping on.
                Ok(_) | Err(ReadError::Unreadable { .. }) => {}
                Err(error @ ReadError::Database(_)) => return Err(error),
            }
        }
        Ok(asleep)
    }
}

fn all(sleepers: &Keyspace) -> impl Iterator<Item = Result<Sleeper, ReadError>> {
    sleepers.iter().map(|entry| {
        let (_, value) = entry.into_inner()?;
        rmp_serde::from_slice(&value)
            .map_err(|_| ReadError::unreadable("the note of a sleeping run"))
    })
}
