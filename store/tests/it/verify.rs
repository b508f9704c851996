//! Verification finds damage that was written through fjall itself, and says where it is.

use std::path::Path;

use coppice_messages::{Commit, Digest, ids::RunId};
use coppice_store::{
    Log,
    verify::{self, Damage, StreamFault},
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use crate::support::{Chain, admit, encode, hash, open};

/// Two chains of three commits each, interleaved: r1 has the odd positions, r2 the even ones.
async fn recorded(data: &Path) -> Vec<Commit> {
    let store = open(data).await;
    let mut chains = [Chain::new("r1"), Chain::new("r2")];
    let mut commits = Vec::new();
    for _ in 0..3 {
        for chain in &mut chains {
            let commit = chain.step();
            admit(&store, &commit).await;
            commits.push(commit);
        }
    }
    store.close().await;
    commits
}

fn key(commit: &Commit) -> Vec<u8> {
    [
        commit.tenant.as_str().as_bytes(),
        &[0],
        commit.run.as_str().as_bytes(),
        &[0],
        &commit.seq.to_be_bytes(),
    ]
    .concat()
}

fn value(commit: &Commit, pos: u64, hash: &Digest) -> Vec<u8> {
    [&pos.to_be_bytes()[..], &hash.0, &encode(commit)].concat()
}

/// Writes a commit with another trace where it lies, with this hash beside it.
fn write(table: &Keyspace, commit: &Commit, pos: u64, hash: &Digest, trace: &str) {
    let mut altered = commit.clone();
    altered.trace = trace.to_owned();
    let value = value(&altered, pos, hash);
    table.insert(key(&altered), value).expect("written");
}

/// What verification says about a log after somebody wrote into it.
async fn faults(
    data: &Path,
    damage: impl FnOnce(&Keyspace, &[Commit]),
) -> Vec<(Option<RunId>, Option<u64>, Damage)> {
    let commits = recorded(data).await;
    {
        let db = Database::builder(data.join("log")).open().expect("opens");
        let table = db
            .keyspace("commits", KeyspaceCreateOptions::default)
            .expect("opens");
        damage(&table, &commits);
    }
    let log = Log::open(data).expect("opens");
    verify::log(&log.reader())
        .expect("readable")
        .faults
        .into_iter()
        .map(|fault| (fault.run, fault.pos, fault.damage))
        .collect()
}

fn run(name: &str) -> Option<RunId> {
    Some(name.parse().expect("a run"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intact_log_has_no_faults() {
    let data = tempfile::tempdir().expect("a directory");
    assert_eq!(faults(data.path(), |_, _| {}).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_event_is_found() {
    let data = tempfile::tempdir().expect("a directory");
    let found = faults(data.path(), |table, commits| {
        write(table, &commits[2], 3, &hash(&commits[2]), "altered");
    })
    .await;
    assert_eq!(found, [(run("r1"), Some(3), Damage::Altered)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_last_commit_is_found() {
    let data = tempfile::tempdir().expect("a directory");
    let found = faults(data.path(), |table, commits| {
        write(table, &commits[5], 6, &hash(&commits[5]), "altered");
    })
    .await;
    assert_eq!(found, [(run("r2"), Some(6), Damage::Altered)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_commit_with_a_hash_to_match_is_found_by_the_commit_that_cites_it() {
    let data = tempfile::tempdir().expect("a directory");
    let found = faults(data.path(), |table, commits| {
        let mut altered = commits[2].clone();
        altered.trace = "altered".to_owned();
        write(table, &altered, 3, &hash(&altered), "altered");
    })
    .await;
    assert_eq!(found, [(run("r1"), Some(5), Damage::BrokenChain)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_commit_is_found() {
    let data = tempfile::tempdir().expect("a directory");
    let found = faults(data.path(), |table, commits| {
        table.remove(key(&commits[2])).expect("removed");
    })
    .await;
    let expected = [
        (run("r1"), Some(5), Damage::Missing { expected: 2 }),
        (run("r1"), Some(3), Damage::OtherPosition),
    ];
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_last_commit_is_found() {
    let data = tempfile::tempdir().expect("a directory");
    let found = faults(data.path(), |table, commits| {
        table.remove(key(&commits[5])).expect("removed");
    })
    .await;
    assert_eq!(found, [(run("r2"), Some(6), Damage::OtherPosition)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_commit_that_was_removed_with_its_position_is_found() {
    let data = tempfile::tempdir().expect("a directory");
    let commits = recorded(data.path()).await;
    {
        let db = Database::builder(data.path().join("log"))
            .open()
            .expect("opens");
        let table = |name| {
            db.keyspace(name, KeyspaceCreateOptions::default)
                .expect("opens")
        };
        table("commits").remove(key(&commits[5])).expect("removed");
        let pos = 6_u64.to_be_bytes();
        table("positions").remove(pos).expect("removed");
    }
    let log = Log::open(data.path()).expect("opens");
    let found = verify::log(&log.reader()).expect("readable").faults;
    let found: Vec<_> = found.into_iter().map(|f| (f.pos, f.damage)).collect();
    assert_eq!(found, [(Some(6), Damage::Ends { recorded: 6 })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swapped_pair_is_found() {
    let data = tempfile::tempdir().expect("a directory");
    let found = faults(data.path(), |table, commits| {
        for (at, other, pos) in [(0, 2, 1u64), (2, 0, 3)] {
            let moved = &commits[other];
            let value = value(moved, pos, &hash(moved));
            table.insert(key(&commits[at]), value).expect("written");
        }
    })
    .await;
    let damage: Vec<_> = found.into_iter().map(|(_, pos, d)| (pos, d)).collect();
    assert_eq!(damage[0], (Some(1), Damage::OtherPlace));
    assert_eq!(damage[1], (Some(3), Damage::OtherPlace));
}

#[tokio::test(flavor = "multi_thread")]
async fn log_and_stream_agree_until_one_of_them_is_altered() {
    let data = tempfile::tempdir().expect("a directory");
    let commits = recorded(data.path()).await;
    let store = open(data.path()).await;
    let found = store.verify_stream().await.expect("readable");
    assert_eq!((found.commits, found.whole), (6, true));
    assert_eq!(found.faults, []);
    store.close().await;
    drop(store);
    {
        let db = Database::builder(data.path().join("log"))
            .open()
            .expect("opens");
        let table = db
            .keyspace("commits", KeyspaceCreateOptions::default)
            .expect("opens");
        write(&table, &commits[5], 6, &hash(&commits[5]), "altered");
    }
    let store = open(data.path()).await;
    let found = store.verify_stream().await.expect("readable");
    let [
        StreamFault::NotInLog { message, seq, .. },
        StreamFault::NotInStream { pos: 6, .. },
    ] = found.faults.as_slice()
    else {
        panic!("{:?}", found.faults);
    };
    assert_eq!((*message, *seq), (6, 3));
    store.close().await;
}
