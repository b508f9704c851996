//! The process is killed while it writes much, again and again on one directory: what was acknowledged is there, and writing never stalls.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use coppice_store::{Store, clock, verify};

use crate::support::{Chain, host_program, open, submit};

/// How often it is killed, in the usual run of the tests and in the long one.
fn kills() -> u64 {
    if std::env::var_os("COPPICE_LONG").is_some() {
        200
    } else {
        8
    }
}

/// Runs a process that records without end, kills it behind so many words of it, and returns the last position that it acknowledged.
fn killed_while_busy(data: &Path, words: usize) -> u64 {
    let mut host = Command::new(host_program())
        .arg(data)
        .arg("busy")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the host starts");
    let said = BufReader::new(host.stdout.take().expect("piped")).lines();
    let said: Vec<String> = said.map_while(Result::ok).take(words).collect();
    host.kill().expect("killed");
    host.wait().expect("gone");
    assert_eq!(
        said.len(),
        words,
        "it went on until it was killed: {said:?}"
    );
    let position = |line: &String| line.split(' ').next()?.parse().ok();
    said.iter().filter_map(position).max().expect("a position")
}

/// Ten thousand commits on a hundred chains.
async fn ten_thousand(store: &Store) {
    let mut chains: Vec<Chain> = (0..100).map(|n| Chain::new(&format!("r{n}"))).collect();
    for _ in 0..100 {
        let told: Vec<_> = chains
            .iter_mut()
            .map(|chain| submit(store, &chain.step()))
            .collect();
        for verdict in told {
            verdict.await.expect("a waiter is told");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writing_goes_on_after_any_number_of_kills_and_nothing_acknowledged_is_missing() {
    let data = tempfile::tempdir().expect("a directory");
    let (mut acknowledged, mut longest) = (0, Duration::ZERO);
    for nth in 0..kills() {
        let from = clock::mono();
        // A different moment each time, from the first word to some memtables later.
        let words = 1 + usize::try_from(nth * 37 % 400).expect("small");
        let reached = killed_while_busy(data.path(), words);
        longest = longest.max(from.elapsed());
        assert!(reached > acknowledged, "{reached} behind {acknowledged}");
        acknowledged = reached;
    }
    let store = open(data.path()).await;
    assert!(store.status().pos >= acknowledged);
    let written = tokio::time::timeout(Duration::from_secs(60), ten_thousand(&store)).await;
    assert!(written.is_ok(), "writing stalls");
    assert!(store.status().pos >= acknowledged + 10_000);
    let log = verify::log(store.log()).expect("readable");
    assert_eq!(log.faults, Vec::new());
    store.close().await;
    println!("{acknowledged} acknowledged; the longest life took {longest:?}");
}
