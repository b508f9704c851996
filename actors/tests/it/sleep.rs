//! Runs that only wait have no actor, here and after a restart, and go on when their time has come.

use coppice_actors::{
    api::{ApiClient, StartRequest, StatusReport},
    host::HostOptions,
};
use coppice_messages::{Millis, Value, event::run::Reason};
use futures::StreamExt as _;

use crate::support::{Place, ended, release_of, tenant, whole};

/// A tree that waits so long before it files its ticket.
pub fn paused(key: &str, pause: &str) -> StartRequest {
    let yaml = format!(
        r"
topology: paused
version: 1
contract: default
result_schema: ticket_ref_v1
input: {{ type: object, required: [request_id], properties: {{ request_id: {{ type: string }} }} }}
nodes:
  pause: {{ wait: {{ timer: {pause} }} }}
  file:
    after: [pause]
    call: {{ tool: create_ticket, arguments: {{ title: Late, body: {{}}, request_id: {{ from: input, at: /request_id }} }} }}
  done:
    after: [file]
    end:
      reason: succeeded
      answer: {{ ticket: {{ from: file, at: /id }} }}
      evidence: [ {{ check: find_ticket, arguments: {{ request_id: {{ from: input, at: /request_id }} }}, expect: {{ eq: [ {{ from: check, at: /count }}, 1 ] }} }} ]
"
    );
    let input = Value::map([("request_id", Value::Text(format!("r-{key}")))]);
    StartRequest::new(key.parse().unwrap(), &release_of(&yaml), input, "user:test").unwrap()
}

fn drowsy(place: &Place) -> HostOptions {
    HostOptions {
        sleep_after: Millis(50),
        ..place.options()
    }
}

/// Asks until so many sleep and nobody is awake.
pub async fn until_asleep(client: &ApiClient, count: u64) -> StatusReport {
    loop {
        let status = client.status().await.unwrap();
        if (status.asleep, status.awake) == (count, 0) {
            return status;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_long_has_no_actor_and_goes_on_when_its_time_has_come() {
    let place = Place::new().await;
    let host = place.host(drowsy(&place)).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &paused("one", "1s")).await.unwrap();
    until_asleep(&client, 1).await;
    let run = ended(&client, &started.run).await;
    assert_eq!(run.ended.unwrap().reason, Reason::Succeeded);
    assert_eq!(place.world.tickets(), 1);
    whole(&client, &started).await;
    assert_eq!(client.status().await.unwrap().asleep, 0);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_sleep_are_not_started_by_the_next_host_before_their_time() {
    let place = Place::new().await;
    let host = place.host(drowsy(&place)).await;
    let client = place.client().await;
    let started = client
        .start(&tenant(), &paused("soon", "3s"))
        .await
        .unwrap();
    for key in ["long-1", "long-2", "long-3"] {
        client.start(&tenant(), &paused(key, "10m")).await.unwrap();
    }
    until_asleep(&client, 4).await;
    host.stop().await;
    let host = place.host(drowsy(&place)).await;
    let client = place.client().await;
    let status = client.status().await.unwrap();
    assert_eq!(
        (status.asleep + status.awake, status.degraded.len()),
        (4, 0)
    );
    let run = ended(&client, &started.run).await;
    assert_eq!(run.ended.unwrap().reason, Reason::Succeeded);
    until_asleep(&client, 3).await;
    assert_eq!(place.world.tickets(), 1);
    host.stop().await;
}

/// Trees in the usual run of the tests, and in the long one.
fn parked() -> u64 {
    if std::env::var_os("COPPICE_LONG").is_some() {
        10_000
    } else {
        300
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_trees_cost_the_next_start_neither_actors_nor_time() {
    let place = Place::new().await;
    let host = place.host(drowsy(&place)).await;
    let client = place.client().await;
    let count = parked();
    let one = paused("parked", "14m");
    let starts = (0..count).map(|nth| {
        let client = &client;
        let key = format!("parked-{nth}").parse().unwrap();
        let request = StartRequest { key, ..one.clone() };
        async move { client.start(&tenant(), &request).await.unwrap() }
    });
    let started = futures::stream::iter(starts)
        .buffer_unordered(64)
        .count()
        .await;
    assert_eq!(started as u64, count);
    until_asleep(&client, count).await;
    host.stop().await;
    let before = coppice_store::clock::mono();
    let host = place.host(drowsy(&place)).await;
    let took = before.elapsed();
    let status = place.client().await.status().await.unwrap();
    assert_eq!((status.asleep, status.awake), (count, 0));
    eprintln!("{count} parked trees: the next host was up after {took:?}");
    assert!(took < std::time::Duration::from_secs(2), "{took:?}");
    host.stop().await;
}
