//! Every form of a fault's address that is taken strikes, at whatever moment, in whichever life of the host.

use std::time::Duration;

use coppice_actors::api::{ApiClient, TailRequest};
use coppice_messages::ids::RunId;
use tokio::time::timeout;

use crate::{
    callbacks::{body, called_back, filed, send},
    supervision::{supervised, up},
    support::{Place, ended, tenant},
};

/// Sends a callback until it is taken.
async fn call_back(place: &Place, id: &str) {
    let sent = timeout(Duration::from_secs(60), async {
        let text = body(&filed(place).await, id);
        loop {
            if let Some((200, _)) = send(place, "default", &text).await {
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    sent.await.expect("it is taken in the end");
}

/// Waits until the system chain says that these faults struck.
async fn struck(client: &ApiClient, addresses: &[String]) {
    let mut request = TailRequest::default();
    request.filter.run = Some(RunId::system());
    request.filter.kind = Some("fault.injected".to_owned());
    let mut found = Vec::new();
    let all = timeout(Duration::from_secs(20), async {
        loop {
            let page = client.tail(&tenant(), &request).await.unwrap();
            let address = |body: &serde_json::Value| body["address"].as_str().unwrap().to_owned();
            found = page
                .events
                .iter()
                .map(|event| address(&event.body))
                .collect();
            if addresses.iter().all(|address| found.contains(address)) {
                return;
            }
        }
    });
    let all = all.await;
    assert!(all.is_ok(), "of {addresses:?} struck only {found:?}");
}

/// A tree that waits for its callback, and one more callback after its end, under these faults.
async fn strike(faults: &[&str]) {
    let place = Place::new().await;
    let options = place.faulty(faults);
    let addresses: Vec<String> = options.faults.iter().map(ToString::to_string).collect();
    let host = place.host(options).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &called_back("one")).await.unwrap();
    call_back(&place, "cb-1").await;
    ended(&client, &started.run).await;
    call_back(&place, "cb-2").await;
    struck(&client, &addresses).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_stands_still_or_dies_at_any_moment_of_an_event_does() {
    for moment in ["before", "after", "acked", "synced"] {
        let at = |event: &str, action: &str| format!("root@{event}:{moment}={action}");
        let faults = [
            at("run.opened", "delay(1ms)"),
            at("effect.intended(create_ticket)", "delay(1ms)"),
            at("effect.landed(create_ticket)", "kill_actor"),
            at("callback.received", "delay(5ms)"),
            at("node.ended#2", "delay(1ms)"),
            at("run.ended", "delay(1ms)"),
            // Of a run that has ended: no actor writes it.
            at("callback.absorbed", "delay(5ms)"),
        ];
        strike(&faults.each_ref().map(String::as_str)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_points_with_names_and_panics_strike() {
    strike(&[
        "root@FP1=delay(1ms)",
        "root@FP2=delay(1ms)",
        "root@FP5=delay(1ms)",
        "*@effect.*(create_ticket)#2:FP3=delay(1ms)*2",
        "*@run.*:FP4=delay(1ms)",
        "root@callback.received=panic",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_before_the_host_was_started_again_is_counted() {
    let place = Place::new().await;
    // Two nodes end before the last one does: without the count of the first life there is no second of the next.
    let faults = [
        "root@node.ended:after=kill_host",
        "root@node.ended#2:after=kill_host",
    ];
    let options = place.faulty(&faults);
    let process = supervised(options);
    let client = up(&place).await;
    let started = client.start(&tenant(), &called_back("one")).await.unwrap();
    // Called back any sooner, both nodes could end in one commit.
    let again = timeout(Duration::from_secs(60), async {
        while process.restarts() == 0 {
            tokio::task::yield_now().await;
        }
    });
    again.await.expect("the host is started again");
    call_back(&place, "cb-1").await;
    let end = timeout(Duration::from_secs(60), async {
        loop {
            let client = up(&place).await;
            if let Ok(view) = client.get(&tenant(), &started.run).await
                && view.ended.is_some()
            {
                return client;
            }
        }
    });
    let client = end.await.expect("the tree ends");
    struck(&client, &faults.map(str::to_owned)).await;
    assert_eq!(process.restarts(), 2);
    process.stop().await;
}
