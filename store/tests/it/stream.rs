//! The stream is not what it should be: noticed, said, and not followed.

use std::process::{Command, Stdio};

use async_nats::jetstream::{self, stream};
use bytes::Bytes;
use coppice_messages::Commit;
use coppice_store::{
    BusError, BusOptions, Credentials, Endpoint, Fatal, OpenError, Options, Realm, Role,
    ServerAddress, Store, Verdict, nats_server,
};

use crate::{
    roles::connect,
    support::{Chain, admit, encode, open, options, record},
};

/// A second host's view of a private server: a realm of its own on the same nats-server.
fn shared(endpoint: &Endpoint, realm: &str, data: &std::path::Path) -> Options {
    let mut options = options(data);
    options.bus = BusOptions::Shared {
        url: endpoint.url.clone(),
        realm: Realm::shared(realm).expect("a realm"),
        credentials: endpoint.credentials.clone(),
    };
    // The private server has room for one stream of the usual size and a little more.
    options.stream_bytes_max = 1 << 20;
    options
}

async fn js(endpoint: &Endpoint) -> jetstream::Context {
    jetstream::new(connect(endpoint).await.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_works_on_a_server_that_runs_already_in_a_realm_that_is_named() {
    let (data, other) = (
        tempfile::tempdir().expect("a"),
        tempfile::tempdir().expect("b"),
    );
    let private = open(data.path()).await;
    let endpoint = private.endpoint(Role::Host).await;
    let store = Store::open(shared(&endpoint, "staging", other.path()))
        .await
        .expect("the store opens");
    let mut chain = Chain::new("r1");
    assert_eq!(admit(&store, &chain.step()).await, 1);
    assert_eq!(private.status().pos, 0, "the realms do not meet");
    assert_eq!(store.nats_server_pid().await, None);
    store.close().await;
    private.close().await;
}

#[test]
fn the_realm_of_private_servers_cannot_be_named_for_a_shared_one() {
    assert!(Realm::shared("local").is_err());
    for bad in ["", "a.b", "a>", "*", "_a", "a b"] {
        assert!(Realm::shared(bad).is_err(), "{bad:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_with_another_configuration_is_refused_with_the_difference() {
    let (data, other) = (
        tempfile::tempdir().expect("a"),
        tempfile::tempdir().expect("b"),
    );
    let private = open(data.path()).await;
    let endpoint = private.endpoint(Role::Host).await;
    js(&endpoint)
        .await
        .create_stream(stream::Config {
            name: "COPPICE_staging".to_owned(),
            subjects: vec![
                "coppice.v1.staging.blob.*".to_owned(),
                "coppice.v1.staging.commit.*".to_owned(),
            ],
            max_bytes: 1 << 20,
            discard: stream::DiscardPolicy::Old,
            deny_delete: true,
            ..stream::Config::default()
        })
        .await
        .expect("made");
    let refused = Store::open(shared(&endpoint, "staging", other.path()))
        .await
        .err();
    let Some(OpenError::Bus(error @ BusError::OtherStream { .. })) = refused else {
        panic!("{refused:?}");
    };
    let said = error.to_string();
    assert!(
        said.contains("has discard Old, but coppice needs New"),
        "{said}"
    );
    private.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_only_small_messages_is_refused() {
    let data = tempfile::tempdir().expect("a directory");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    let config = data.path().join("small.conf");
    let text = format!("listen: \"127.0.0.1:{port}\"\nmax_payload: 65536\n");
    std::fs::write(&config, text).expect("written");
    let mut server = Command::new(nats_server::find().expect("nats-server"))
        .arg("-c")
        .arg(&config)
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let url = format!("nats://127.0.0.1:{port}");
    // Waits for the server, which takes a moment to listen.
    async_nats::ConnectOptions::new()
        .retry_on_initial_connect()
        .connect(&url)
        .await
        .expect("a client")
        .flush()
        .await
        .expect("it answers");
    let mut options = options(data.path());
    options.bus = BusOptions::Shared {
        url: url.parse().expect("an address"),
        realm: Realm::shared("staging").expect("a realm"),
        credentials: Credentials::None,
    };
    let error = Store::open(options).await.err().expect("refused");
    server.kill().expect("killed");
    server.wait().expect("gone");
    let said = error.to_string();
    assert!(said.contains("at most 65536 bytes (max_payload)"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_at_the_url_is_an_error_that_names_it() {
    let data = tempfile::tempdir().expect("a directory");
    let mut options = options(data.path());
    options.bus = BusOptions::Shared {
        url: ServerAddress::loopback(1),
        realm: Realm::shared("staging").expect("a realm"),
        credentials: Credentials::None,
    };
    let error = Store::open(options).await.err().expect("refused");
    assert!(error.to_string().contains("nats://127.0.0.1:1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_of_commits_is_kept_aside_and_the_next_commit_is_recorded() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let bus = js(&store.endpoint(Role::Host).await).await;
    let send = |subject: &'static str, payload: Bytes| {
        let bus = bus.clone();
        async move {
            let sent = bus.publish(subject, payload).await.expect("sent");
            sent.await.expect("stored");
        }
    };
    send("coppice.v1.local.commit.default", "{\"page\":1}".into()).await;
    send("coppice.v1.local.blob.default", "no chunk".into()).await;
    send("coppice.v1.local.commit._other", "x".into()).await;
    let mut chain = Chain::new("r1");
    admit(&store, &chain.step()).await;
    assert_eq!(store.status().quarantined, 3);
    let kept: Vec<_> = store
        .log()
        .quarantine()
        .map(|found| found.expect("readable").bytes)
        .collect();
    assert_eq!(kept, [&b"{\"page\":1}"[..], b"no chunk", b"x"]);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_a_newer_format_in_the_stream_stops_the_host_before_it() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let mut chain = Chain::new("r1");
    admit(&store, &chain.step()).await;
    let newer = Commit {
        v: 2,
        ..chain.step()
    };
    let (tell, told) = tokio::sync::oneshot::channel();
    let bytes = encode(&newer);
    let hash = coppice_messages::Digest::of(&bytes);
    let waiter = Box::new(move |verdict| {
        let _ = tell.send(verdict);
    });
    store.submit(newer.tenant.clone(), bytes, hash, waiter);
    let fatal = store.fatal().await;
    assert!(matches!(fatal, Fatal::NewerCommit { format: 2 }), "{fatal}");
    store.close().await;
    assert_eq!(told.await, Ok(Verdict::Unknown));
    drop(store);
    let again = Store::open(options(data.path())).await.err();
    assert!(
        matches!(
            again,
            Some(OpenError::Fatal(Fatal::NewerCommit { format: 2 }))
        ),
        "{again:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn after_closing_a_commit_is_not_taken_and_its_waiter_is_told_so() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    store.close().await;
    let verdict = record(&store, &Chain::new("r1").step()).await;
    assert_eq!(verdict, Verdict::Unknown);
}
