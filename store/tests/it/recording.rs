//! What is submitted is recorded, and is there after a restart.

use coppice_messages::{
    Commit, Event,
    event::system,
    ids::{RunId, TenantId},
};
use coppice_store::{Verdict, admission::Reason};

use crate::support::{Chain, admit, encode, open, record, step_event, submit};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_admitted_is_read_back_through_a_restart_in_the_order_of_the_log() {
    let data = tempfile::tempdir().expect("a directory");
    let mut chain = Chain::new("r1");
    let first: Vec<Commit> = (0..3).map(|_| chain.step()).collect();
    let store = open(data.path()).await;
    for (pos, commit) in (1..).zip(&first) {
        assert_eq!(admit(&store, commit).await, pos);
    }
    store.close().await;
    drop(store);

    let store = open(data.path()).await;
    let fourth = chain.step();
    assert_eq!(admit(&store, &fourth).await, 4);
    assert_eq!(
        record(&store, &first[1]).await,
        Verdict::Admitted { pos: 2 },
        "a repetition is absorbed"
    );
    let read: Vec<_> = store
        .log()
        .chain(&TenantId::default_tenant(), &chain.run)
        .map(|found| found.expect("readable"))
        .collect();
    let expected: Vec<_> = first.iter().chain([&fourth]).collect();
    assert_eq!(read.len(), 4);
    for (pos, (recorded, commit)) in (1..).zip(read.iter().zip(expected)) {
        assert_eq!((recorded.pos, recorded.seq), (pos, commit.seq));
        assert_eq!(recorded.bytes, encode(commit));
    }
    let positions: Vec<u64> = store
        .log()
        .commits_from(2)
        .map(|found| found.expect("readable").pos)
        .collect();
    assert_eq!(positions, [2, 3, 4]);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_does_not_extend_its_chain_is_refused_and_kept_aside() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let mut chain = Chain::new("r1");
    admit(&store, &chain.step()).await;
    let mut fork = chain.clone();
    let second = chain.step();
    let third = chain.step();
    let gap = Reason::Gap {
        expected: 2,
        found: 3,
    };
    assert_eq!(record(&store, &third).await, Verdict::Refused(gap.clone()));
    admit(&store, &second).await;
    let forked = fork.commit(vec![step_event(), step_event()]);
    let taken = Reason::Taken { seq: 2 };
    assert_eq!(
        record(&store, &forked).await,
        Verdict::Refused(taken.clone())
    );
    admit(&store, &third).await;
    let kept: Vec<_> = store
        .log()
        .quarantine()
        .map(|found| found.expect("readable"))
        .map(|refused| (refused.reason, refused.bytes))
        .collect();
    let expected = [(gap, encode(&third)), (taken, encode(&forked))];
    assert_eq!(
        kept,
        expected.map(|(reason, bytes)| (reason, bytes.to_vec()))
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_submitted_by_two_is_recorded_once_and_both_are_told_the_same() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let commit = Chain::new("r1").step();
    let (one, two) = (submit(&store, &commit), submit(&store, &commit));
    assert_eq!(one.await, Ok(Verdict::Admitted { pos: 1 }));
    assert_eq!(two.await, Ok(Verdict::Admitted { pos: 1 }));
    assert_eq!(store.status().pos, 1);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_of_no_run_stand_in_the_system_chain_of_their_tenant_in_order() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let fact = |number: u32| {
        system::Event::HostStarted(system::HostStarted {
            host: "h".parse().expect("a host"),
            version: "0".to_owned(),
            pid: number,
        })
    };
    let append = |number| store.system_event(TenantId::host(), fact(number));
    let (first, second) = tokio::join!(append(1), append(2));
    assert_eq!(
        (first.expect("recorded"), second.expect("recorded")),
        (1, 2)
    );
    store.close().await;
    drop(store);
    let store = open(data.path()).await;
    store
        .system_event(TenantId::host(), fact(3))
        .await
        .expect("recorded");
    let read: Vec<Event> = store
        .log()
        .chain(&TenantId::host(), &RunId::system())
        .map(|found| Commit::decode(&found.expect("readable").bytes).expect("a commit"))
        .map(|commit| commit.events[0].event.clone())
        .collect();
    assert_eq!(read, [1, 2, 3].map(|number| Event::System(fact(number))));
    store.close().await;
}
