//! The stream went back (deleted, an older copy, purged; host down or alive; with and without other publishers): noticed, put back in order,
//! and whoever reads the stream alone finds everything in it.

use coppice_messages::{Digest, ids::TenantId};
use coppice_store::{Fatal, OpenError, Store, follow::Trimmed, verify};

use crate::{
    bus::{Server, publish},
    support::{Chain, admit},
};

/// What a log holds: every commit's hash in the log's order.
fn commits(store: &Store) -> Vec<Digest> {
    let all = store.log().commits_from(1);
    all.map(|commit| commit.expect("readable").hash).collect()
}

/// Waits until the stream has everything again.
async fn refilled(store: &Store) {
    let mut chain = Chain::new(&format!("after{}", store.status().pos));
    // What is submitted now goes behind what is put back; once it is admitted, that was read.
    admit(store, &chain.step()).await;
    assert_eq!(store.log().lost().expect("readable"), 0);
}

/// The log is intact, and a log that is read from the stream alone holds the same commits and blobs.
async fn check_both(server: &Server, store: Store, data: &std::path::Path, blobs: &[Digest]) {
    let verified = verify::log(store.log()).expect("readable");
    assert_eq!(verified.faults, []);
    let stream = store.verify_stream().await.expect("readable");
    assert_eq!(stream.faults, []);
    let mut kept = commits(&store);
    store.close().await;
    drop(store);
    std::fs::remove_dir_all(data.join("log")).expect("removed");
    let again = Store::open(server.options(data)).await.expect("it opens");
    let mut read = commits(&again);
    kept.sort();
    read.sort();
    assert_eq!(read.len(), kept.len(), "commits that the stream has");
    assert_eq!(read, kept);
    for blob in blobs {
        let found = again.log().blob(&TenantId::default_tenant(), blob);
        assert!(found.expect("readable").is_some(), "{blob}");
    }
    assert_eq!(verify::log(again.log()).expect("readable").faults, []);
    again.close().await;
}

async fn steps(store: &Store, chain: &mut Chain, count: u64) {
    for _ in 0..count {
        admit(store, &chain.step()).await;
    }
}

