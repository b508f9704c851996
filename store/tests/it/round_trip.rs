//! Whatever set of trees leaves a log in an archive, is trimmed and comes back: every tree is what it was, with the same bytes.

use std::path::Path;

use coppice_messages::{Digest, ids::TenantId};
use coppice_store::{
    Log, LogReader, Store,
    archive::Selection,
    log::{Row, RowFilter},
    trim, verify,
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::{
    archive::{chain, export, import, opened},
    support::{Chain, admit, golden, open},
};

/// One tree of the log, and whether it is to go.
#[derive(Debug, Clone)]
struct Tree {
    other_tenant: bool,
    steps: usize,
    /// Which document its release names; trees may share one.
    document: u8,
    goes: bool,
}

fn trees() -> impl Strategy<Value = Vec<Tree>> {
    let tree = (any::<bool>(), 0..5_usize, 0..3_u8, any::<bool>()).prop_map(
        |(other_tenant, steps, document, goes)| Tree {
            other_tenant,
            steps,
            document,
            goes,
        },
    );
    prop::collection::vec(tree, 1..7)
}

/// Records the trees, interleaved, each to its end.
async fn recorded(data: &Path, trees: &[Tree]) -> Vec<Chain> {
    let store = open(data).await;
    let mut chains = Vec::new();
    for (nth, tree) in trees.iter().enumerate() {
        let mut chain = Chain::new(&format!("t{nth}"));
        if tree.other_tenant {
            chain.tenant = "other".parse().expect("a tenant");
        }
        let release = release(&store, &chain.tenant, tree.document).await;
        admit(&store, &chain.commit(vec![opened(release)])).await;
        chains.push(chain);
    }
    for step in 0..5 {
        for (chain, tree) in chains.iter_mut().zip(trees) {
            if step < tree.steps {
                admit(&store, &chain.step()).await;
            }
        }
    }
    for chain in &mut chains {
        admit(&store, &chain.commit(vec![golden("run.ended")])).await;
    }
    store.close().await;
    chains
}

async fn release(store: &Store, tenant: &TenantId, document: u8) -> Digest {
    let bytes = vec![document; 70_000];
    let document = store.put_blob(tenant.clone(), bytes).await.expect("stored");
    let manifest = format!("{{\"contract\": \"{document}\"}}").into_bytes();
    let stored = store.put_blob(tenant.clone(), manifest).await;
    stored.expect("stored")
}

/// The commits of a run, and its row.
type Said = (Vec<(u64, Digest)>, Option<Row>);

/// All that a log says of the trees, but for positions.
fn said(log: &LogReader, chains: &[Chain]) -> Vec<Said> {
    let of = |of: &Chain| {
        let row = log.row(&of.tenant, &of.run).expect("readable");
        (chain(log, of), row)
    };
    chains.iter().map(of).collect()
}

async fn check(trees: Vec<Tree>) {
    let place = tempfile::tempdir().expect("a place");
    let data = place.path();
    let chains = recorded(data, &trees).await;
    let goes: Vec<&Chain> = chains
        .iter()
        .zip(&trees)
        .filter_map(|(chain, tree)| tree.goes.then_some(chain))
        .collect();
    if goes.is_empty() {
        return;
    }
    let (archive, before, pos) = {
        let reader = Log::open(data).expect("opens").reader();
        let selection = Selection {
            trees: goes.iter().map(|chain| chain.tree.clone()).collect(),
            ..Selection::default()
        };
        let pos = reader.position().expect("readable");
        (export(&reader, &selection), said(&reader, &chains), pos)
    };
    let now = coppice_messages::Timestamp(1_800_000_000_000_000);
    let gone: Vec<_> = goes
        .iter()
        .map(|chain| (chain.tenant.clone(), chain.tree.clone()))
        .collect();
    trim::trim(data, &gone, (pos, now), |_| true).expect("trimmed");
    {
        let left = Log::open(data).expect("opens").reader();
        let rows = left.rows(RowFilter::default()).count();
        assert_eq!(rows, chains.len() - goes.len());
    }
    import(data, &archive).await.expect("imported");
    let store = open(data).await;
    assert_eq!(said(store.log(), &chains), before);
    let found = verify::log(store.log()).expect("readable");
    assert_eq!(found.faults, []);
    while store.log().lost().expect("readable") > 0 {
        tokio::task::yield_now().await;
    }
    let seen = store.verify_stream().await.expect("readable");
    assert_eq!((seen.whole, seen.faults), (true, vec![]));
    store.close().await;
}

#[test]
fn any_set_of_trees_that_is_exported_trimmed_and_imported_is_what_it_was() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let cases = if std::env::var_os("COPPICE_LONG").is_some() {
        60
    } else {
        6
    };
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        // Each case starts nats-server three times.
        max_shrink_iters: 20,
        ..Config::default()
    });
    let held = runner.run(&trees(), |trees| {
        runtime.block_on(check(trees));
        Ok(())
    });
    held.expect("it holds for each");
}
