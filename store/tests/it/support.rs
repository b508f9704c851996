//! Chains of commits, and stores in directories of their own.

use std::{path::Path, path::PathBuf};

use bytes::Bytes;
use coppice_messages::{
    Commit, Digest, Entry, Event, Timestamp,
    commit::FORMAT,
    event::node,
    ids::{RunId, TenantId, TreeId},
};
use coppice_store::{BusOptions, GuardCommand, Options, Store, Verdict};
use tokio::sync::oneshot;

/// The program whose guard the tests use: the example `store_host`, which cargo builds beside them.
pub fn host_program() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own program");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("tests lie in <profile>/deps");
    let program = profile.join("examples").join("store_host");
    assert!(
        program.is_file(),
        "{} is missing: run the tests through cargo test or cargo nextest run -p coppice-store, which build examples",
        program.display()
    );
    program
}

/// Options for a store of its own.
pub fn options(data: &Path) -> Options {
    let guard = GuardCommand::new(host_program(), ["nats-guard"]);
    Options::new(
        data,
        "test-host".parse().expect("a host id"),
        BusOptions::Private { guard },
    )
}

/// Opens a store.
pub async fn open(data: &Path) -> Store {
    Store::open(options(data)).await.expect("the store opens")
}

/// A root run's chain, written one commit after the other.
#[derive(Clone)]
pub struct Chain {
    pub tenant: TenantId,
    pub run: RunId,
    pub tree: TreeId,
    pub seq: u64,
    pub epoch: u64,
    pub prev: Digest,
}

impl Chain {
    pub fn new(run: &str) -> Self {
        let run: RunId = run.parse().expect("a run id");
        Self {
            tenant: TenantId::default_tenant(),
            tree: TreeId::of_root(&run),
            run,
            seq: 1,
            epoch: 1,
            prev: Digest::ZERO,
        }
    }

    /// The next commit, with these events, and the chain behind it.
    pub fn commit(&mut self, events: Vec<Event>) -> Commit {
        let commit = Commit {
            v: FORMAT,
            tenant: self.tenant.clone(),
            tree: self.tree.clone(),
            run: self.run.clone(),
            seq: self.seq,
            epoch: self.epoch,
            prev: self.prev,
            at: Timestamp(1_700_000_000_000_000),
            trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
            parent: None,
            events: events
                .into_iter()
                .map(|event| Entry { cause: None, event })
                .collect(),
        };
        self.seq = commit.next_seq();
        self.prev = hash(&commit);
        commit
    }

    /// The next commit, with one event that concerns nobody.
    pub fn step(&mut self) -> Commit {
        self.commit(vec![step_event()])
    }
}

/// An event that concerns nobody.
pub fn step_event() -> Event {
    Event::Node(node::Event::Started(node::Started {
        node: "read".parse().expect("a node name"),
        visit: 1,
    }))
}

pub fn encode(commit: &Commit) -> Bytes {
    commit.encode().expect("a commit can be encoded").into()
}

pub fn hash(commit: &Commit) -> Digest {
    Digest::of(&encode(commit))
}

/// Submits a commit; the receiver gets the verdict.
pub fn submit(store: &Store, commit: &Commit) -> oneshot::Receiver<Verdict> {
    let (tell, told) = oneshot::channel();
    let bytes = encode(commit);
    let hash = Digest::of(&bytes);
    let waiter = Box::new(move |verdict| {
        let _ = tell.send(verdict);
    });
    store.submit(commit.tenant.clone(), bytes, hash, waiter);
    told
}

/// Submits a commit and waits for the verdict.
pub async fn record(store: &Store, commit: &Commit) -> Verdict {
    submit(store, commit).await.expect("a waiter is told")
}

/// Records a commit that must be admitted, and returns its position.
pub async fn admit(store: &Store, commit: &Commit) -> u64 {
    match record(store, commit).await {
        Verdict::Admitted { pos } => pos,
        other => panic!("{other:?} for {commit:?}"),
    }
}

/// An event of this kind, out of those that the vocabulary keeps as examples.
pub fn golden(kind: &str) -> Event {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../messages/tests/golden")
        .join(format!("{kind}.v1.hex"));
    let text: String = std::fs::read_to_string(path)
        .expect("there is an example")
        .split_whitespace()
        .collect();
    let bytes: Vec<u8> = (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).expect("hex"))
        .collect();
    let commit = Commit::decode(&bytes).expect("a commit");
    let first = commit.events.into_iter().next().expect("an event");
    first.event
}
