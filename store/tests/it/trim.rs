//! Trees are taken out of a log whole, and whatever moment a crash chooses, what stays is whole and the stream does not bring them back.

use std::{fs, path::Path};

use coppice_messages::{Digest, Timestamp, ids::TenantId};
use coppice_store::{
    Log, LogReader, Store,
    archive::{self, Selection},
    log::RowFilter,
    trim::{self, Report, Step, TrimError},
    verify,
};

use crate::{
    archive::{export, forest},
    support::{Chain, admit, open},
};

const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

/// Takes trees out, as far as `until`; all the way without.
fn trim(data: &Path, trees: &[&Chain], until: Option<Step>) -> Result<Report, TrimError> {
    let pos = Log::open(data)
        .expect("opens")
        .reader()
        .position()
        .expect("readable");
    let trees: Vec<_> = trees
        .iter()
        .map(|tree| (tree.tenant.clone(), tree.tree.clone()))
        .collect();
    trim::trim(data, &trees, (pos, NOW), |step| Some(step) != until)
}

fn runs(log: &LogReader) -> Vec<String> {
    log.rows(RowFilter::default())
        .map(|row| row.expect("readable").run.to_string())
        .collect()
}

fn positions(log: &LogReader) -> Vec<u64> {
    log.commits_from(1)
        .map(|commit| commit.expect("readable").pos)
        .collect()
}

/// Opens the store and waits until the stream has everything again; both are whole.
async fn opened_whole(data: &Path) -> Store {
    let store = open(data).await;
    while store.log().lost().expect("readable") > 0 {
        tokio::task::yield_now().await;
    }
    let seen = store.verify_stream().await.expect("readable");
    assert_eq!((seen.whole, seen.faults), (true, vec![]));
    assert_eq!(verify::log(store.log()).expect("readable").faults, []);
    store
}

