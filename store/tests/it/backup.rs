//! A backup is the whole log at one position; what is restored from it is verified before it is a data directory.

use std::{fs, path::Path};

use coppice_messages::Digest;
use coppice_store::{
    Log, LogReader, Store,
    archive::{self, Encoder, Header, Reader, RestoreError, WholeRecords},
    verify,
};

use crate::{
    archive::forest,
    support::{Chain, admit, open},
};

/// A backup of what the log is now.
pub fn backup(log: &LogReader) -> Vec<u8> {
    let records = WholeRecords::new(log).expect("readable");
    let header = Header {
        v: archive::FORMAT,
        at: coppice_messages::Timestamp(0),
        pos: records.position(),
        trees: None,
    };
    Encoder::new(header, records)
        .map(|frame| frame.expect("readable"))
        .collect::<Vec<_>>()
        .concat()
}

pub fn restore(backup: &[u8], data: &Path) -> Result<archive::Restored, RestoreError> {
    archive::restore(|| Reader::open(backup), data, true, |_| Ok(()), |_| {})
}

/// Every commit with its position.
fn commits(log: &LogReader) -> Vec<(u64, Digest)> {
    log.commits_from(1)
        .map(|commit| commit.expect("readable"))
        .map(|commit| (commit.pos, Digest::of(&commit.bytes)))
        .collect()
}

async fn recorded(data: &Path) -> (Store, Vec<Chain>) {
    let store = open(data).await;
    let trees = forest(&store).await;
    (store, trees)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_restored_as_it_was_and_its_new_stream_is_filled_before_anything_new() {
    let place = tempfile::tempdir().expect("a place");
    let (store, mut trees) = recorded(&place.path().join("one")).await;
    let bytes = backup(store.log());
    let were = commits(store.log());
    // What comes after the backup is not in it.
    admit(&store, &trees[2].clone().step()).await;
    store.close().await;
    let checked = archive::check(&mut Reader::open(&bytes[..]).expect("opens"), |_| {});
    let checked = checked.expect("whole");
    let data = place.path().join("two");
    let restored = restore(&bytes, &data).expect("restored");
    assert_eq!((restored.pos, &restored.verified), (14, &checked));

    let copy = open(&data).await;
    assert_eq!(commits(copy.log()), were);
    assert_eq!(admit(&copy, &trees[2].step()).await, 15);
    assert_eq!(copy.refilling(), 0);
    let seen = copy.verify_stream().await.expect("readable");
    assert_eq!((seen.commits, seen.whole, seen.faults), (15, true, vec![]));
    let found = verify::log(copy.log()).expect("readable");
    assert_eq!(found.faults, []);
    copy.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_altered_byte_anywhere_in_a_backup_is_named_and_nothing_is_restored() {
    let place = tempfile::tempdir().expect("a place");
    let (store, _) = recorded(&place.path().join("one")).await;
    let bytes = backup(store.log());
    store.close().await;
    let data = place.path().join("two");
    for at in (0..bytes.len()).step_by(bytes.len() / 61) {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        let refused = restore(&altered, &data).expect_err("altered");
        assert!(!data.exists(), "byte {at}: {refused}");
        assert!(restore(&bytes[..at], &data).is_err(), "cut off at {at}");
    }
    let left: Vec<_> = fs::read_dir(place.path()).expect("readable").collect();
    assert_eq!(left.len(), 1, "nothing half restored is left: {left:?}");
    assert_eq!(restore(&bytes, &data).expect("whole").pos, 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_damaged_log_is_neither_found_good_nor_restored() {
    let place = tempfile::tempdir().expect("a place");
    let one = place.path().join("one");
    let (store, _) = recorded(&one).await;
    store.close().await;
    drop(store);
    let key =
        |name: &str, seq: u64| [b"default\0", name.as_bytes(), b"\0", &seq.to_be_bytes()].concat();
    let alter = |change: &dyn Fn(&fjall::Keyspace, &fjall::Keyspace)| {
        let db = fjall::Database::builder(one.join("log"))
            .open()
            .expect("opens");
        let table = |name| {
            db.keyspace(name, fjall::KeyspaceCreateOptions::default)
                .expect("opens")
        };
        change(&table("commits"), &table("positions"));
    };
    let refused = |what: &str| {
        let log = Log::open(&one).expect("opens");
        let bytes = backup(&log.reader());
        let checked = archive::check(&mut Reader::open(&bytes[..]).expect("opens"), |_| {});
        assert!(checked.is_err(), "{what}");
        let data = place.path().join("two");
        let said = restore(&bytes, &data).expect_err("damaged").to_string();
        assert!(said.contains(what), "{said}");
        assert!(!data.exists());
    };
    let flip = |commits: &fjall::Keyspace| {
        let mut value = commits
            .get(key("t1", 2))
            .expect("readable")
            .expect("there")
            .to_vec();
        let last = value.len() - 1;
        value[last] ^= 1;
        commits.insert(key("t1", 2), value).expect("written");
    };
    alter(&|commits, _| flip(commits));
    refused("default/t1 event 2");
    alter(&|commits, _| flip(commits));
    // A chain without its end is whole in itself; the order of the log says what is missing.
    alter(&|commits, positions| {
        commits.remove(key("t1", 5)).expect("removed");
        positions.remove(13_u64.to_be_bytes()).expect("removed");
    });
    let log = Log::open(&one).expect("opens");
    let bytes = backup(&log.reader());
    drop(log);
    assert!(archive::check(&mut Reader::open(&bytes[..]).expect("opens"), |_| {}).is_err());
    assert!(restore(&bytes, &place.path().join("two")).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_restored_over_anything() {
    let place = tempfile::tempdir().expect("a place");
    let one = place.path().join("one");
    let (store, _) = recorded(&one).await;
    let bytes = backup(store.log());
    store.close().await;
    assert!(matches!(
        restore(&bytes, &one),
        Err(RestoreError::Taken { .. })
    ));
    let trees = crate::archive::export(store.log(), &archive::Selection::default());
    let two = place.path().join("two");
    let refused = restore(&trees, &two).expect_err("no backup").to_string();
    assert!(refused.contains("log import"), "{refused}");
    let planned = archive::plan(&mut Reader::open(&bytes[..]).expect("opens"), None, |_| {});
    assert!(
        planned
            .expect_err("a backup")
            .to_string()
            .contains("restore")
    );
}
