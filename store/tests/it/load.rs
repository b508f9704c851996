//! Much at once: two writers for every place, and a reader that stands still while a flood comes in.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use coppice_messages::{Commit, ids::TenantId};
use coppice_store::{FaultHooks, Store, Verdict, admission::Reason, clock, verify};

use crate::{
    bus::{Server, publish},
    support::{Chain, admit, golden, hash, open, step_event, submit},
};

/// Ten thousand races and two hundred thousand commits in the long run of the tests, a fifth of them in the usual one.
fn is_long() -> bool {
    std::env::var_os("COPPICE_LONG").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_ends_written_behind_the_same_commit_one_is_recorded_and_the_other_refused() {
    const AT_ONCE: usize = 500;
    let rounds = if is_long() { 20 } else { 4 };
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    for round in 0..rounds {
        let mut chains: Vec<Chain> = (0..AT_ONCE)
            .map(|nth| Chain::new(&format!("r{round}-{nth}")))
            .collect();
        let first: Vec<_> = chains
            .iter_mut()
            .map(|c| submit(&store, &c.step()))
            .collect();
        for verdict in first {
            assert!(matches!(verdict.await, Ok(Verdict::Admitted { .. })));
        }
        // Both have seen the same state, and each ends the run in its own way.
        let both: Vec<_> = chains
            .iter()
            .map(|chain| {
                let (mut one, mut other) = (chain.clone(), chain.clone());
                let cancelled = other.commit(vec![step_event(), golden("run.ended")]);
                let completed = one.commit(vec![golden("run.ended")]);
                (submit(&store, &completed), submit(&store, &cancelled))
            })
            .collect();
        for (one, other) in both {
            let told = (one.await.expect("told"), other.await.expect("told"));
            assert!(matches!(told.0, Verdict::Admitted { .. }), "{told:?}");
            assert!(
                matches!(told.1, Verdict::Refused(Reason::Taken { seq: 2 })),
                "{told:?}"
            );
        }
    }
    let log = verify::log(store.log()).expect("readable");
    assert_eq!((log.commits, log.faults), (rounds * 1_000, Vec::new()));
    assert_eq!(store.status().quarantined, rounds * 500);
    store.close().await;
}

/// Holds the recorder up at its first batch.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }
}

impl FaultHooks for Gate {
    fn wants_events(&self) -> bool {
        true
    }

    fn acked(&self, _: &[Commit]) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = self.opened.wait_while(is_open, |is_open| !*is_open);
        drop(passed.unwrap_or_else(PoisonError::into_inner));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_while_the_recorder_stands_still_is_recorded_without_a_gap() {
    let messages = if is_long() { 400 } else { 80 };
    const COMMITS: u64 = 500;
    let server = Server::start().await;
    let data = tempfile::tempdir().expect("a directory");
    let gate = Arc::new(Gate::default());
    let mut options = server.options(data.path());
    options.stream_bytes_max = 1 << 30;
    options.hooks = gate.clone();
    let store = Store::open(options).await.expect("the store opens");
    let js = server.jetstream().await;
    let mut chain = Chain::new("r1");
    for _ in 0..messages {
        let commits: Vec<Commit> = (0..COMMITS).map(|_| chain.step()).collect();
        publish(&js, &commits.iter().collect::<Vec<_>>()).await;
    }
    assert!(store.status().pos < messages * COMMITS, "it stands still");
    gate.open();
    let from = clock::mono();
    while store.status().pos < messages * COMMITS {
        assert!(from.elapsed().as_secs() < 120, "{:?}", store.status());
        tokio::task::yield_now().await;
    }
    let last = chain.step();
    assert_eq!(admit(&store, &last).await, messages * COMMITS + 1);
    let head = store.log().head(&TenantId::default_tenant(), &chain.run);
    assert_eq!(
        head.expect("readable").map(|head| head.hash),
        Some(hash(&last))
    );
    let seen = store.verify_stream().await.expect("readable");
    assert_eq!(
        (seen.commits, seen.faults),
        (messages * COMMITS + 1, Vec::new())
    );
    assert_eq!(store.status().quarantined, 0);
    store.close().await;
}
