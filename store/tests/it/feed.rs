//! Every recorded event, live, after it was fsynced.

use coppice_messages::ids::HostId;
use coppice_store::{Endpoint, Role};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::{
    roles::{connect, subscribe},
    support::{Chain, admit, hash, open, step_event},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_sees_each_event_as_json_after_it_was_recorded() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let endpoint: Endpoint = store.endpoint(Role::Watcher).await;
    let (watcher, mut errors) = connect(&endpoint).await;
    let mut events = subscribe(&watcher, &mut errors, "coppice.v1.local.event.default.>").await;
    let mut chain = Chain::new("r1");
    let commit = chain.commit(vec![step_event(), step_event()]);
    let pos = admit(&store, &commit).await;
    for seq in [1, 2] {
        let message = events.next().await.expect("an event");
        assert_eq!(
            message.subject.as_str(),
            "coppice.v1.local.event.default.r1.r1.node.started"
        );
        let recorded = store
            .log()
            .commit_at(&chain.tenant, &chain.run, seq)
            .expect("readable")
            .expect("recorded before it is shown");
        assert_eq!(recorded.pos, pos);
        let headers = message.headers.expect("headers");
        let header = |name: &str| headers.get(name).map(|v| v.as_str().to_owned());
        assert_eq!(header("Coppice-Pos"), Some(pos.to_string()));
        assert_eq!(header("Coppice-Seq"), Some(seq.to_string()));
        assert_eq!(header("Coppice-At"), Some(commit.at.to_string()));
        assert_eq!(header("traceparent"), Some(commit.trace.clone()));
        let body: Value = serde_json::from_slice(&message.payload).expect("JSON");
        let expected = json!({
            "pos": pos, "tenant": "default", "tree": "r1", "run": "r1", "seq": seq, "epoch": 1,
            "at": commit.at.to_string(), "kind": "node.started", "v": 1, "cause": null,
            "body": { "node": "read", "visit": 1 }, "commit": hash(&commit).to_string(),
        });
        assert_eq!(body, expected);
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_beats_with_its_position_and_what_the_feed_dropped() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    admit(&store, &Chain::new("r1").step()).await;
    let (watcher, _errors) = connect(&store.endpoint(Role::Watcher).await).await;
    let mut beats = watcher
        .subscribe("coppice.v1.local.host.*.beat")
        .await
        .expect("subscribed");
    let beat = beats.next().await.expect("a beat");
    let body: Value = serde_json::from_slice(&beat.payload).expect("JSON");
    let host: HostId = "test-host".parse().expect("a host");
    assert_eq!(body, json!({ "host": host, "pos": 1, "dropped": 0 }));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_recorded_last_before_closing_is_still_shown() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let (watcher, mut errors) = connect(&store.endpoint(Role::Watcher).await).await;
    let mut events = subscribe(&watcher, &mut errors, "coppice.v1.local.event.>").await;
    let mut chain = Chain::new("r1");
    admit(&store, &chain.commit(vec![step_event(); 200])).await;
    store.close().await;
    for seq in 1..=200u64 {
        let message = events.next().await.expect("an event");
        let body: Value = serde_json::from_slice(&message.payload).expect("JSON");
        assert_eq!(body["seq"], seq);
    }
}
