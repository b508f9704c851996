//! Data directories as each layout of them was written: a later build opens them, finds them whole, folds them to the same states and goes on
//! with what is unfinished.
//!
//! `actors/tests/golden/format-N/` has the log, its mark and its format, a backup and an export of it, and what they come to. When the layout
//! changes, raise `FORMAT` in `store/src/limits.rs` and run
//! `MAKE_GOLDEN=1 cargo nextest run -p coppice-actors golden -j 1`, which adds the directory of the new layout; the logs that are there stay as
//! they are. The hash over the states is one of this build's states: where their form changes on purpose and nothing else differs, it is
//! the one line to write anew in each `expected.json`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use coppice_actors::{
    api::{
        ApiClient, CopyOf, GetRequest, ListRequest, RunRow, SignalRequest, StartRequest,
        VerifyRequest,
    },
    host::{Host, HostOptions},
    inspect::Inspect,
};
use coppice_messages::{Digest, Value, ids::RunId};
use coppice_store::{
    Log,
    archive::{self, Pages, Reader, Selection},
    limits::FORMAT,
};
use serde::{Deserialize, Serialize};

use crate::{
    support::{Place, comparison, ended, guard, tenant},
    telling::waiting,
};

/// What a golden directory comes to.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Expected {
    pos: u64,
    chains: u64,
    events: u64,
    /// Each run: place, reason, epoch, events.
    runs: Vec<String>,
    /// Over the states of all runs of the tenant.
    state: Digest,
    /// The run that waits for a signal.
    waits: RunId,
}

const EXPECTED: &str = "expected.json";
const BACKUP: &str = "log.archive";
const EXPORT: &str = "trees.archive";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Every golden directory with what it comes to.
fn all() -> Vec<(PathBuf, Expected)> {
    let entries = fs::read_dir(golden()).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    let with = |path: PathBuf| {
        let text = fs::read(path.join(EXPECTED)).unwrap();
        let expected = serde_json::from_slice(&text).unwrap();
        (path, expected)
    };
    found.into_iter().map(with).collect()
}

/// Copies the parts of a data directory that are kept.
fn copy(from: &Path, to: &Path) {
    fn tree(from: &Path, to: &Path) -> io::Result<()> {
        if from.is_file() {
            return fs::copy(from, to).map(drop);
        }
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            tree(&entry.path(), &to.join(entry.file_name()))?;
        }
        Ok(())
    }
    for part in ["format", "log.mark", "log"] {
        tree(&from.join(part), &to.join(part)).unwrap();
    }
}

fn whole_of(mut pages: Pages) -> Vec<u8> {
    let page = pages.page(0, usize::MAX).unwrap().unwrap();
    assert!(page.end);
    page.bytes
}

fn seen(data: &Path, waits: &RunId) -> Expected {
    let log = Log::open(data).unwrap();
    let inspect = Inspect::new(log.reader());
    let report = inspect
        .verify(&tenant(), &VerifyRequest::default())
        .unwrap();
    assert_eq!(report.findings, []);
    let rows = inspect
        .list(&tenant(), &ListRequest::default())
        .unwrap()
        .runs;
    let said = |row: RunRow| {
        let request = GetRequest { run: row.run };
        let run = inspect.get(&tenant(), &request).unwrap();
        let reason = row
            .reason
            .map_or("open".to_owned(), |reason| reason.to_string());
        format!(
            "{} {reason}, epoch {}, {} events",
            row.path, run.epoch, run.events
        )
    };
    Expected {
        runs: rows.into_iter().map(said).collect(),
        pos: report.pos,
        chains: report.chains,
        events: report.events,
        state: report.state,
        waits: waits.clone(),
    }
}

/// Records the directory of the present layout, should there be none and should it be asked for.
async fn make() {
    let place = golden().join(format!("format-{FORMAT}"));
    if std::env::var_os("MAKE_GOLDEN").is_none() || place.exists() {
        return;
    }
    let recorded = Place::new().await;
    let faults = ["root@effect.landed(create_ticket):before=kill_actor"];
    let host = recorded.host(recorded.faulty(&faults)).await;
    let client = recorded.client().await;
    let done = client
        .start(&tenant(), &comparison("golden"))
        .await
        .unwrap();
    ended(&client, &done.run).await;
    let request: StartRequest = waiting("golden-waits");
    let waits = client.start(&tenant(), &request).await.unwrap();
    host.stop().await;
    fs::create_dir_all(&place).unwrap();
    copy(recorded.data.path(), &place);
    let expected = seen(recorded.data.path(), &waits.run);
    let log = Log::open(recorded.data.path()).unwrap();
    let inspect = Inspect::new(log.reader());
    let backup = inspect.archive(&CopyOf::Log).unwrap();
    fs::write(place.join(BACKUP), whole_of(backup)).unwrap();
    let export = inspect
        .archive(&CopyOf::Trees(Selection::default()))
        .unwrap();
    fs::write(place.join(EXPORT), whole_of(export)).unwrap();
    let expected = serde_json::to_string_pretty(&expected).unwrap();
    fs::write(place.join(EXPECTED), format!("{expected}\n")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_of_every_layout_opens_and_folds_to_the_states_that_were_recorded() {
    make().await;
    let mut formats = 0;
    for (path, expected) in all() {
        let data = tempfile::tempdir().unwrap();
        copy(&path, data.path());
        assert_eq!(
            seen(data.path(), &expected.waits),
            expected,
            "{}",
            path.display()
        );
        formats += 1;
    }
    assert_eq!(
        formats, FORMAT,
        "one golden directory a layout: see the head of this file"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_and_an_export_of_every_layout_are_read() {
    make().await;
    for (path, expected) in all() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("restored");
        let bytes = fs::read(path.join(BACKUP)).unwrap();
        let restored =
            archive::restore(|| Reader::open(&bytes[..]), &data, true, |_| Ok(()), |_| {}).unwrap();
        assert_eq!(restored.pos, expected.pos);
        assert_eq!(seen(&data, &expected.waits), expected, "{}", path.display());
        let bytes = fs::read(path.join(EXPORT)).unwrap();
        let plan = archive::plan(&mut Reader::open(&bytes[..]).unwrap(), None, |_| {}).unwrap();
        assert_eq!((plan.trees, plan.open.len()), (2, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_goes_on_with_the_unfinished_tree_of_every_layout() {
    make().await;
    for (path, expected) in all() {
        let place = Place::new().await;
        copy(&path, place.data.path());
        let mut options = HostOptions::new(place.data.path());
        options.endpoints = place.options().endpoints;
        let host = Host::start(options, guard()).await.unwrap();
        let client = ApiClient::of_data(place.data.path()).await.unwrap();
        let signal = SignalRequest {
            run: expected.waits.clone(),
            name: "go".to_owned(),
            id: "s-1".to_owned(),
            value: Value::map([("title", Value::from("Go"))]),
        };
        // Its time is over since long: whether the signal still counts depends on who comes first, that it ends does not.
        let _told = client.signal(&tenant(), &signal).await;
        let view = ended(&client, &expected.waits).await;
        assert!(view.ended.is_some(), "{}", path.display());
        let report = client.verify(&tenant(), &VerifyRequest::default()).await;
        assert_eq!(report.unwrap().findings, []);
        host.stop().await;
    }
}
