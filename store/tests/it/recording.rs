//! What is submitted is recorded, and is there after a restart.

use coppice_messages::{Commit, ids::TenantId};
use coppice_store::Verdict;

use crate::support::{Chain, admit, encode, open, record};

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
