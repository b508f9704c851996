//! Disks that are full, and writes that fail: nothing that was said to be recorded is lost, nobody is told what is not, and what stopped says why.

use std::{path::Path, process::Command};

use coppice_messages::{Digest, ids::TenantId};
use coppice_store::{BlobError, Credentials, Fatal, Role, Storage, Store, Verdict, verify};
use tokio::task::JoinHandle;

use crate::{
    small_disk::{Disk, alone},
    support::{Chain, admit, hash, open, options, record, submit},
};

const MIB: u64 = 1 << 20;
const CHAINS: u8 = 4;

/// How often a disk fills, each time at another moment of the load.
fn rounds() -> u32 {
    if std::env::var_os("COPPICE_LONG").is_some() {
        5
    } else {
        1
    }
}

/// A store that keeps 8 MiB free.
async fn thrifty(data: &Path) -> Store {
    let mut options = options(data);
    options.reserve.disk_bytes = 8 * MIB;
    Store::open(options).await.expect("the store opens")
}

/// One chain under load until the store stops: what was said to be recorded.
async fn load(store: Store, number: u8) -> (Chain, Vec<Digest>) {
    let mut chain = Chain::new(&format!("r{number}"));
    let mut recorded = Vec::new();
    loop {
        let before = chain.clone();
        let commit = chain.step();
        if !matches!(record(&store, &commit).await, Verdict::Admitted { .. }) {
            return (before, recorded);
        }
        recorded.push(hash(&commit));
        // Of its own, or the store would know it already.
        let blob = [hash(&commit).0.as_slice(), &[number; 100 << 10]].concat();
        match store.put_blob(TenantId::default_tenant(), blob).await {
            Ok(blob) => recorded.push(blob),
            Err(BlobError::Unknown) => return (chain, recorded),
            Err(error) => panic!("{error}"),
        }
    }
}

type Load = (Chain, Vec<Digest>);

fn loads(store: &Store) -> Vec<JoinHandle<Load>> {
    (0..CHAINS)
        .map(|number| tokio::spawn(load(store.clone(), number)))
        .collect()
}

/// Closes a store whose load has come to its end with it.
async fn closed(store: Store, loads: Vec<JoinHandle<Load>>) -> Vec<Load> {
    store.close().await;
    let mut ended = Vec::new();
    for load in loads {
        ended.push(load.await.expect("the load ends"));
    }
    ended
}

/// Whatever was said to be recorded is in the log, once and whole, and every chain goes on.
async fn goes_on(store: &Store, loads: Vec<Load>) {
    let tenant = TenantId::default_tenant();
    for (mut chain, recorded) in loads {
        assert!(recorded.len() > 2, "something was recorded");
        let log = store.log();
        let commits: Vec<Digest> = log
            .chain(&tenant, &chain.run)
            .map(|commit| commit.expect("readable").hash)
            .collect();
        let is_there = |digest: &Digest| {
            commits.contains(digest) || log.blob_size(&tenant, digest).expect("readable").is_some()
        };
        assert!(recorded.iter().all(is_there), "{}", chain.run);
        // The last one is there or not: nobody was told.
        let last = chain.clone().step();
        if commits.last() == Some(&hash(&last)) {
            chain.step();
        }
        assert_eq!(commits.len() as u64 + 1, chain.seq);
        admit(store, &chain.step()).await;
    }
    let report = verify::log(store.log()).expect("readable");
    assert_eq!(report.faults, []);
    let stream = store.verify_stream().await.expect("the stream answers");
    assert_eq!(stream.faults, []);
}

async fn low(store: &Store) {
    while store.storage() == Storage::Ok {
        tokio::task::yield_now().await;
    }
}

async fn log_disk() {
    let data = tempfile::tempdir().expect("a directory");
    let data = data.path();
    let disk = Disk::new(data.join("disk"), 64 * MIB).holds(data.join("log"));
    let store = thrifty(data).await;
    disk.fill(6 * MIB);
    low(&store).await;
    let loads = loads(&store);
    let fatal = store.fatal().await;
    assert!(matches!(fatal, Fatal::DiskFull), "{fatal}");
    let loads = closed(store, loads).await;

    // Started too early it stops again, and loses nothing either.
    disk.fill(0);
    let early = thrifty(data).await;
    tokio::select! {
        fatal = early.fatal() => assert!(matches!(fatal, Fatal::DiskFull), "{fatal}"),
        (_, stored) = load(early.clone(), CHAINS) => panic!("{}", stored.len()),
    }
    early.close().await;
    drop(early);
    disk.clear();
    let store = open(data).await;
    goes_on(&store, loads).await;
    store.close().await;
}

async fn stream_disk() {
    let data = tempfile::tempdir().expect("a directory");
    let data = data.path();
    let disk = Disk::new(data.join("disk"), 32 * MIB).holds(data.join("nats"));
    let store = thrifty(data).await;
    disk.fill(6 * MIB);
    low(&store).await;
    let loads = loads(&store);
    let fatal = store.fatal().await;
    assert!(matches!(fatal, Fatal::StreamDiskFull), "{fatal}");
    let loads = closed(store, loads).await;
    disk.clear();
    let store = open(data).await;
    goes_on(&store, loads).await;
    store.close().await;
}