async fn blob(store: &Store, fill: u8, bytes: usize) -> Digest {
    let put = store.put_blob(TenantId::default_tenant(), vec![fill; bytes]);
    put.await.expect("stored")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_deleted_while_the_host_was_down_is_filled_again_from_the_log() {
    let data = tempfile::tempdir().expect("a directory");
    let mut server = Server::start().await;
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    let mut chain = Chain::new("r1");
    steps(&store, &mut chain, 20).await;
    let large = blob(&store, 7, 600 << 10).await;
    steps(&store, &mut chain, 20).await;
    store.close().await;
    drop(store);
    server.kill();
    server.delete_store();
    server.run().await;
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    steps(&store, &mut chain, 5).await;
    refilled(&store).await;
    check_both(&server, store, data.path(), &[large]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_deleted_under_a_living_host_is_made_and_filled_again() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    let mut chain = Chain::new("r1");
    steps(&store, &mut chain, 20).await;
    let js = server.jetstream().await;
    js.delete_stream("COPPICE_staging").await.expect("deleted");
    steps(&store, &mut chain, 5).await;
    refilled(&store).await;
    check_both(&server, store, data.path(), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_purged_under_a_living_host_gets_back_what_was_read_from_it() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    let mut chain = Chain::new("r1");
    steps(&store, &mut chain, 20).await;
    let stream = server.jetstream().await.get_stream("COPPICE_staging").await;
    stream.expect("there").purge().await.expect("purged");
    store.close().await;
    drop(store);
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    steps(&store, &mut chain, 5).await;
    refilled(&store).await;
    check_both(&server, store, data.path(), &[]).await;
}

/// An older copy of the server's store is put back, with what was recorded since, and whoever publishes, varying.
async fn older_copy(alive: bool, others: bool) {
    let data = tempfile::tempdir().expect("a directory");
    let mut server = Server::start().await;
    let mut store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    let (mut chain, mut second) = (Chain::new("r1"), Chain::new("r2"));
    let early = blob(&store, 1, 300 << 10).await;
    steps(&store, &mut chain, 20).await;
    // Copied while nothing is on its way: a server that was killed and one that was copied have the same files.
    server.kill();
    server.copy_store("js", "copy");
    server.run().await;
    steps(&store, &mut second, 10).await;
    let late = blob(&store, 2, 300 << 10).await;
    steps(&store, &mut chain, 10).await;
    if !alive {
        store.close().await;
    }
    server.kill();
    server.copy_store("copy", "js");
    server.run().await;
    let mut foreign = Chain::new("foreign");
    if others {
        let js = server.jetstream().await;
        for _ in 0..40 {
            publish(&js, &[&foreign.step()]).await;
        }
    }
    if !alive {
        drop(store);
        store = Store::open(server.options(data.path()))
            .await
            .expect("opens");
    }
    steps(&store, &mut chain, 5).await;
    steps(&store, &mut second, 5).await;
    refilled(&store).await;
    let head = |run: &Chain| store.log().head(&run.tenant, &run.run).expect("readable");
    assert_eq!(head(&chain).map(|h| h.next_seq), Some(36));
    assert_eq!(head(&second).map(|h| h.next_seq), Some(16));
    assert_eq!(head(&foreign).map(|h| h.next_seq), others.then_some(41));
    check_both(&server, store, data.path(), &[early, late]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_put_back_while_the_host_was_down_is_completed() {
    older_copy(false, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_that_others_went_on_with_while_the_host_was_down_is_completed_behind_them() {
    older_copy(false, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_put_back_under_a_living_host_is_completed() {
    older_copy(true, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_that_others_went_on_with_under_a_living_host_is_completed_behind_them() {
    older_copy(true, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_goes_back_again_before_it_has_everything_gets_everything() {
    let data = tempfile::tempdir().expect("a directory");
    let mut server = Server::start().await;
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    let mut chain = Chain::new("r1");
    steps(&store, &mut chain, 60).await;
    store.close().await;
    drop(store);
    for _ in 0..4 {
        server.kill();
        server.delete_store();
        server.run().await;
        // Closed at once: some of it was put back, or nothing.
        let store = Store::open(server.options(data.path()))
            .await
            .expect("opens");
        store.close().await;
    }
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    refilled(&store).await;
    check_both(&server, store, data.path(), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_messages_that_are_gone_stop_the_host_and_are_named() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    admit(&store, &Chain::new("r1").step()).await;
    store.close().await;
    drop(store);
    let js = server.jetstream().await;
    let mut foreign = Chain::new("foreign");
    for _ in 0..5 {
        publish(&js, &[&foreign.step()]).await;
    }
    let stream = js.get_stream("COPPICE_staging").await.expect("there");
    stream.purge().sequence(4).await.expect("purged");
    let refused = Store::open(server.options(data.path())).await.err();
    let Some(OpenError::Fatal(fatal @ Fatal::StreamTrimmed(Trimmed { seq: 1, first: 4 }))) =
        refused
    else {
        panic!("{refused:?}");
    };
    let said = fatal.to_string();
    assert!(said.contains("messages 2 to 3 are in neither"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_log_begins_with_a_trimmed_stream_and_names_the_chains_that_began_before() {
    let data = tempfile::tempdir().expect("a directory");
    let other = tempfile::tempdir().expect("another");
    let server = Server::start().await;
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    let (mut old, mut new) = (Chain::new("old"), Chain::new("new"));
    steps(&store, &mut old, 3).await;
    steps(&store, &mut new, 3).await;
    admit(&store, &old.step()).await;
    store.close().await;
    let js = server.jetstream().await;
    let stream = js.get_stream("COPPICE_staging").await.expect("there");
    stream.purge().sequence(4).await.expect("purged");
    let store = Store::open(server.options(other.path()))
        .await
        .expect("opens");
    let head = store.log().head(&new.tenant, &new.run).expect("readable");
    assert_eq!(head.map(|h| h.next_seq), Some(4));
    let refused: Vec<_> = store
        .log()
        .quarantine()
        .map(|q| q.expect("readable"))
        .collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(
        refused[0].reason.to_string(),
        "event 1 would be next, it begins with 4"
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_bytes_under_an_equal_number_do_not_hide_that_the_stream_went_back() {
    let data = tempfile::tempdir().expect("a directory");
    let mut server = Server::start().await;
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    let mut chain = Chain::new("r1");
    steps(&store, &mut chain, 10).await;
    server.kill();
    server.copy_store("js", "copy");
    server.run().await;
    steps(&store, &mut chain, 10).await;
    let same = Chain::new("foreign").step();
    let js = server.jetstream().await;
    let position = publish(&js, &[&same]).await;
    while store.status().stream < position {
        store.client().flush().await.expect("a round trip");
    }
    store.close().await;
    drop(store);
    server.kill();
    server.copy_store("copy", "js");
    server.run().await;
    let js = server.jetstream().await;
    while publish(&js, &[&same]).await < position {}
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    refilled(&store).await;
    check_both(&server, store, data.path(), &[]).await;
}
