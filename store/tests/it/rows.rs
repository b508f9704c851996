//! One row a run: what lists show without folding a chain.

use std::path::Path;

use coppice_messages::{
    Commit, Event,
    event::run,
    ids::{RunId, TenantId},
};
use coppice_store::log::{RowFilter, RowState};

use crate::support::{Chain, admit, open};

/// An event of this kind, out of those that the vocabulary keeps as examples.
fn golden(kind: &str) -> Event {
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
