//! Blobs go through the stream in chunks and come back whole.

use coppice_messages::{Blobs as _, Digest, Value, ids::TenantId};
use coppice_store::{BlobError, limits::BLOB_BYTES_MAX};

use crate::support::open;

#[tokio::test(flavor = "multi_thread")]
async fn blobs_of_every_size_round_trip_and_are_there_after_a_restart() {
    let data = tempfile::tempdir().expect("a directory");
    let tenant = TenantId::default_tenant();
    let sizes = [
        0,
        1,
        65_535,
        65_536,
        (1 << 20) - 1,
        1 << 20,
        8 << 20,
        BLOB_BYTES_MAX,
    ];
    let blob = |size: usize| -> Vec<u8> { (0..size).map(|at| (at % 251) as u8).collect() };
    let store = open(data.path()).await;
    for size in sizes {
        let digest = store
            .put_blob(tenant.clone(), blob(size))
            .await
            .expect("stored");
        assert_eq!(digest, Digest::of(&blob(size)));
    }
    store.close().await;
    drop(store);

    let store = open(data.path()).await;
    for size in sizes {
        let read = store
            .log()
            .blob(&tenant, &Digest::of(&blob(size)))
            .expect("readable");
        assert_eq!(read.as_deref(), Some(&blob(size)[..]), "{size} bytes");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_the_log_has_is_not_sent_again() {
    let data = tempfile::tempdir().expect("a directory");
    let tenant = TenantId::default_tenant();
    let store = open(data.path()).await;
    let put = || store.put_blob(tenant.clone(), vec![5; 300_000]);
    let (first, second) = tokio::join!(put(), put());
    assert_eq!(first, second);
    let messages = store.status().stream;
    assert_eq!(messages, 2, "two chunks, although it was asked for twice");
    assert_eq!(put().await, first);
    assert_eq!(store.status().stream, messages);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_is_too_large_is_refused_before_it_is_sent() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let bytes = BLOB_BYTES_MAX + 1;
    let refused = store
        .put_blob(TenantId::default_tenant(), vec![0; bytes])
        .await;
    assert_eq!(refused, Err(BlobError::TooLarge { bytes }));
    assert_eq!(store.status().stream, 0);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_a_value_for_its_own_tenant_only() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let value = Value::from("text");
    let digest = store
        .put_blob(TenantId::default_tenant(), value.canonical())
        .await
        .expect("stored");
    let of = |tenant: &TenantId| store.log().blobs_of(tenant).value(&digest);
    assert_eq!(of(&TenantId::default_tenant()), Some(value));
    assert_eq!(of(&"other".parse().expect("a tenant")), None);
    store.close().await;
}
