//! The simulated log against the real one, fjall behind the real recorder: one list of expectations, both must meet it.

use std::{path::PathBuf, process::Child};

use async_nats::jetstream;
use bytes::Bytes;
use coppice_messages::{
    Commit, Digest, Entry, Event, Timestamp,
    commit::FORMAT,
    event::node,
    ids::{RunId, TenantId, TreeId},
};
use coppice_scenarios::sim::{
    log::Log,
    stream::{Message, Stream},
};
use coppice_store::{
    BusOptions, Credentials, Lane, Options, Realm, ServerAddress, Store, refill::Refill, wire,
};

use crate::contract::{connect, free_port, run, try_duplicate};

/// What is expected of a log behind a stream.
trait Subject {
    /// A message comes to the stream and is in the log.
    async fn bring(&mut self, commits: &[Bytes]);
    /// A message comes to the stream, and everything stops before the fsync of what it brought.
    async fn bring_and_crash(&mut self, commits: &[Bytes]);
    /// Everything stops, and is started again; what the stream has further is read.
    async fn crash(&mut self);
    /// Position and hash of each commit of a run.
    async fn chain(&self, run: &RunId) -> Vec<(u64, Digest)>;
    /// The last message that is in the log, and how many commits were refused.
    async fn read(&self) -> (u64, u64);
    /// Whether it would know the message again.
    async fn knows(&self, seq: u64) -> bool;
}

/// The first commits of a run.
fn commits(run: &str, count: u64) -> Vec<Bytes> {
    let run: RunId = run.parse().expect("a run id");
    let mut prev = Digest::ZERO;
    let each = (1..=count).map(|seq| {
        let started = node::Started {
            node: "read".parse().expect("a node name"),
            visit: 1,
        };
        let commit = Commit {
            v: FORMAT,
            tenant: TenantId::default_tenant(),
            tree: TreeId::of_root(&run),
            run: run.clone(),
            seq,
            epoch: 1,
            prev,
            at: Timestamp(1_700_000_000_000_000),
            trace: String::new(),
            parent: None,
            events: vec![Entry {
                cause: None,
                event: Event::Node(node::Event::Started(started)),
            }],
        };
        let bytes = commit.encode().expect("it can be encoded");
        prev = Digest::of(&bytes);
        bytes.into()
    });
    each.collect()
}

fn placed(positions: &[u64], commits: &[Bytes]) -> Vec<(u64, Digest)> {
    let hashes = commits.iter().map(|bytes| Digest::of(bytes));
    positions.iter().copied().zip(hashes).collect()
}

async fn check(mut subject: impl Subject) {
    let run = |name: &str| -> RunId { name.parse().expect("a run id") };
    let (a, b) = (commits("a", 5), commits("b", 2));
    subject.bring(&[a[0].clone(), b[0].clone()]).await;
    subject.bring(&a[..1]).await;
    assert_eq!(subject.read().await, (2, 0), "what comes twice is absorbed");
    subject.bring(&a[2..3]).await;
    assert_eq!(subject.read().await, (3, 1), "a gap is refused");
    subject.bring(&a[1..3]).await;
    assert_eq!(
        subject.chain(&run("a")).await,
        placed(&[1, 3, 4], &a[..3]),
        "positions are given in the order of the stream"
    );

    subject.crash().await;
    assert_eq!(subject.chain(&run("a")).await, placed(&[1, 3, 4], &a[..3]));
    assert_eq!(subject.chain(&run("b")).await, placed(&[2], &b[..1]));
    assert_eq!(
        subject.read().await,
        (4, 1),
        "the position and the commits are one"
    );
    assert!(subject.knows(4).await && !subject.knows(5).await);

    subject.bring_and_crash(&[a[3].clone(), b[1].clone()]).await;
    assert_eq!(
        subject.chain(&run("a")).await,
        placed(&[1, 3, 4, 5], &a[..4]),
        "what was not fsynced is read again"
    );
    assert_eq!(subject.chain(&run("b")).await, placed(&[2, 6], &b));
    assert_eq!(subject.read().await, (5, 1));
    subject.bring(&a[4..]).await;
    assert_eq!(
        subject.chain(&run("a")).await,
        placed(&[1, 3, 4, 5, 7], &a),
        "and goes on from there"
    );
    assert!(subject.knows(6).await);
}

struct Simulated {
    stream: Stream,
    log: Log,
    refill: Refill,
}

impl Simulated {
    fn append(&mut self, commits: &[Bytes]) {
        self.stream.append(Message {
            tenant: TenantId::default_tenant(),
            lane: Lane::Commits,
            payload: wire::encode_commits(commits),
        });
    }

    /// One batch of all that the log has not read.
    fn gather(&mut self) -> coppice_scenarios::sim::log::Batch {
        let mut batch = self.log.batch();
        let from = self.log.position().map_or(0, |position| position.seq) + 1;
        for (seq, stored) in self.stream.from(from) {
            batch.take(&self.log, &mut self.refill, (seq, 1), stored);
        }
        batch
    }
}