/// A data directory with three trees, of which t1 and t2 have ended.
async fn recorded(data: &Path) -> Vec<Chain> {
    let store = open(data).await;
    let trees = forest(&store).await;
    store.close().await;
    trees
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_goes_whole_and_what_others_cite_stays() {
    let data = tempfile::tempdir().expect("a place");
    let mut trees = recorded(data.path()).await;
    let report = trim(data.path(), &[&trees[0]], None).expect("trimmed");
    // Its five commits, and three blobs that nothing mentions; its release is the one of t2, too.
    assert_eq!(
        report,
        Report {
            commits: 5,
            blobs: 3
        }
    );
    let store = opened_whole(data.path()).await;
    assert_eq!(runs(store.log()), ["t2", "t3"]);
    assert_eq!(positions(store.log()), [2, 3, 5, 6, 8, 9, 11, 12, 14]);
    let document = Digest::of(&[7; 300_000]);
    let tenant = TenantId::default_tenant();
    assert!(
        store
            .log()
            .blob(&tenant, &document)
            .expect("readable")
            .is_some()
    );
    let tombstone = store
        .log()
        .tombstone(&tenant, &trees[0].run)
        .expect("readable")
        .expect("there");
    assert_eq!(tombstone.trimmed, NOW);
    assert_eq!(admit(&store, &trees[2].step()).await, 15);
    store.close().await;
    drop(store);

    let report = trim(data.path(), &[&trees[1]], None).expect("trimmed");
    assert_eq!(
        report,
        Report {
            commits: 5,
            blobs: 2
        }
    );
    let store = opened_whole(data.path()).await;
    assert_eq!(runs(store.log()), ["t3"]);
    for tree in &trees[..2] {
        let tombstone = store.log().tombstone(&tenant, &tree.run).expect("readable");
        assert!(tombstone.is_some());
    }
    assert_eq!(admit(&store, &trees[2].step()).await, 16);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_last_commits_were_taken_out_gives_no_position_twice() {
    let data = tempfile::tempdir().expect("a place");
    let mut trees = recorded(data.path()).await;
    trim(data.path(), &[&trees[0], &trees[1]], None).expect("trimmed");
    let store = opened_whole(data.path()).await;
    assert_eq!(positions(store.log()), [3, 6, 9, 12]);
    assert_eq!(store.log().position().expect("readable"), 14);
    assert_eq!(admit(&store, &trees[2].step()).await, 15);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trim_that_dies_after_any_step_leaves_a_whole_log_and_is_finished_by_the_next() {
    for step in [Step::Written, Step::StreamGone, Step::Swapped, Step::Marked] {
        let data = tempfile::tempdir().expect("a place");
        let trees = recorded(data.path()).await;
        let died = trim(data.path(), &[&trees[0]], Some(step));
        assert!(matches!(died, Err(TrimError::Stopped)), "{step:?}");
        let store = opened_whole(data.path()).await;
        let gone = step >= Step::Swapped;
        let left = if gone {
            vec!["t2", "t3"]
        } else {
            vec!["t1", "t2", "t3"]
        };
        assert_eq!(runs(store.log()), left, "{step:?}");
        store.close().await;
        drop(store);
        let report = trim(data.path(), &[&trees[0]], None).expect("finished");
        assert_eq!(report.commits, if gone { 0 } else { 5 });
        let store = opened_whole(data.path()).await;
        assert_eq!(runs(store.log()), ["t2", "t3"], "{step:?}");
        assert!(!data.path().join("log.trimming").exists());
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trimmed_log_that_is_lost_is_read_again_from_the_stream_without_its_trimmed_trees() {
    let data = tempfile::tempdir().expect("a place");
    let trees = recorded(data.path()).await;
    trim(data.path(), &[&trees[0]], None).expect("trimmed");
    opened_whole(data.path()).await.close().await;
    fs::remove_dir_all(data.path().join("log")).expect("removed");
    let store = opened_whole(data.path()).await;
    assert_eq!(runs(store.log()), ["t2", "t3"]);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_still_a_loss_after_a_trim() {
    let data = tempfile::tempdir().expect("a place");
    let trees = recorded(data.path()).await;
    trim(data.path(), &[&trees[0]], None).expect("trimmed");
    {
        let db = fjall::Database::builder(data.path().join("log"))
            .open()
            .expect("opens");
        let table = db
            .keyspace("positions", fjall::KeyspaceCreateOptions::default)
            .expect("opens");
        table.remove(5_u64.to_be_bytes()).expect("removed");
    }
    let log = Log::open(data.path()).expect("opens");
    let faults = verify::log(&log.reader()).expect("readable").faults;
    let named: Vec<_> = faults.iter().map(|fault| fault.pos).collect();
    assert_eq!(named, [Some(5)], "{faults:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_went_on_since_the_trees_were_chosen_is_left_as_it_is() {
    let data = tempfile::tempdir().expect("a place");
    let trees = recorded(data.path()).await;
    let chosen = [(trees[0].tenant.clone(), trees[0].tree.clone())];
    let refused = trim::trim(data.path(), &chosen, (13, NOW), |_| true);
    assert!(matches!(
        refused,
        Err(TrimError::WentOn {
            expected: 13,
            found: 14
        })
    ));
    let log = Log::open(data.path()).expect("opens");
    assert_eq!(runs(&log.reader()), ["t1", "t2", "t3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trimmed_log_is_backed_up_and_its_export_brings_the_tree_back() {
    let place = tempfile::tempdir().expect("a place");
    let data = place.path().join("one");
    let trees = recorded(&data).await;
    let log = Log::open(&data).expect("opens");
    let selection = Selection {
        trees: vec![trees[0].tree.clone()],
        ..Selection::default()
    };
    let exported = export(&log.reader(), &selection);
    drop(log);
    trim(&data, &[&trees[0]], None).expect("trimmed");
    let log = Log::open(&data).expect("opens");
    let backup = crate::backup::backup(&log.reader());
    drop(log);
    let again = place.path().join("two");
    assert_eq!(
        crate::backup::restore(&backup, &again)
            .expect("restored")
            .pos,
        14
    );
    let store = opened_whole(&again).await;
    assert_eq!(runs(store.log()), ["t2", "t3"]);
    let read = || archive::Reader::open(&exported[..]);
    let done = archive::import(read, &store, |_| {})
        .await
        .expect("imported");
    assert_eq!(done.commits, 5);
    assert_eq!(runs(store.log()), ["t1", "t2", "t3"]);
    assert_eq!(verify::log(store.log()).expect("readable").faults, []);
    store.close().await;
}
