//! The log was damaged, made shorter or removed: it is set aside and read again from the stream, and what neither has is named.

use std::{
    fs,
    path::{Path, PathBuf},
};

use coppice_messages::{Digest, ids::TenantId};
use coppice_store::{
    Fatal, Log, OpenError, OpenLogError, ReadError, Store,
    log::RowFilter,
    verify::{self, Damage},
};

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

/// What came of flipped bits.
#[derive(Debug, Default)]
struct Tally {
    unharmed: u32,
    healed: u32,
    /// Named when the store opened.
    refused: u32,
    /// Named by verification, and by a living host that met it, whose next start healed it.
    met: u32,
    /// Named by verification alone.
    named: u32,
}

fn flips(few: u32) -> u32 {
    if std::env::var_os("COPPICE_LONG").is_some() {
        200
    } else {
        few
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_flipped_bit_in_the_files_of_the_log_never_ends_in_a_silently_older_state() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let all = recorded(&server, data.path()).await;
    flipped(&server, data.path(), &all, flips(20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_flipped_bit_in_a_flushed_table_of_the_log_never_ends_in_a_silently_older_state() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start().await;
    let all = recorded(&server, data.path()).await;
    flush(&data.path().join("log"));
    let tally = flipped(&server, data.path(), &all, flips(40)).await;
    assert!(
        tally.healed + tally.met > 0,
        "some bit was one of a block: {tally:?}"
    );
}

/// Moves everything from the journal into table files.
fn flush(log: &Path) {
    let db = fjall::Database::builder(log).open().expect("opens");
    for name in db.list_keyspace_names() {
        let table = db
            .keyspace(&name, fjall::KeyspaceCreateOptions::default)
            .expect("opens");
        table.rotate_memtable_and_wait().expect("flushed");
    }
}

/// Flips one bit after the other, each in the log as it was.
async fn flipped(server: &Server, data: &Path, all: &[Digest], flips: u32) -> Tally {
    let (log, kept) = (data.join("log"), data.join("kept"));
    copy(&log, &kept);
    let mark = fs::read(data.join("log.mark")).expect("there is a mark");
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
        fs::write(data.join("log.mark"), &mark).expect("written");
        let below = path.strip_prefix(&kept).expect("below");
        let target = log.join(below);
        let mut bytes = fs::read(&target).expect("readable");
        bytes[offset as usize] ^= 1 << bit;
        fs::write(&target, bytes).expect("written");
        let what = format!("bit {bit} at {offset} of {}", below.display());
        after_a_flip(server, data, all, (&mut tally, &what)).await;
    }
    println!("{flips} flips in {total} bytes: {tally:?}");
    tally
}

/// Bytes of a file that were written: a journal is as long as it may become.
fn written(path: &Path) -> u64 {
    let bytes = fs::read(path).expect("readable");
    let end = bytes.iter().rposition(|byte| *byte != 0);
    end.map_or(0, |end| end as u64 + 1)
}

/// Whether an error says what of the log is at fault, and what to do.
fn names_and_advises(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::Read(_)
            | OpenError::Fatal(Fatal::InNeither { .. } | Fatal::LogRead { .. })
            | OpenError::Log(OpenLogError::SetAside { .. })
    )
}

/// Everything that the log has, read as a host reads it.
fn read_all(store: &Store) -> Result<Vec<Digest>, ReadError> {
    let log = store.log();
    let all = log.commits_from(1);
    let all = all
        .map(|commit| Ok::<_, ReadError>(commit?.hash))
        .collect::<Result<_, _>>()?;
    let tenant = TenantId::default_tenant();
    log.blob(&tenant, &Digest::of(&vec![3; 300 << 10]))?;
    for row in log.rows(RowFilter::default()) {
        log.head(&tenant, &row?.run)?;
    }
    Ok(all)
}

async fn after_a_flip(
    server: &Server,
    data: &Path,
    all: &[Digest],
    (tally, what): (&mut Tally, &str),
) {
    let store = match Store::open(server.options(data)).await {
        Ok(store) => store,
        Err(error) => {
            assert!(names_and_advises(&error), "{what}: {error:?}");
            tally.refused += 1;
            return;
        }
    };
    let verified = verify::log(store.log()).expect("what is damaged is a fault");
    for fault in &verified.faults {
        let placed = fault.pos.is_some() || fault.run.is_some();
        let named = matches!(
            fault.damage,
            Damage::Unreadable { .. } | Damage::Blob(_) | Damage::Ends { .. }
        );
        assert!(placed || named, "{what}: {fault}");
    }
    match read_all(&store) {
        Ok(read) if verified.faults.is_empty() => {
            assert_eq!((read.as_slice(), verified.blobs), (all, 1), "{what}");
            if aside(data).is_empty() {
                tally.unharmed += 1;
            } else {
                tally.healed += 1;
            }
        }
        Ok(_) => tally.named += 1,
        Err(error) => {
            assert!(!verified.faults.is_empty(), "{what}: {error}");
            let said = store.fatal().await.to_string();
            assert!(said.contains("start again"), "{what}: {said}");
            store.close().await;
            drop(store);
            let next = Store::open(server.options(data)).await.expect("opens");
            assert_eq!(read_all(&next).expect("readable"), all, "{what}");
            let found = verify::log(next.log()).expect("readable");
            assert_eq!((found.faults, found.blobs), (vec![], 1), "{what}");
            assert_eq!(aside(data).len(), 1, "{what}: what was damaged is kept");
            next.close().await;
            tally.met += 1;
            forget(data);
            return;
        }
    }
    store.close().await;
    forget(data);
}

/// What was set aside must not count for the next flip.
fn forget(data: &Path) {
    for path in aside(data) {
        fs::remove_dir_all(path).expect("removed");
    }
}
