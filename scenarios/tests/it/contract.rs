//! The simulated stream against the real one: one list of expectations, both must meet it.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use async_nats::jetstream::{
    self,
    consumer::{AckPolicy, DeliverPolicy, pull},
    context::GetStreamErrorKind,
    stream,
};
use bytes::Bytes;
use coppice_messages::ids::TenantId;
use coppice_scenarios::sim::stream::{Message, Stream};
use coppice_store::{Lane, nats_server};
use futures::StreamExt as _;

/// What can be done with a stream, and to it.
trait Subject {
    async fn append(&mut self, payload: &str) -> u64;
    async fn get(&mut self, seq: u64) -> Option<Bytes>;
    /// Everything from this number on, in the order in which a consumer gets it.
    async fn from(&mut self, seq: u64) -> Vec<(u64, Bytes)>;
    /// When it stored a message, in nanoseconds.
    async fn stored_at(&mut self, seq: u64) -> i64;
    /// When it was created, and its last message.
    async fn info(&mut self) -> (i64, u64);
    async fn copy(&mut self);
    async fn put_copy_back(&mut self);
    async fn make_anew(&mut self);
}

async fn check(mut subject: impl Subject) {
    let (created, last) = subject.info().await;
    assert_eq!(last, 0, "a new stream has nothing");
    for seq in 1..=5 {
        assert_eq!(subject.append(&format!("m{seq}")).await, seq);
    }
    assert_eq!(
        subject.append("m5").await,
        6,
        "what comes twice is stored twice"
    );
    let read = subject.from(3).await;
    let expected: Vec<(u64, Bytes)> = [(3, "m3"), (4, "m4"), (5, "m5"), (6, "m5")]
        .map(|(seq, text)| (seq, Bytes::from(text)))
        .into();
    assert_eq!(
        read, expected,
        "read from a position, in order, without gaps"
    );
    assert_eq!(subject.get(2).await, Some("m2".into()));
    assert_eq!(subject.get(7).await, None);

    let (fifth, sixth) = (subject.stored_at(5).await, subject.stored_at(6).await);
    assert!(fifth < sixth, "what comes twice is stored at two times");

    subject.copy().await;
    assert_eq!(subject.append("m7").await, 7);
    let lost = subject.stored_at(7).await;
    assert_eq!(subject.append("m8").await, 8);
    subject.put_copy_back().await;
    assert_eq!(
        subject.info().await,
        (created, 6),
        "its tail is lost, it is the same stream"
    );
    assert_eq!(subject.get(7).await, None);
    assert_eq!(subject.stored_at(6).await, sixth, "a copy keeps the times");
    assert_eq!(subject.append("m7").await, 7, "numbers are given again");
    assert!(lost < subject.stored_at(7).await, "times are not");

    subject.make_anew().await;
    let (anew, last) = subject.info().await;
    assert_ne!(anew, created, "another stream of the same name");
    assert_eq!(last, 0);
    assert_eq!(subject.append("first").await, 1);
}

struct Simulated {
    stream: Stream,
    copy: Stream,
}

impl Subject for Simulated {
    async fn append(&mut self, payload: &str) -> u64 {
        self.stream.append(Message {
            tenant: TenantId::default_tenant(),
            lane: Lane::Commits,
            payload: payload.to_owned().into(),
        })
    }
    async fn get(&mut self, seq: u64) -> Option<Bytes> {
        let found = self.stream.get(seq);
        found.map(|found| found.message.payload.clone())
    }
    async fn from(&mut self, seq: u64) -> Vec<(u64, Bytes)> {
        let all = self.stream.from(seq);
        all.map(|(seq, found)| (seq, found.message.payload.clone()))
            .collect()
    }
    async fn stored_at(&mut self, seq: u64) -> i64 {
        self.stream.get(seq).expect("a message").at
    }
    async fn info(&mut self) -> (i64, u64) {
        let info = self.stream.info();
        (info.created, info.last)
    }
    async fn copy(&mut self) {
        self.copy = self.stream.clone();
    }
    async fn put_copy_back(&mut self) {
        self.stream.put_back(&self.copy);
    }
    async fn make_anew(&mut self) {
        self.stream = Stream::new(2);
    }
}

struct Real {
    directory: tempfile::TempDir,
    port: u16,
    server: Child,
    jetstream: jetstream::Context,
}

