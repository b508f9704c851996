//! Callbacks as the outside sends them: to two waits at once, in another order than their requests, again and again.

use std::time::Duration;

use coppice_actors::api::{ApiClient, StartRequest, Started};
use coppice_kernel::limits::CALLBACKS_MAX;
use coppice_messages::{Value, event::run::Reason};
use tokio::time::timeout;

use crate::{
    callbacks::{asleep, body, send},
    support::{Place, ended, release_of, tenant, whole},
};

/// A ticket, and two nodes that wait for the callback about it.
const TWICE: &str = r"
topology: called-twice
version: 1
contract: default
input: { type: object, required: [request_id], properties: { request_id: { type: string } } }
nodes:
  file: { call: { tool: create_ticket, arguments: { title: T, body: {}, request_id: { from: input, at: /request_id } } } }
  first: { after: [file], wait: { callback: { of: file, timeout: 10m } } }
  again: { after: [file], wait: { callback: { of: file, timeout: 10m } } }
  done:
    after: [first, again]
    end:
      reason: succeeded
      answer: { first: { from: first, at: /ticket }, again: { from: again, at: /ticket } }
      evidence: [ { check: find_ticket, arguments: { request_id: { from: input, at: /request_id } }, expect: { eq: [ { from: check, at: /count }, 1 ] } } ]
";

/// Starts a tree, and waits until it has made its ticket. Back with the key of that.
async fn made(place: &Place, client: &ApiClient, key: &str) -> (Started, String) {
    let before = place.world.keys();
    let input = Value::map([("request_id", Value::Text(format!("r-{key}")))]);
    let release = release_of(TWICE);
    let request = StartRequest::new(key.parse().unwrap(), &release, input, "user:test").unwrap();
    let started = client.start(&tenant(), &request).await.unwrap();
    let found = timeout(Duration::from_secs(30), async {
        loop {
            let mut new = place.world.keys().into_iter();
            if let Some(key) = new.find(|key| !before.contains(key)) {
                return key;
            }
            tokio::task::yield_now().await;
        }
    });
    (started, found.await.expect("the ticket is made"))
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_in_another_order_than_their_requests_reach_every_node_that_waits_for_them() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let first = made(&place, &client, "one").await;
    let second = made(&place, &client, "two").await;
    for (started, key) in [&second, &first, &second] {
        let (status, said) = send(&place, "default", &body(key, "cb")).await.unwrap();
        assert_eq!((status, said.unwrap().run), (200, started.run.clone()));
    }
    for (started, _) in [&first, &second] {
        let end = ended(&client, &started.run).await.ended.unwrap();
        assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
        let answer = String::from_utf8(end.answer.unwrap().canonical()).unwrap();
        assert_eq!(answer, r#"{"again":"t-1","first":"t-1"}"#);
        let counts = place.counts(&client, started).await;
        assert_eq!(counts.of("callback.received"), 1);
        whole(&client, started).await;
    }
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_hundreds_of_repetitions_each_is_recorded_and_answered_as_the_first() {
    let place = Place::new().await;
    let (host, client, started, key) = asleep(&place).await;
    let text = body(&key, "cb-1");
    let many: u32 = 200;
    assert!(many < CALLBACKS_MAX);
    // One after the other: those that come at one moment share a record.
    for _ in 0..many {
        let (status, said) = send(&place, "default", &text).await.unwrap();
        assert_eq!((status, said.unwrap().run), (200, started.run.clone()));
    }
    ended(&client, &started.run).await;
    let counts = place.counts(&client, &started).await;
    assert_eq!(counts.of("callback.received"), 1);
    assert_eq!(counts.of("callback.absorbed"), many - 1);
    assert_eq!(place.world.tickets(), 1);
    whole(&client, &started).await;
    host.stop().await;
}
