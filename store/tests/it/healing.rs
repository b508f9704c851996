//! The log was damaged, made shorter or removed: it is set aside and read again from the stream, and what neither has is named.

use std::{
    fs,
    path::{Path, PathBuf},
};

use coppice_messages::Digest;
use coppice_store::{Fatal, Log, OpenError, Store, verify};

use crate::{
    bus::{Server, copy},
    support::{Chain, admit},
};

const COMMITS: u64 = 30;

/// A server and a data directory whose log has thirty commits, and a blob.
async fn recorded(server: &Server, data: &Path) -> Vec<Digest> {
    let store = Store::open(server.options(data)).await.expect("opens");
    let mut chain = Chain::new("r1");
    for _ in 0..COMMITS {
        admit(&store, &chain.step()).await;
    }
    let put = store.put_blob(chain.tenant.clone(), vec![3; 300 << 10]);
    put.await.expect("stored");
    let all = commits(&store);
    store.close().await;
    all
}

fn commits(store: &Store) -> Vec<Digest> {
    let all = store.log().commits_from(1);
    all.map(|commit| commit.expect("readable").hash).collect()
}

fn aside(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data).expect("readable");
    entries
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.to_string_lossy().contains("set-aside"))
        .collect()
}

/// The store opens with everything, after a log was set aside or not.
async fn check(server: &Server, data: &Path, expected: &[Digest], set_aside: usize) {
    let store = Store::open(server.options(data)).await.expect("opens");
    assert_eq!(commits(&store), expected);
    let verified = verify::log(store.log()).expect("readable");
    assert_eq!((verified.faults, verified.blobs), (Vec::new(), 1));
    admit(&store, &Chain::new("later").step()).await;
    store.close().await;
    assert_eq!(aside(data).len(), set_aside);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_log_is_read_again_from_the_stream() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let all = recorded(&server, data.path()).await;
    fs::remove_dir_all(data.path().join("log")).expect("removed");
    check(&server, data.path(), &all, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_does_not_open_is_set_aside_and_read_again_from_the_stream() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let all = recorded(&server, data.path()).await;
    for file in files(&data.path().join("log")) {
        fs::write(file, b"nonsense").expect("written");
    }
    check(&server, data.path(), &all, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_the_log_is_set_aside_and_read_again_from_the_stream() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let older = data.path().join("older");
    recorded(&server, data.path()).await;
    copy(&data.path().join("log"), &older);
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    admit(&store, &Chain::new("r2").step()).await;
    let all = commits(&store);
    store.close().await;
    drop(store);
    fs::remove_dir_all(data.path().join("log")).expect("removed");
    fs::rename(older, data.path().join("log")).expect("put back");
    let log = Log::open(data.path()).expect("opens");
    let lacks = log.lacks().expect("readable").expect("it is older");
    assert_eq!(
        lacks.to_string(),
        "the log ends at position 30, but had come to position 31"
    );
    drop(log);
    check(&server, data.path(), &all, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_is_told_of_a_log_that_is_gone_or_unreadable_and_leaves_it_as_it_is() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    recorded(&server, data.path()).await;
    let log = data.path().join("log");
    let said = || {
        let error = Log::open(data.path()).err().expect("refused");
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", cause.unwrap_or_default())
    };
    for file in files(&log) {
        fs::write(file, b"nonsense").expect("written");
    }
    assert!(
        said().contains("cannot be used: its database"),
        "{}",
        said()
    );
    fs::remove_dir_all(&log).expect("removed");
    assert!(said().contains("had come to position 30"), "{}", said());
    assert!(!log.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_neither_log_nor_stream_has_is_named_and_the_log_stays_as_it_was_found() {
    let data = tempfile::tempdir().expect("a directory");
    let mut server = Server::start().await;
    let older = data.path().join("older");
    recorded(&server, data.path()).await;
    copy(&data.path().join("log"), &older);
    server.kill();
    server.copy_store("js", "copy");
    server.run().await;
    let store = Store::open(server.options(data.path()))
        .await
        .expect("opens");
    let mut chain = Chain::new("r2");
    for _ in 0..3 {
        admit(&store, &chain.step()).await;
    }
    store.close().await;
    drop(store);
    fs::remove_dir_all(data.path().join("log")).expect("removed");
    fs::rename(older, data.path().join("log")).expect("put back");
    server.kill();
    server.copy_store("copy", "js");
    server.run().await;
    for _ in 0..2 {
        let refused = Store::open(server.options(data.path())).await.err();
        let Some(OpenError::Fatal(
            fatal @ Fatal::InNeither {
                first: 31,
                last: 33,
            },
        )) = refused
        else {
            panic!("{refused:?}");
        };
        assert!(
            fatal
                .to_string()
                .contains("positions 31 to 33 are in neither")
        );
        assert!(data.path().join("log").exists());
        assert_eq!(aside(data.path()), Vec::<PathBuf>::new());
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Draws that are the same every time.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// What came of one flipped bit.
#[derive(Debug, Default)]
struct Tally {
    unharmed: u32,
    healed: u32,
    named: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn one_flipped_bit_in_the_files_of_the_log_never_ends_in_a_silently_older_state() {
    let flips = if std::env::var_os("COPPICE_LONG").is_some() {
        200
    } else {
        20
    };
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let all = recorded(&server, data.path()).await;
    let (log, kept) = (data.path().join("log"), data.path().join("kept"));
    copy(&log, &kept);
    let mark = fs::read(data.path().join("log.mark")).expect("there is a mark");
    let sized: Vec<(PathBuf, u64)> = files(&kept)
        .into_iter()
        .map(|path| {
            let bytes = written(&path);
            (path, bytes)
        })
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    let total: u64 = sized.iter().map(|(_, bytes)| bytes).sum();
    let (mut state, mut tally) = (0x9e37_79b9_7f4a_7c15, Tally::default());
    for _ in 0..flips {
        let mut offset = draw(&mut state) % total;
        let bit = draw(&mut state) % 8;
        let (path, _) = sized
            .iter()
            .find(|(_, bytes)| {
                let inside = offset < *bytes;
                if !inside {
                    offset -= bytes;
                }
                inside
            })
            .expect("the offset lies in a file");
        fs::remove_dir_all(&log).expect("removed");
        copy(&kept, &log);
        fs::write(data.path().join("log.mark"), &mark).expect("written");
        let target = log.join(path.strip_prefix(&kept).expect("below"));
        let mut bytes = fs::read(&target).expect("readable");
        bytes[offset as usize] ^= 1 << bit;
        fs::write(&target, bytes).expect("written");
        after_a_flip(&server, data.path(), &all, &mut tally).await;
    }
    println!("{flips} flips in {total} bytes: {tally:?}");
}

/// Bytes of a file that were written: a journal is as long as it may become.
fn written(path: &Path) -> u64 {
    let bytes = fs::read(path).expect("readable");
    let end = bytes.iter().rposition(|byte| *byte != 0);
    end.map_or(0, |end| end as u64 + 1)
}

async fn after_a_flip(server: &Server, data: &Path, all: &[Digest], tally: &mut Tally) {
    let store = match Store::open(server.options(data)).await {
        Ok(store) => store,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            tally.named += 1;
            return;
        }
    };
    let verified = verify::log(store.log());
    let healed = !aside(data).is_empty();
    match verified {
        Ok(verified) if verified.faults.is_empty() => {
            assert_eq!(commits(&store), all);
            assert_eq!(verified.blobs, 1);
            if healed {
                tally.healed += 1;
            } else {
                tally.unharmed += 1;
            }
        }
        _ => tally.named += 1,
    }
    store.close().await;
    for path in aside(data) {
        fs::remove_dir_all(path).expect("removed");
    }
}