async fn passing() {
    let data = tempfile::tempdir().expect("a directory");
    let data = data.path();
    let disk = Disk::new(data.join("disk"), 32 * MIB).holds(data.join("nats"));
    let store = thrifty(data).await;
    let server = store.nats_server_pid().await;
    disk.fill(6 * MIB);
    low(&store).await;
    let loads = loads(&store);
    while store.status().unstored.is_none() {
        tokio::task::yield_now().await;
    }
    disk.clear();
    // nats-server does not store again by itself.
    while store.nats_server_pid().await == server {
        tokio::task::yield_now().await;
    }
    let before = store.status().pos;
    while store.status().pos < before + 100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.storage(), Storage::Ok);
    assert_eq!(store.status().unstored, None);
    let loads = closed(store, loads).await;
    let store = open(data).await;
    goes_on(&store, loads).await;
    store.close().await;
}

/// What only waits for the stream's own bound is not mended by starting the server again.
async fn stream_bound() {
    let data = tempfile::tempdir().expect("a directory");
    let mut wanted = options(data.path());
    wanted.stream_bytes_max = 4 << 20;
    let store = Store::open(wanted).await.expect("the store opens");
    let server = store.nats_server_pid().await;
    let loads = loads(&store);
    let is_full = |store: &Store| {
        let unstored = store.status().unstored;
        unstored.is_some_and(|(said, _)| said.contains("maximum bytes exceeded"))
    };
    while !is_full(&store) {
        tokio::task::yield_now().await;
    }
    low(&store).await;

    let jetstream = host_of(&store).await;
    let stream = jetstream.get_stream("COPPICE_local").await.expect("there");
    let mut config = stream.cached_info().config.clone();
    config.max_bytes = 64 << 20;
    jetstream.update_stream(config).await.expect("more room");
    store.room().again().await;
    let before = store.status().pos;
    while store.status().pos < before + 20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.nats_server_pid().await, server);
    let loads = closed(store, loads).await;
    let store = open(data.path()).await;
    goes_on(&store, loads).await;
    store.close().await;
}

/// JetStream, as the host sees it.
async fn host_of(store: &Store) -> async_nats::jetstream::Context {
    let endpoint = store.endpoint(Role::Host).await;
    let Credentials::Password { user, password } = endpoint.credentials else {
        panic!("a private server has passwords");
    };
    let client = async_nats::ConnectOptions::new()
        .user_and_password(user, password)
        .custom_inbox_prefix(endpoint.inbox_prefix)
        .connect(endpoint.url.as_str())
        .await
        .expect("it answers");
    async_nats::jetstream::new(client)
}

/// The soft limit of the bytes that a file of this process may have. Beyond it a write fails, whatever space there is.
fn limit_files(limit: &str) {
    let limited = Command::new("prlimit")
        .args(["--pid", &std::process::id().to_string()])
        .arg(format!("--fsize={limit}:"))
        .status();
    assert!(limited.expect("prlimit runs").success());
}

async fn failed_write() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let mut chain = Chain::new("first");
    admit(&store, &chain.step()).await;
    let loads = loads(&store);
    limit_files("2000000");
    let fatal = store.fatal().await;
    assert!(matches!(fatal, Fatal::LogWrite { .. }), "{fatal}");
    assert!(fatal.to_string().contains("look at the disk"), "{fatal}");
    // Nothing is said to be recorded any more, although it is in the stream.
    let late = submit(&store, &chain.step());
    let loads = closed(store, loads).await;
    assert_eq!(late.await, Ok(Verdict::Unknown));
    limit_files("unlimited");
    let store = open(data.path()).await;
    goes_on(&store, loads).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_has_all_the_bytes_it_may_have_holds_everything_up_until_it_may_have_more() {
    stream_bound().await;
}

#[test]
fn a_log_whose_disk_fills_under_load_stops_the_store_and_has_everything_when_there_is_space() {
    alone(
        "full_disk::a_log_whose_disk_fills_under_load_stops_the_store_and_has_everything_when_there_is_space",
        async {
            for _ in 0..rounds() {
                log_disk().await;
            }
        },
    );
}

#[test]
fn a_stream_whose_disk_fills_under_load_stops_the_store_and_has_everything_when_there_is_space() {
    alone(
        "full_disk::a_stream_whose_disk_fills_under_load_stops_the_store_and_has_everything_when_there_is_space",
        async {
            for _ in 0..rounds() {
                stream_disk().await;
            }
        },
    );
}

#[test]
fn a_nats_server_whose_disk_was_full_for_a_moment_is_started_again_and_commits_flow() {
    alone(
        "full_disk::a_nats_server_whose_disk_was_full_for_a_moment_is_started_again_and_commits_flow",
        passing(),
    );
}

#[test]
fn after_a_write_that_failed_nobody_is_told_that_anything_is_recorded() {
    alone(
        "full_disk::after_a_write_that_failed_nobody_is_told_that_anything_is_recorded",
        failed_write(),
    );
}
