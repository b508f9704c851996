//! One row a run: what lists show without folding a chain.

use coppice_messages::{
    Event, ParentRef,
    event::run,
    ids::{RunId, TenantId},
};
use coppice_store::{
    Log, LogReader,
    log::{RowFilter, RowState},
    verify::{self, Damage},
};
use fjall::{Database, KeyspaceCreateOptions};

use crate::support::{Chain, admit, golden, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_a_row_from_its_opening_which_says_how_it_ended() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let rows = |filter: RowFilter| -> Vec<RunId> {
        store
            .log()
            .rows(filter)
            .map(|row| row.expect("readable").run)
            .collect()
    };
    let in_state = |state| RowFilter {
        state: Some(state),
        ..RowFilter::default()
    };
    let mut one = Chain::new("r1");
    let mut two = Chain::new("r2");
    for chain in [&mut one, &mut two] {
        admit(&store, &chain.commit(vec![golden("run.opened")])).await;
    }
    let last = one.commit(vec![golden("run.ended")]);
    admit(&store, &last).await;

    let row = store
        .log()
        .row(&TenantId::default_tenant(), &one.run)
        .expect("readable")
        .expect("there");
    let (Event::Run(run::Event::Opened(opened)), Event::Run(run::Event::Ended(how))) =
        (golden("run.opened"), golden("run.ended"))
    else {
        panic!("the examples are of other kinds");
    };
    assert_eq!((row.path, row.labels), (opened.path, opened.labels));
    assert_eq!((row.tree, row.parent), (one.tree.clone(), None));
    assert_eq!(row.opened_at, last.at);
    let end = row.ended.expect("it ended");
    assert_eq!(
        (end.reason, end.class, end.at),
        (how.reason, how.class, last.at)
    );

    assert_eq!(
        rows(RowFilter::default()),
        [one.run.clone(), two.run.clone()]
    );
    assert_eq!(rows(in_state(RowState::Open)), [two.run.clone()]);
    assert_eq!(rows(in_state(RowState::Ended)), [one.run.clone()]);
    let of_tree = RowFilter {
        tree: Some(two.tree.clone()),
        ..RowFilter::default()
    };
    assert_eq!(rows(of_tree), [two.run.clone()]);
    let of_other = RowFilter {
        tenant: Some("other".parse().expect("a tenant")),
        ..RowFilter::default()
    };
    assert_eq!(rows(of_other), []);
    store.close().await;
}

/// What each filter takes: everything, those of the tree r2, those that have not ended, the unfinished of the tree r1.
fn by_filter(log: &LogReader) -> [Vec<String>; 4] {
    let tenant = Some(TenantId::default_tenant());
    let tree = |run: &str| Some(Chain::new(run).tree);
    let open = Some(RowState::Open);
    let filter = |tree, state| RowFilter {
        tenant: tenant.clone(),
        tree,
        state,
    };
    [
        filter(None, None),
        filter(tree("r2"), None),
        filter(None, open),
        filter(tree("r1"), open),
    ]
    .map(|filter| {
        log.rows(filter)
            .map(|row| row.expect("readable").run.to_string())
            .collect()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_tree_and_unfinished_runs_are_found_also_in_a_log_that_did_not_list_them() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    // Of the tree r1 the root has ended; r2 has a run of its own below it, whose id comes after it.
    let mut ended = Chain::new("r1");
    admit(&store, &ended.commit(vec![golden("run.opened")])).await;
    admit(&store, &ended.commit(vec![golden("run.ended")])).await;
    let mut parent = Chain::new("r2");
    let delegating = vec![golden("run.opened"), golden("child.delegated")];
    admit(&store, &parent.commit(delegating)).await;
    let mut child = Chain::new("r3");
    child.tree = parent.tree.clone();
    let mut first = child.commit(vec![golden("run.opened")]);
    first.parent = Some(ParentRef {
        run: parent.run.clone(),
        seq: 2,
        commit: parent.prev,
    });
    admit(&store, &first).await;
    let expected: [&[&str]; 4] = [&["r1", "r2", "r3"], &["r2", "r3"], &["r2", "r3"], &[]];
    assert_eq!(by_filter(store.log()), expected);
    store.close().await;
    drop(store);

    let db = Database::builder(data.path().join("log"))
        .open()
        .expect("opens");
    let table = |name| db.keyspace(name, KeyspaceCreateOptions::default);
    let (trees, unfinished) = (
        table("trees").expect("opens"),
        table("open").expect("opens"),
    );
    for list in [&trees, &unfinished] {
        for entry in list.iter() {
            list.remove(entry.key().expect("readable"))
                .expect("removed");
        }
    }
    let facts = table("meta").expect("opens");
    facts.remove("runs_listed").expect("removed");
    drop((facts, trees, unfinished, db));
    let log = Log::open(data.path()).expect("opens");
    assert_eq!(by_filter(&log.reader()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_run_that_no_list_has_is_found_by_verification() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    for run in ["r1", "r2"] {
        admit(&store, &Chain::new(run).commit(vec![golden("run.opened")])).await;
    }
    store.close().await;
    drop(store);
    {
        let db = Database::builder(data.path().join("log"))
            .open()
            .expect("opens");
        let open = db
            .keyspace("open", KeyspaceCreateOptions::default)
            .expect("opens");
        open.remove(b"default\0r2\0").expect("removed");
    }
    let log = Log::open(data.path()).expect("opens");
    let found = verify::log(&log.reader()).expect("readable").faults;
    let found: Vec<_> = found.into_iter().map(|f| (f.run, f.damage)).collect();
    assert_eq!(found, [(Some(Chain::new("r2").run), Damage::NotListed)]);
}
