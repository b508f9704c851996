//! The notes of who sleeps, taken back together: one fsync for all that are woken while the one before is under way. A cancel wakes every
//! child of a run at one time.

use std::sync::{Arc, Mutex, PoisonError};

use coppice_store::{
    LogReader,
    log::{Sleeper, SleepersError},
};
use tokio::sync::oneshot;

use crate::inspect::with_causes;

/// Runs that are woken together, and who waits for it.
type Pending = Vec<(Vec<Sleeper>, oneshot::Sender<()>)>;

/// Takes notes back; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Notes {
    pending: Arc<Mutex<Pending>>,
    /// Held while notes are written; whoever gets it writes for all that have come meanwhile.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl Notes {
    /// Returns once no note says any more that these sleep, fsynced; false when that cannot be written.
    pub async fn take_back(&self, log: &LogReader, woken: Vec<Sleeper>) -> bool {
        let (tell, taken_back) = oneshot::channel();
        self.pending().push((woken, tell));
        let writing = self.writing.clone().lock_owned().await;
        let pending = std::mem::take(&mut *self.pending());
        if !pending.is_empty() {
            let log = log.clone();
            // Not cut off with whoever waits: others wait for it too.
            tokio::task::spawn_blocking(move || {
                write(&log, pending);
                drop(writing);
            });
        }
        taken_back.await.is_ok()
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Pending> {
        // Entries are only added or all taken away: it is whole after a panic.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(log: &LogReader, pending: Pending) {
    let woken = pending.iter().flat_map(|(woken, _)| woken);
    let written: Result<(), SleepersError> =
        log.wake(woken.map(|sleeper| (&sleeper.tenant, &sleeper.run)));
    if let Err(error) = written {
        // They sleep on by their notes; what cannot be written now ends the host anyway.
        tracing::error!(error = with_causes(&error), "sleeping runs cannot be woken");
        return;
    }
    for (_, tell) in pending {
        // Who does not wait any more need not know.
        let _ = tell.send(());
    }
}