impl Real {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let server = run(directory.path(), port);
        let jetstream = connect(port).await;
        let real = Self {
            directory,
            port,
            server,
            jetstream,
        };
        real.make().await;
        real
    }

    async fn make(&self) {
        let config = stream::Config {
            name: "SIM".to_owned(),
            subjects: vec!["sim.*".to_owned()],
            storage: stream::StorageType::File,
            discard: stream::DiscardPolicy::New,
            ..stream::Config::default()
        };
        self.jetstream.create_stream(config).await.expect("made");
    }

    async fn stream(&self) -> stream::Stream {
        self.jetstream.get_stream("SIM").await.expect("a stream")
    }

    /// Changes the store while no server runs on it.
    async fn restart(&mut self, change: impl FnOnce(&Path, &Path)) {
        self.server.kill().expect("killed");
        self.server.wait().expect("gone");
        let at = self.directory.path();
        change(&at.join("js"), &at.join("copy"));
        self.server = run(at, self.port);
        self.jetstream = connect(self.port).await;
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Subject for Real {
    async fn append(&mut self, payload: &str) -> u64 {
        let sent = self.jetstream.publish("sim.a", payload.to_owned().into());
        sent.await.expect("sent").await.expect("stored").sequence
    }
    async fn get(&mut self, seq: u64) -> Option<Bytes> {
        let found = self.stream().await.get_raw_message(seq).await;
        found.ok().map(|found| found.payload)
    }
    async fn from(&mut self, seq: u64) -> Vec<(u64, Bytes)> {
        let (_, last) = self.info().await;
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: seq,
            },
            ack_policy: AckPolicy::None,
            memory_storage: true,
            ..pull::Config::default()
        };
        let consumer = self
            .stream()
            .await
            .create_consumer(config)
            .await
            .expect("made");
        let count = usize::try_from(last + 1 - seq).expect("small");
        let messages = consumer.messages().await.expect("messages");
        let read = messages.take(count).map(|message| {
            let message = message.expect("a message");
            let seq = message.info().expect("its number").stream_sequence;
            (seq, message.payload.clone())
        });
        read.collect().await
    }
    async fn stored_at(&mut self, seq: u64) -> i64 {
        let found = self.stream().await.get_raw_message(seq).await;
        let at = found.expect("a message").time.unix_timestamp_nanos();
        i64::try_from(at).expect("a time")
    }
    async fn info(&mut self) -> (i64, u64) {
        let mut stream = self.stream().await;
        let info = stream.info().await.expect("what it says");
        let created = i64::try_from(info.created.unix_timestamp_nanos()).expect("a time");
        (created, info.state.last_sequence)
    }
    async fn copy(&mut self) {
        self.restart(duplicate).await;
    }
    async fn put_copy_back(&mut self) {
        self.restart(|store, copy| {
            fs::remove_dir_all(store).expect("removed");
            duplicate(copy, store);
        })
        .await;
    }
    async fn make_anew(&mut self) {
        self.jetstream.delete_stream("SIM").await.expect("deleted");
        self.make().await;
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// A nats-server with its store in a directory.
pub(crate) fn run(directory: &Path, port: u16) -> Child {
    let program = nats_server::find().expect("nats-server");
    Command::new(program)
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(directory.join("js"))
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

/// JetStream of the server that listens there, once it is there.
pub(crate) async fn connect(port: u16) -> jetstream::Context {
    let client = async_nats::ConnectOptions::new()
        .retry_on_initial_connect()
        .reconnect_delay_callback(|_| std::time::Duration::from_millis(10))
        .connect(format!("nats://127.0.0.1:{port}"))
        .await
        .expect("a client");
    let jetstream = jetstream::new(client);
    // It listens before its JetStream is there; each question takes a round trip.
    while let Err(error) = jetstream.get_stream("NONE").await {
        if matches!(error.kind(), GetStreamErrorKind::JetStream(_)) {
            break;
        }
    }
    jetstream
}

/// Copies a directory.
pub(crate) fn duplicate(from: &Path, to: &Path) {
    try_duplicate(from, to).expect("copied");
}

/// Copies a directory; an error when a file of it goes meanwhile.
pub(crate) fn try_duplicate(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            try_duplicate(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_simulated_stream_does_what_is_expected_of_streams() {
    let subject = Simulated {
        stream: Stream::new(1),
        copy: Stream::new(1),
    };
    check(subject).await;
}

#[tokio::test]
async fn the_stream_of_the_real_nats_server_does_what_is_expected_of_streams() {
    check(Real::start().await).await;
}
