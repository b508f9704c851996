//! The files in which the private nats-server keeps the stream are damaged while the host lives: commits flow again, nothing recorded is lost,
//! and what the stream lacks afterwards is named.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use coppice_messages::Digest;
use coppice_store::{Store, clock, verify};

use crate::support::{Chain, admit, open};

/// Commits before the damage.
const COMMITS: u64 = 40;
/// Commits flow again within this time: a stream that cannot be read is made anew after ten seconds.
const FLOWS_AGAIN: Duration = Duration::from_secs(40);

/// What is done to a file, of which so many bytes were written.
type Damage = fn(&mut [u8]);

fn flip(bytes: &mut [u8], per_mille: usize) {
    let at = bytes.len() * per_mille / 1000;
    bytes[at] ^= 1;
}

/// The files that hold messages.
fn blocks(data: &Path) -> Vec<PathBuf> {
    let messages = data.join("nats/store/jetstream/$G/streams/COPPICE_local/msgs");
    let entries = fs::read_dir(messages).expect("readable");
    let all = entries.map(|entry| entry.expect("readable").path());
    all.filter(|path| path.extension().is_some_and(|end| end == "blk"))
        .collect()
}

fn hashes(store: &Store) -> Vec<Digest> {
    let all = store.log().commits_from(1);
    all.map(|commit| commit.expect("readable").hash).collect()
}

/// Damages the files, kills nats-server so that it has to read them, and goes on.
async fn check(what: &str, damage: Damage) {
    let place = tempfile::tempdir().expect("a directory");
    let data = place.path();
    let store = open(data).await;
    let mut chain = Chain::new("r1");
    for _ in 0..COMMITS {
        admit(&store, &chain.step()).await;
    }
    let recorded = hashes(&store);
    let pid = store.nats_server_pid().await.expect("it runs");
    for path in blocks(data) {
        let mut bytes = fs::read(&path).expect("readable");
        damage(&mut bytes);
        fs::write(&path, bytes).expect("written");
    }
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()), "{what}");
    let from = clock::mono();
    for _ in 0..5 {
        let next = chain.step();
        let admitted = tokio::time::timeout(FLOWS_AGAIN, admit(&store, &next)).await;
        assert!(
            admitted.is_ok(),
            "{what}: commits do not flow again: {:?}",
            store.status()
        );
    }
    println!("{what}: commits flow again after {:?}", from.elapsed());
    assert_eq!(hashes(&store)[..recorded.len()], recorded, "{what}");
    let found = verify::log(store.log()).expect("readable");
    assert_eq!(
        (found.commits, found.faults),
        (COMMITS + 5, vec![]),
        "{what}"
    );
    store.close().await;
    drop(store);

    // What is missing from the middle is named; a stream that is made anew has everything.
    let store = open(data).await;
    while store.log().lost().expect("readable") > 0 {
        tokio::task::yield_now().await;
    }
    let seen = store.verify_stream().await.expect("readable");
    println!(
        "{what}: {} of the log are not in the stream",
        seen.faults.len()
    );
    store.close().await;
    drop(store);
    fs::remove_dir_all(data.join("nats/store")).expect("removed");
    let store = open(data).await;
    while store.log().lost().expect("readable") > 0 {
        tokio::task::yield_now().await;
    }
    let seen = store.verify_stream().await.expect("readable");
    assert_eq!(
        (seen.commits, seen.whole, seen.faults),
        (COMMITS + 5, true, vec![]),
        "{what}"
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_flow_again_after_the_file_of_the_stream_was_damaged_under_a_living_host() {
    let mut damages: Vec<(&str, Damage)> = vec![
        ("the end zeroed", |bytes| {
            let from = bytes.len() * 3 / 4;
            bytes[from..].fill(0);
        }),
        ("all zeroed", |bytes| bytes.fill(0)),
    ];
    if std::env::var_os("COPPICE_LONG").is_some() {
        // Each takes until the stream is given up and made anew.
        damages.extend([
            (
                "a bit of the first message",
                (|bytes| flip(bytes, 5)) as Damage,
            ),
            ("a bit at 1/10", |bytes| flip(bytes, 100)),
            ("a bit at 1/2", |bytes| flip(bytes, 500)),
            ("a bit at 9/10", |bytes| flip(bytes, 900)),
            ("a bit of the last message", |bytes| flip(bytes, 995)),
        ]);
    }
    for (what, damage) in damages {
        check(what, damage).await;
    }
}
