//! The fault points inside the recorder lie where `spec/scenarios.md` 3 says.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use coppice_messages::Commit;
use coppice_store::{FaultHooks, LogReader, Store};

use crate::support::{Chain, admit, options};

/// Notes at each point whether the log has the commit.
#[derive(Default)]
struct Witness {
    log: OnceLock<LogReader>,
    seen: Mutex<Vec<(&'static str, bool)>>,
}

impl Witness {
    fn note(&self, point: &'static str, commits: &[Commit]) {
        let Some(log) = self.log.get() else {
            return;
        };
        for commit in commits {
            let recorded = log
                .commit_at(&commit.tenant, &commit.run, commit.seq)
                .expect("readable")
                .is_some();
            self.seen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((point, recorded));
        }
    }
}

impl FaultHooks for Witness {
    fn wants_events(&self) -> bool {
        true
    }

    fn acked(&self, commits: &[Commit]) {
        self.note("acked", commits);
    }

    fn synced(&self, commits: &[Commit]) {
        self.note("synced", commits);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_point_after_the_acknowledgement_is_before_the_log_and_the_point_after_the_fsync_before_the_waiter()
 {
    let data = tempfile::tempdir().expect("a directory");
    let witness = Arc::new(Witness::default());
    let mut options = options(data.path());
    options.hooks = witness.clone();
    let store = Store::open(options).await.expect("the store opens");
    assert!(witness.log.set(store.log().clone()).is_ok());
    admit(&store, &Chain::new("r1").step()).await;
    // Taken once the waiter was told: whatever comes later would be missing.
    let seen = witness.seen.lock().expect("a list").clone();
    assert_eq!(seen, [("acked", false), ("synced", true)]);
    store.close().await;
}
