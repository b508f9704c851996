//! Cancel and signal from outside, to runs awake and asleep.

use coppice_actors::{
    api::{ApiClient, CancelRequest, ClientError, Code, SignalRequest, StartRequest, Started},
    host::{Host, HostOptions},
};
use coppice_messages::{Millis, Value, event::run::Reason};

use crate::support::{Place, comparison, ended, release_of, tenant, whole};

/// A tree that waits for a signal, then files its ticket.
pub fn waiting(key: &str) -> StartRequest {
    let yaml = r"
topology: waiting
version: 1
contract: default
result_schema: ticket_ref_v1
input: { type: object, required: [request_id], properties: { request_id: { type: string } } }
nodes:
  go: { wait: { signal: { name: go, timeout: 10m } } }
  file:
    after: [go]
    call: { tool: create_ticket, arguments: { title: { from: go, at: /title }, body: {}, request_id: { from: input, at: /request_id } } }
  done:
    after: [file]
    end:
      reason: succeeded
      answer: { ticket: { from: file, at: /id } }
      evidence: [ { check: find_ticket, arguments: { request_id: { from: input, at: /request_id } }, expect: { eq: [ { from: check, at: /count }, 1 ] } } ]
";
    let input = Value::map([("request_id", Value::Text(format!("r-{key}")))]);
    StartRequest::new(key.parse().unwrap(), &release_of(yaml), input, "user:test").unwrap()
}

fn cancel(run: &coppice_messages::ids::RunId) -> CancelRequest {
    CancelRequest {
        run: run.clone(),
        why: "enough".to_owned(),
        by: "user:test".to_owned(),
    }
}

/// A host on which one tree sleeps, waiting for its signal.
async fn asleep(place: &Place) -> (Host, ApiClient, Started) {
    let options = HostOptions {
        sleep_after: Millis(50),
        ..place.options()
    };
    let host = place.host(options).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &waiting("one")).await.unwrap();
    while client.status().await.unwrap().asleep == 0 {}
    (host, client, started)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_wakes_the_run_that_sleeps_for_it_and_counts_once() {
    let place = Place::new().await;
    let (host, client, started) = asleep(&place).await;
    let signal = SignalRequest {
        run: started.run.clone(),
        name: "go".to_owned(),
        id: "s-1".to_owned(),
        value: Value::map([("title", Value::from("Go"))]),
    };
    for _ in 0..2 {
        assert!(client.signal(&tenant(), &signal).await.unwrap().recorded);
    }
    assert_eq!(
        ended(&client, &started.run).await.ended.unwrap().reason,
        Reason::Succeeded
    );
    assert_eq!(
        place.counts(&client, &started).await.of("signal.received"),
        1
    );
    assert_eq!(place.world.tickets(), 1);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_a_tree_that_sleeps_and_leaves_a_receipt() {
    let place = Place::new().await;
    let (host, client, started) = asleep(&place).await;
    for _ in 0..2 {
        let told = client
            .cancel(&tenant(), &cancel(&started.run))
            .await
            .unwrap();
        assert!(told.recorded);
    }
    assert_eq!(
        ended(&client, &started.run).await.ended.unwrap().reason,
        Reason::Cancelled
    );
    let counts = place.counts(&client, &started).await;
    assert_eq!(
        (
            counts.of("run.cancel_requested"),
            counts.of("run.cancel_settled")
        ),
        (1, 1)
    );
    assert_eq!(place.world.tickets(), 0);
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_a_root_reaches_every_child_before_it_files_anything() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let told = client
        .cancel(&tenant(), &cancel(&started.run))
        .await
        .unwrap();
    let run = ended(&client, &started.run).await.ended.unwrap();
    let expected = if told.recorded {
        Reason::Cancelled
    } else {
        Reason::Succeeded
    };
    assert_eq!(run.reason, expected);
    let counts = place.counts(&client, &started).await;
    assert_eq!(counts.of("child.delegated"), counts.of("child.settled"));
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_is_started_behind_the_cancel_of_its_parent_starts_cancelled() {
    let place = Place::new().await;
    // The children stand still before their first commit until the root is cancelled; the root's death takes them with it.
    let faults = [
        "root/research[0]@run.opened:before=delay(60s)",
        "root/research[1]@run.opened:before=delay(60s)",
        "root@run.cancel_requested:after=panic",
    ];
    let host = place.host(place.faulty(&faults)).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    while place.counts(&client, &started).await.of("child.delegated") < 2 {}
    client
        .cancel(&tenant(), &cancel(&started.run))
        .await
        .unwrap();
    let run = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(run.reason, Reason::Cancelled);
    let counts = place.counts(&client, &started).await;
    assert_eq!(
        (counts.of("run.opened"), counts.of("run.cancel_requested")),
        (3, 3)
    );
    // Nobody but the root did anything before it was cancelled, and the root had only delegated.
    assert_eq!(
        (counts.of("model.asked"), counts.of("effect.intended")),
        (0, 0)
    );
    assert_eq!(counts.of("child.returned"), 2);
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_be_told_is_refused_and_what_comes_too_late_says_so() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let unknown = client
        .cancel(&tenant(), &cancel(&"nobody".parse().unwrap()))
        .await;
    assert!(matches!(unknown, Err(ClientError::Refused(error)) if error.code == Code::UnknownRun));
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    ended(&client, &started.run).await;
    let told = client
        .cancel(&tenant(), &cancel(&started.run))
        .await
        .unwrap();
    assert_eq!(
        (told.recorded, told.ended),
        (false, Some(Reason::Succeeded))
    );
    host.stop().await;
}
