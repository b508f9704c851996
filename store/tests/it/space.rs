//! Little room: said before it is gone; what is under way still passes.

use coppice_messages::ids::TenantId;
use coppice_store::{Storage, Store};

use crate::{
    bus::Server,
    support::{Chain, admit},
};

#[tokio::test(flavor = "multi_thread")]
async fn below_the_reserve_storage_is_low_and_commits_still_pass() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let mut options = server.options(data.path());
    options.reserve.disk_bytes = u64::MAX;
    let store = Store::open(options).await.expect("opens");
    let Storage::Low { why } = store.storage() else {
        panic!("{:?}", store.storage());
    };
    assert!(why.contains("bytes are free at"), "{why}");
    admit(&store, &Chain::new("r1").step()).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_nearly_full_is_low_storage_and_there_is_room_when_it_is_not() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let mut options = server.options(data.path());
    options.reserve.disk_bytes = 0;
    options.stream_bytes_max = 2 << 20;
    options.reserve.stream_percent = 50;
    let store = Store::open(options).await.expect("opens");
    let mut room = store.room();
    let put = store.put_blob(TenantId::default_tenant(), vec![5; 1200 << 10]);
    put.await.expect("stored");
    while store.storage() == Storage::Ok {
        tokio::task::yield_now().await;
    }
    let Storage::Low { why } = store.storage() else {
        panic!("{:?}", store.storage());
    };
    assert!(why.contains("the stream COPPICE_staging has"), "{why}");
    let stream = server.jetstream().await.get_stream("COPPICE_staging").await;
    stream.expect("there").purge().await.expect("purged");
    room.again().await;
    assert_eq!(store.storage(), Storage::Ok);
    store.close().await;
}
