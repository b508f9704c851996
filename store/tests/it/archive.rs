//! Trees leave one log in an archive and come into another with the same bytes; an archive that is not whole brings nothing.

use std::path::Path;

use coppice_messages::{
    Commit, Digest, Event,
    event::run,
    ids::{RunId, TenantId, TreeId},
};
use coppice_store::{
    Log, LogReader, Store,
    archive::{self, Encoder, Header, PlanError, ReadArchiveError, Reader, Selection, TreeRecords},
    log::RowFilter,
    verify,
};

use crate::support::{Chain, admit, golden, open};

/// An opening under a release.
pub fn opened(release: Digest) -> Event {
    let Event::Run(run::Event::Opened(mut opened)) = golden("run.opened") else {
        panic!("the example is of another kind");
    };
    opened.release = release;
    Event::Run(run::Event::Opened(opened))
}

/// Three trees of two tenants, interleaved: two have ended, one has not. The first two share a release, whose manifest names a document.
pub async fn forest(store: &Store) -> Vec<Chain> {
    let other: TenantId = "other".parse().expect("a tenant");
    let mut chains = vec![Chain::new("t1"), Chain::new("t2"), Chain::new("t3")];
    chains[2].tenant = other;
    for (nth, chain) in chains.iter_mut().enumerate() {
        let tenant = chain.tenant.clone();
        let document = store.put_blob(tenant.clone(), vec![7; 300_000]).await;
        let document = document.expect("stored");
        let manifest = format!("{{\"contract\": \"{document}\"}}").into_bytes();
        let release = store
            .put_blob(tenant.clone(), manifest)
            .await
            .expect("stored");
        let unused = format!("nobody cites this of {nth}").into_bytes();
        store.put_blob(tenant, unused).await.expect("stored");
        admit(store, &chain.commit(vec![opened(release)])).await;
    }
    for _ in 0..3 {
        for chain in &mut chains {
            admit(store, &chain.step()).await;
        }
    }
    for chain in &mut chains[..2] {
        admit(store, &chain.commit(vec![golden("run.ended")])).await;
    }
    chains
}

/// An archive of these trees.
pub fn export(log: &LogReader, selection: &Selection) -> Vec<u8> {
    let chosen = archive::choose(log, selection).expect("they are there");
    let pos = log.position().expect("readable");
    let header = Header {
        v: archive::FORMAT,
        at: coppice_messages::Timestamp(0),
        pos,
        trees: Some(chosen.len() as u64),
    };
    Encoder::new(header, TreeRecords::new(log.clone(), chosen, pos))
        .map(|frame| frame.expect("readable"))
        .collect::<Vec<_>>()
        .concat()
}

/// Hashes of a run's commits, in order.
pub fn chain(log: &LogReader, of: &Chain) -> Vec<(u64, Digest)> {
    log.chain(&of.tenant, &of.run)
        .map(|commit| commit.expect("readable"))
        .map(|commit| (commit.seq, Digest::of(&commit.bytes)))
        .collect()
}