impl Subject for Simulated {
    async fn bring(&mut self, commits: &[Bytes]) {
        self.append(commits);
        let batch = self.gather();
        self.log.sync(batch);
    }
    async fn bring_and_crash(&mut self, commits: &[Bytes]) {
        self.append(commits);
        drop(self.gather());
        self.crash().await;
    }
    async fn crash(&mut self) {
        self.refill = self.log.refill();
        let batch = self.gather();
        self.log.sync(batch);
    }
    async fn chain(&self, run: &RunId) -> Vec<(u64, Digest)> {
        let chain = self.log.chain(&TenantId::default_tenant(), run);
        chain.iter().map(|known| (known.pos, known.hash)).collect()
    }
    async fn read(&self) -> (u64, u64) {
        let position = self.log.position().expect("something was read");
        (position.seq, self.log.quarantined)
    }
    async fn knows(&self, seq: u64) -> bool {
        self.log.message_digest(seq).is_some()
    }
}

/// A store on a nats-server of its own. It crashes by going on from a copy of its files, taken while it was running.
struct Real {
    directory: tempfile::TempDir,
    port: u16,
    server: Child,
    jetstream: jetstream::Context,
    store: Store,
    lives: u32,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn realm() -> Realm {
    Realm::shared("contract").expect("a realm")
}

async fn open(data: PathBuf, port: u16) -> Store {
    let bus = BusOptions::Shared {
        url: ServerAddress::loopback(port),
        realm: realm(),
        credentials: Credentials::None,
    };
    let options = Options::new(data, "contract".parse().expect("a host id"), bus);
    Store::open(options).await.expect("the store opens")
}

impl Real {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let server = run(directory.path(), port);
        let jetstream = connect(port).await;
        let store = open(directory.path().join("life-0"), port).await;
        Self {
            directory,
            port,
            server,
            jetstream,
            store,
            lives: 0,
        }
    }

    async fn publish(&self, commits: &[Bytes]) -> u64 {
        let subject = realm().commits(&TenantId::default_tenant());
        let payload = wire::encode_commits(commits);
        let sent = self.jetstream.publish(subject, payload).await;
        sent.expect("sent").await.expect("stored").sequence
    }

    async fn until(&self, seq: u64) {
        let read = async {
            while self.store.status().stream < seq {
                self.store.client().flush().await.expect("a round trip");
            }
        };
        let bound = std::time::Duration::from_secs(30);
        tokio::time::timeout(bound, read)
            .await
            .expect("the message is read");
    }

    fn life(&self, nth: u32) -> PathBuf {
        self.directory.path().join(format!("life-{nth}"))
    }

    /// The files as they are now, without the lock of who has them open.
    fn image(&mut self) {
        let (from, to) = (self.life(self.lives), self.life(self.lives + 1));
        // The mark beside the log is replaced now and then: a copy during which it was is taken anew.
        let copied = (0..100).any(|_| {
            let _ = std::fs::remove_dir_all(&to);
            try_duplicate(&from, &to).is_ok()
        });
        assert!(copied, "the files stay as they are for long enough");
        std::fs::remove_file(to.join("lock")).expect("a lock");
        self.lives += 1;
    }

    async fn go_on_from_image(&mut self) {
        self.store.close().await;
        self.store = open(self.life(self.lives), self.port).await;
        let mut stream = self
            .jetstream
            .get_stream(realm().stream())
            .await
            .expect("it");
        let info = stream.info().await.expect("what it says");
        let last = info.state.last_sequence;
        self.until(last).await;
    }
}

impl Subject for Real {
    async fn bring(&mut self, commits: &[Bytes]) {
        let seq = self.publish(commits).await;
        self.until(seq).await;
    }
    async fn bring_and_crash(&mut self, commits: &[Bytes]) {
        self.image();
        self.publish(commits).await;
        self.go_on_from_image().await;
    }
    async fn crash(&mut self) {
        self.image();
        self.go_on_from_image().await;
    }
    async fn chain(&self, run: &RunId) -> Vec<(u64, Digest)> {
        let chain = self.store.log().chain(&TenantId::default_tenant(), run);
        let chain = chain.map(|known| known.expect("readable"));
        chain.map(|known| (known.pos, known.hash)).collect()
    }
    async fn read(&self) -> (u64, u64) {
        let status = self.store.status();
        (status.stream, status.quarantined)
    }
    async fn knows(&self, seq: u64) -> bool {
        let digest = self.store.log().message_digest(seq);
        digest.expect("readable").is_some()
    }
}

#[tokio::test]
async fn the_simulated_log_does_what_is_expected_of_logs() {
    let subject = Simulated {
        stream: Stream::new(1),
        log: Log::default(),
        refill: Refill::default(),
    };
    check(subject).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_the_real_recorder_does_what_is_expected_of_logs() {
    check(Real::start().await).await;
}
