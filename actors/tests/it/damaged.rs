//! A commit whose bytes are not those that were recorded blocks its run alone: the host is up, says which run and why, and the others go on.

use std::{fs, path::Path};

use coppice_actors::api::{
    ApiClient, ClientError, Finding, Law, SignalRequest, StartRequest, VerifyRequest,
};
use coppice_messages::{Value, event::run::Reason, ids::RunId};
use fjall::{Database, KeyspaceCreateOptions};

use crate::{
    sleep::{paused, until_asleep},
    support::{Place, comparison, ended, release_of, tenant, whole},
};

/// What lies before a commit's own bytes in the log: its position and its hash.
const BESIDE: usize = 8 + 32;

/// Writes over the bytes of the last commit of a run, through the log's database.
fn alter_last_commit(data: &Path, run: &RunId, alter: impl FnOnce(&mut [u8])) {
    let db = Database::builder(data.join("log")).open().unwrap();
    let commits = db
        .keyspace("commits", KeyspaceCreateOptions::default)
        .unwrap();
    let chain = [tenant().as_str(), run.as_str(), ""].join("\0");
    let last = commits.prefix(chain).next_back().unwrap();
    let (key, value) = last.into_inner().unwrap();
    let mut value = value.to_vec();
    alter(&mut value[BESIDE..]);
    commits.insert(key, value).unwrap();
}

/// What the host says of its blocked runs, once it says anything.
async fn degraded(client: &ApiClient) -> Vec<String> {
    loop {
        let degraded = client.status().await.unwrap().degraded;
        if !degraded.is_empty() {
            return degraded;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_trees_the_one_with_an_altered_commit_is_blocked_and_the_others_go_on() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let mut trees = Vec::new();
    for nth in 0..50 {
        let request = paused(&format!("tree-{nth}"), "4s");
        trees.push(client.start(&tenant(), &request).await.unwrap());
    }
    host.stop().await;
    let damaged = trees.pop().unwrap();
    alter_last_commit(place.data.path(), &damaged.run, |bytes| {
        *bytes.last_mut().unwrap() ^= 1;
    });

    let host = place.host(place.options()).await;
    let client = place.client().await;
    for tree in &trees {
        let end = ended(&client, &tree.run).await.ended.unwrap();
        assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    }
    assert_eq!(place.world.tickets(), 49);
    let said = degraded(&client).await;
    assert!(
        said.len() == 1
            && said[0].contains(damaged.run.as_str())
            && said[0].contains("was altered after it was recorded"),
        "{said:?}"
    );
    let report = client.verify(&tenant(), &VerifyRequest::default()).await;
    let found = report.unwrap().findings;
    let of_it = |what: &str| what.contains(damaged.run.as_str());
    assert!(
        found.iter().any(|f| f.law == Law::Chain && of_it(&f.what)),
        "{found:?}"
    );
    let others = |f: &Finding| f.run.as_ref() != Some(&damaged.run) && !of_it(&f.what);
    assert!(!found.iter().any(others), "{found:?}");
    host.stop().await;
}

/// A tree that files its ticket when it is told to go on.
fn waiting(key: &str) -> StartRequest {
    let yaml = "
topology: waiting
version: 1
contract: default
input: { type: object, required: [request_id], properties: { request_id: { type: string } } }
nodes:
  go: { wait: { signal: { name: go } } }
  done: { after: [go], end: { reason: failed } }
";
    let input = Value::map([("request_id", Value::Text(format!("r-{key}")))]);
    StartRequest::new(key.parse().unwrap(), &release_of(yaml), input, "user:test").unwrap()
}

async fn go(client: &ApiClient, run: &RunId) -> Result<(), ClientError> {
    let request = SignalRequest {
        run: run.clone(),
        name: "go".to_owned(),
        value: Value::Null,
        id: "once".to_owned(),
    };
    client.signal(&tenant(), &request).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_run_whose_last_commit_is_unreadable_keeps_no_host_from_starting() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let mut trees = Vec::new();
    for key in ["one", "two", "three"] {
        trees.push(client.start(&tenant(), &waiting(key)).await.unwrap());
    }
    until_asleep(&client, 3).await;
    host.stop().await;
    let damaged = trees.pop().unwrap();
    alter_last_commit(place.data.path(), &damaged.run, |bytes| bytes.fill(0xff));

    let host = place.host(place.options()).await;
    let client = place.client().await;
    go(&client, &damaged.run).await.unwrap_err();
    for tree in &trees {
        go(&client, &tree.run).await.unwrap();
        let end = ended(&client, &tree.run).await.ended.unwrap();
        assert_eq!(end.reason, Reason::Failed, "{}", end.message);
    }
    let said = degraded(&client).await;
    assert!(
        said.len() == 1 && said[0].contains(damaged.run.as_str()),
        "{said:?}"
    );
    host.stop().await;
}

/// Moves what is in the journal into table files, and flips one bit in the first block of those that hold blobs.
fn damage_a_block_of_blobs(data: &Path) {
    let blobs = {
        let db = Database::builder(data.join("log")).open().unwrap();
        let blobs = db
            .keyspace("blobs", KeyspaceCreateOptions::default)
            .unwrap();
        blobs.rotate_memtable_and_wait().unwrap();
        blobs.path().join("tables")
    };
    for table in fs::read_dir(blobs).unwrap() {
        let path = table.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_meets_a_damaged_block_ends_and_says_so_and_the_next_one_has_everything_again()
{
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let before = client.start(&tenant(), &comparison("one")).await.unwrap();
    ended(&client, &before.run).await;
    host.stop().await;
    damage_a_block_of_blobs(place.data.path());

    let host = place.host(place.options()).await;
    let client = place.client().await;
    let refused = client.start(&tenant(), &comparison("two")).await;
    let refused = refused
        .expect_err("its documents cannot be read")
        .to_string();
    assert!(!refused.contains("not there"), "{refused}");
    let fatal = host.fatal().await.to_string();
    assert!(fatal.contains("start again"), "{fatal}");
    host.stop().await;

    let host = place.host(place.options()).await;
    let client = place.client().await;
    let report = client.verify(&tenant(), &VerifyRequest::default()).await;
    assert_eq!(report.unwrap().findings, []);
    whole(&client, &before).await;
    let after = client.start(&tenant(), &comparison("two")).await.unwrap();
    let end = ended(&client, &after.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    host.stop().await;
}