/// Looks at an archive and imports it as the command does.
pub async fn import(data: &Path, bytes: &[u8]) -> Result<archive::Plan, PlanError> {
    let plan = {
        let log = Log::open(data).ok();
        let reader = log.as_ref().map(Log::reader);
        archive::plan(&mut Reader::open(bytes)?, reader.as_ref(), |_| {})?
    };
    let store = open(data).await;
    let done = archive::import(|| Reader::open(bytes), &store, |_| {}).await;
    store.close().await;
    assert_eq!(done.expect("imported").commits, plan.commits);
    Ok(plan)
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_come_into_an_empty_log_with_the_same_bytes_and_all_that_they_cite() {
    let (from, to) = (
        tempfile::tempdir().expect("a place"),
        tempfile::tempdir().expect("a place"),
    );
    let store = open(from.path()).await;
    let trees = forest(&store).await;
    let bytes = export(store.log(), &Selection::default());
    let plan = import(to.path(), &bytes).await.expect("imported");
    assert_eq!((plan.trees, plan.commits, plan.new_commits), (3, 14, 14));
    assert_eq!(
        plan.open,
        [(trees[2].tenant.clone(), trees[2].tree.clone())]
    );
    // Two tenants, a manifest and a document each; what nobody cites stays behind.
    assert_eq!(plan.blobs, 4);

    let copy = open(to.path()).await;
    for tree in &trees {
        assert_eq!(chain(copy.log(), tree), chain(store.log(), tree));
    }
    let rows = |log: &LogReader| -> Vec<_> {
        log.rows(RowFilter::default())
            .map(|row| row.expect("readable"))
            .collect()
    };
    assert_eq!(rows(copy.log()), rows(store.log()));
    let found = verify::log(copy.log()).expect("readable");
    assert_eq!((found.commits, found.blobs, found.faults), (14, 4, vec![]));
    let seen = copy.verify_stream().await.expect("readable");
    assert_eq!((seen.commits, seen.whole, seen.faults), (14, true, vec![]));
    assert_eq!(export(copy.log(), &Selection::default()).len(), bytes.len());
    copy.close().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_trees_that_are_asked_for_are_exported() {
    let data = tempfile::tempdir().expect("a place");
    let store = open(data.path()).await;
    let trees = forest(&store).await;
    let trees_of = |selection: &Selection| -> Vec<TreeId> {
        let chosen = archive::choose(store.log(), selection).expect("there");
        chosen.into_iter().map(|chosen| chosen.tree).collect()
    };
    let ended = Selection {
        ended_before: Some(coppice_messages::Timestamp(i64::MAX)),
        ..Selection::default()
    };
    assert_eq!(
        trees_of(&ended),
        [trees[0].tree.clone(), trees[1].tree.clone()]
    );
    let before = Selection {
        ended_before: Some(coppice_messages::Timestamp(1_700_000_000_000_000)),
        ..Selection::default()
    };
    assert_eq!(trees_of(&before), []);
    let of_other = Selection {
        tenant: Some(trees[2].tenant.clone()),
        ..Selection::default()
    };
    assert_eq!(trees_of(&of_other), [trees[2].tree.clone()]);
    let missing: RunId = "nowhere".parse().expect("a run");
    let named = Selection {
        trees: vec![trees[0].tree.clone(), TreeId::of_root(&missing)],
        ..Selection::default()
    };
    let refused = archive::choose(store.log(), &named).expect_err("one is not there");
    assert!(refused.to_string().contains("nowhere"), "{refused}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_done_twice_or_after_one_that_was_cut_off_adds_what_is_missing() {
    let (from, to) = (
        tempfile::tempdir().expect("a place"),
        tempfile::tempdir().expect("a place"),
    );
    let store = open(from.path()).await;
    let trees = forest(&store).await;
    let all = export(store.log(), &Selection::default());
    // As far as a cut off import may have come: some commits of one tree, none of the others.
    let first: Vec<_> = store
        .log()
        .chain(&trees[0].tenant, &trees[0].run)
        .take(2)
        .collect();
    let half = open(to.path()).await;
    for recorded in first {
        let bytes = recorded.expect("readable").bytes;
        admit(&half, &Commit::decode(&bytes).expect("a commit")).await;
    }
    half.close().await;
    drop(half);
    let plan = import(to.path(), &all).await.expect("it goes on");
    assert_eq!((plan.commits, plan.new_commits), (14, 12));
    let plan = import(to.path(), &all).await.expect("it changes nothing");
    assert_eq!((plan.commits, plan.new_commits), (14, 0));
    let copy = open(to.path()).await;
    for tree in &trees {
        assert_eq!(chain(copy.log(), tree), chain(store.log(), tree));
    }
    copy.close().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_which_the_log_has_another_history_is_refused_by_name_and_nothing_is_imported() {
    let (from, to) = (
        tempfile::tempdir().expect("a place"),
        tempfile::tempdir().expect("a place"),
    );
    let store = open(from.path()).await;
    forest(&store).await;
    let bytes = export(store.log(), &Selection::default());
    let other = open(to.path()).await;
    let mut twin = Chain::new("t2");
    admit(
        &other,
        &twin.commit(vec![golden("run.opened"), golden("run.ended")]),
    )
    .await;
    other.close().await;
    drop(other);
    let refused = import(to.path(), &bytes).await.expect_err("another t2");
    let PlanError::Conflict(conflict) = &refused else {
        panic!("{refused}");
    };
    assert_eq!((conflict.run.as_str(), conflict.seq), ("t2", 1));
    let log = Log::open(to.path()).expect("opens");
    assert_eq!(log.reader().position().expect("readable"), 1);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_was_altered_or_cut_off_anywhere_is_refused_whole() {
    let data = tempfile::tempdir().expect("a place");
    let store = open(data.path()).await;
    forest(&store).await;
    let bytes = export(store.log(), &Selection::default());
    store.close().await;
    let planned = |bytes: &[u8]| -> Result<archive::Plan, PlanError> {
        archive::plan(&mut Reader::open(bytes)?, None, |_| {})
    };
    assert!(planned(&bytes).is_ok());
    let step = bytes.len() / 97;
    for at in (0..bytes.len()).step_by(step) {
        let mut altered = bytes.clone();
        altered[at] ^= 0x10;
        assert!(planned(&altered).is_err(), "byte {at}");
        let cut = planned(&bytes[..at]).expect_err("cut off");
        let said = matches!(
            cut,
            PlanError::Archive(ReadArchiveError::NoArchive | ReadArchiveError::CutOff { .. })
        );
        assert!(said, "byte {at}: {cut}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_commit_is_not_exported_as_if_it_were_whole() {
    let data = tempfile::tempdir().expect("a place");
    let store = open(data.path()).await;
    let trees = forest(&store).await;
    store.close().await;
    drop(store);
    {
        let db = fjall::Database::builder(data.path().join("log"))
            .open()
            .expect("opens");
        let table = db
            .keyspace("commits", fjall::KeyspaceCreateOptions::default)
            .expect("opens");
        let key = [b"default\0t2\0", &2_u64.to_be_bytes()[..]].concat();
        let mut value = table.get(&key).expect("readable").expect("there").to_vec();
        let last = value.len() - 1;
        value[last] ^= 1;
        table.insert(key, value).expect("written");
    }
    let log = Log::open(data.path()).expect("opens");
    let reader = log.reader();
    let records = |trees: Vec<TreeId>| {
        let selection = Selection {
            trees,
            ..Selection::default()
        };
        let chosen = archive::choose(&reader, &selection).expect("there");
        TreeRecords::new(reader.clone(), chosen, u64::MAX).find_map(Result::err)
    };
    let refused = records(Vec::new()).expect("t2 is damaged").to_string();
    assert!(refused.contains("default/t2"), "{refused}");
    assert!(records(vec![trees[0].tree.clone()]).is_none());
}
