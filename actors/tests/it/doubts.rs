//! Effects whose outcome nobody knew when their run ended: found out afterwards, by this host or the next.

use coppice_actors::{
    api::{ApiClient, CancelRequest, StartRequest, Started},
    host::Host,
};
use coppice_messages::{Value, event::run::Reason, ids::RunId};
use coppice_store::{
    Log,
    log::{RowFilter, RowState},
};

use crate::support::{Place, ended, release, tenant, whole};

/// One child that files one ticket.
fn filing() -> StartRequest {
    let input = r#"{"request_id": "r-1", "items": [{"request_id": "r-1"}]}"#;
    StartRequest::new(
        "one".parse().unwrap(),
        &release("one-request-twice"),
        Value::parse(input.as_bytes()).unwrap(),
        "user:test",
    )
    .unwrap()
}

/// A tree that was cancelled while the answer to its child's write was out, and that ended before anybody could look it up.
async fn ended_in_doubt(place: &Place) -> (Host, ApiClient, Started, RunId) {
    let host = place.host(place.options()).await;
    let client = place.client().await;
    place.world.hold();
    place.world.blind(true);
    let started = client.start(&tenant(), &filing()).await.unwrap();
    while place.world.tickets() == 0 {
        client.status().await.unwrap();
    }
    let cancel = CancelRequest {
        run: started.run.clone(),
        why: "enough".to_owned(),
        by: "user:test".to_owned(),
    };
    client.cancel(&tenant(), &cancel).await.unwrap();
    ended(&client, &started.run).await;
    let runs = client.list(&tenant(), &Default::default()).await.unwrap();
    let child = runs
        .runs
        .into_iter()
        .find(|run| run.run != started.run)
        .unwrap()
        .run;
    let run = ended(&client, &child).await.ended.unwrap();
    assert_eq!((run.reason, run.in_doubt.len()), (Reason::Cancelled, 1));
    (host, client, started, child)
}

/// Waits until nothing of the run is in doubt, and looks at what is recorded.
async fn found_out(place: &Place, client: &ApiClient, started: &Started, child: &RunId) {
    let looked = async {
        loop {
            let run = ended(client, child).await.ended.unwrap();
            if run.in_doubt.is_empty() {
                return run;
            }
        }
    };
    let run = tokio::time::timeout(std::time::Duration::from_secs(60), looked);
    let run = run.await.expect("what is in doubt is found out");
    assert_eq!(run.reason, Reason::Cancelled, "its end stays as it was");
    let counts = place.counts(client, started).await;
    assert_eq!((counts.of("result.late"), counts.of("run.ended")), (1, 2));
    assert_eq!(place.world.tickets(), 1);
    whole(client, started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_outlives_its_run_and_its_parent_and_is_found_out_later() {
    let place = Place::new().await;
    let (host, client, started, child) = ended_in_doubt(&place).await;
    place.world.blind(false);
    found_out(&place, &client, &started, &child).await;
    while client.status().await.unwrap().awake > 0 {}
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_host_finds_out_what_was_in_doubt_when_the_last_one_ended() {
    let place = Place::new().await;
    let (host, _, started, child) = ended_in_doubt(&place).await;
    host.stop().await;
    place.world.blind(false);
    let host = place.host(place.options()).await;
    let client = place.client().await;
    found_out(&place, &client, &started, &child).await;
    host.stop().await;

    let host = place.host(place.options()).await;
    let client = place.client().await;
    found_out(&place, &client, &started, &child).await;
    host.stop().await;

    // Nothing is left for any later host to look up.
    let log = Log::open(place.data.path()).unwrap();
    let unfinished = RowFilter {
        state: Some(RowState::InDoubt),
        ..RowFilter::default()
    };
    assert_eq!(log.reader().rows(unfinished).count(), 0);
}
