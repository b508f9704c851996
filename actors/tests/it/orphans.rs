//! Runs that were given up, and the actors that close them, which die too: every descendant of an ended tree has its end.

use coppice_actors::{
    api::{ApiClient, ListRequest, RunStateFilter, StartRequest, Started},
    host::Host,
};
use coppice_messages::{Value, event::run::Reason};

use crate::support::{Place, comparison, ended, release, tenant, whole};

/// Dies of its delegation, then of each claim but the first: three restarts and four closers, so that it is settled without its end.
const DIES: &str = "root/lead[0]/work-1[0]@child.delegated:after=panic";

fn nested() -> StartRequest {
    StartRequest::new(
        "one".parse().unwrap(),
        &release("nested"),
        Value::parse(br#"{"request_id": "r-one"}"#).unwrap(),
        "user:test",
    )
    .unwrap()
}

/// A tree that has ended without a run that nobody could close, which dies of so many claims.
async fn left_open(place: &Place, claims: u32) -> (Host, ApiClient, Started) {
    let fault = format!("root/lead[0]/work-1[0]@run.claimed:before=panic*{claims}");
    let host = place.host(place.faulty(&[DIES, &fault])).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &nested()).await.unwrap();
    ended(&client, &started.run).await;
    (host, client, started)
}

/// Waits until no run is open any more, and looks at what is recorded.
async fn all_ended(place: &Place, client: &ApiClient, started: &Started) {
    let open = ListRequest {
        state: Some(RunStateFilter::Open),
        ..ListRequest::default()
    };
    let waits = async { while !client.list(&tenant(), &open).await.unwrap().runs.is_empty() {} };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), waits);
    waited.await.expect("every run ends");
    let counts = place.counts(client, started).await;
    assert_eq!(counts.of("run.opened"), counts.of("run.ended"));
    assert_eq!(counts.of("run.opened"), 6);
    whole(client, started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_closer_dies_is_closed_by_the_next() {
    let place = Place::new().await;
    let faults = [
        "root/research[1]@model.proposed:before=panic*100",
        "root/research[1]@run.ended:before=panic*2",
    ];
    let host = place.host(place.faulty(&faults)).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    let counts = place.counts(&client, &started).await;
    assert_eq!(
        (counts.of("child.crashed"), counts.of("child.given_up")),
        (6, 1)
    );
    assert_eq!(
        (counts.of("child.returned"), counts.of("run.ended")),
        (2, 3)
    );
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_could_close_and_those_below_it_are_closed_when_their_tree_has_ended() {
    let place = Place::new().await;
    let (host, client, started) = left_open(&place, 7).await;
    let counts = place.counts(&client, &started).await;
    assert_eq!(counts.of("child.given_up"), 1);
    // Settled without having returned.
    assert_eq!(counts.of("child.settled"), counts.of("child.returned") + 1);
    all_ended(&place, &client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_this_host_cannot_close_the_next_one_does() {
    let place = Place::new().await;
    let (host, _, started) = left_open(&place, 100).await;
    host.stop().await;

    let host = place.host(place.options()).await;
    let client = place.client().await;
    all_ended(&place, &client, &started).await;
    host.stop().await;
}
