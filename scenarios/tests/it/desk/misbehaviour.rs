//! What goes wrong, and what had happened by then.

use super::*;

/// A first try that goes wrong and a second, with the same key, that does not.
async fn twice(yaml: &str) -> (reqwest::Result<Response>, (u64, u64), Witness) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let fail = format!("fail: [ {{ route: create_ticket, nth: 1, do: {yaml} }} ]");
    let desk = start(dir.path(), world(&fail)).await;
    let first = desk
        .send(Method::POST, "/tickets", "k-1", &ticket("one"))
        .await;
    let after_first = sums(&desk.witness().await, Route::CreateTicket);
    let second = desk.post("/tickets", "k-1", &ticket("one")).await;
    assert_eq!(
        second,
        (200, json!({ "id": "ticket_1", "version": 1 })),
        "{yaml}"
    );
    let witness = desk.witness().await;
    desk.stop().await;
    (first, after_first, witness)
}

#[tokio::test]
async fn refusals_and_errors_come_before_or_after_the_commit_as_asked() {
    for (yaml, status, code, committed) in [
        ("refuse_409", 409, "refused", 0),
        ("refuse_429", 429, "too_many", 0),
        ("error_500_before", 500, "broken", 0),
        ("error_500_after", 500, "broken", 1),
    ] {
        let (first, after_first, witness) = twice(yaml).await;
        let (seen, reply) = told(first.unwrap()).await;
        assert_eq!((seen, &reply["code"]), (status, &json!(code)), "{yaml}");
        assert_eq!(after_first, (1, committed), "{yaml}");
        assert_eq!(sums(&witness, Route::CreateTicket), (2, 1), "{yaml}");
        assert_eq!((witness.tickets, witness.duplicates), (1, 0), "{yaml}");
    }
}

#[tokio::test]
async fn a_dropped_connection_carries_no_reply_before_or_after_the_commit() {
    for (yaml, committed) in [("drop_before", 0), ("drop_after", 1)] {
        let (first, after_first, witness) = twice(yaml).await;
        let error = first.unwrap_err();
        assert!(
            error.is_request() && !error.is_timeout() && !error.is_connect(),
            "{error:?}"
        );
        assert_eq!(after_first, (1, committed), "{yaml}");
        assert_eq!((witness.tickets, witness.duplicates), (1, 0), "{yaml}");
    }
}

#[tokio::test]
async fn a_slow_reply_is_held_back_after_its_effect_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = "fail: [ { route: create_ticket, do: { slow_ms: 600000 } } ]";
    let desk = start(dir.path(), world(yaml)).await;
    let client = desk.http.clone();
    let url = format!("{}/tickets", desk.url);
    let waiting = tokio::spawn(async move {
        let request = client
            .post(url)
            .header("Idempotency-Key", "k-1")
            .json(&ticket("one"));
        request.send().await.map(|reply| reply.status())
    });
    while desk.witness().await.tickets == 0 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    waiting.abort();
    // Closing waits for no pause.
    desk.stop().await;
}

#[tokio::test]
async fn latency_comes_before_the_effect_and_a_client_that_leaves_does_not_stop_it() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), world("latency_ms: 200")).await;
    let request = desk
        .http
        .post(format!("{}/tickets", desk.url))
        .json(&ticket("one"));
    let waiting = tokio::spawn(request.send());
    while sums(&desk.witness().await, Route::CreateTicket).0 == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(desk.witness().await.tickets, 0);
    waiting.abort();
    while desk.witness().await.tickets == 0 {
        tokio::task::yield_now().await;
    }
    desk.stop().await;
}

#[tokio::test]
async fn an_oversized_reply_is_a_reply_with_its_effect() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = "fail: [ { route: create_ticket, nth: 1, do: { oversize: 10000000 } }, { route: lookup_ticket, do: { oversize: 100000 } } ]";
    let desk = start(dir.path(), world(yaml)).await;
    let reply = desk
        .send(Method::POST, "/tickets", "k-1", &ticket("one"))
        .await
        .unwrap();
    let text = reply.text().await.unwrap();
    assert!(text.len() > 10_000_000);
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap()["id"],
        "ticket_1"
    );
    assert_eq!(
        desk.post("/tickets", "k-1", &ticket("one")).await.1,
        json!({ "id": "ticket_1", "version": 1 })
    );
    assert_eq!(desk.get("/tickets?key=k-1").await.1[0]["id"], "ticket_1");
    desk.stop().await;
}

#[tokio::test]
async fn the_nth_request_is_counted_per_route_over_restarts_and_no_nth_means_each() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = "fail: [ { route: read_incident, nth: 2, do: drop_before }, { route: read_queue, do: refuse_429 } ]";
    let desk = start(dir.path(), world(yaml)).await;
    assert_eq!(desk.get("/incidents/incident_104").await.0, 200);
    desk.stop().await;

    let desk = start(dir.path(), world(yaml)).await;
    for _ in 0..2 {
        assert_eq!(desk.get("/queues/support").await.0, 429);
    }
    let second = desk
        .http
        .get(format!("{}/incidents/incident_104", desk.url))
        .send()
        .await;
    assert!(second.is_err(), "{second:?}");
    assert_eq!(desk.get("/incidents/incident_104").await.0, 200);
    assert_eq!(desk.witness().await.reads, 5);
    desk.stop().await;
}

#[tokio::test]
async fn a_world_is_strict_and_bounded() {
    assert_eq!(world("{}"), World::default());
    let json = serde_json::to_string(&world(
        "fail: [ { route: pay_refund, nth: 3, do: { slow_ms: 5 } } ]",
    ))
    .unwrap();
    assert_eq!(
        serde_json::from_str::<World>(&json).unwrap().fail[0].route,
        Route::PayRefund
    );
    for wrong in [
        "dedup: false",
        "fail: [ { route: create_tickets, do: drop_after } ]",
        "fail: [ { route: create_ticket, nth: 0, do: drop_after } ]",
        "fail: [ { route: create_ticket, do: explode } ]",
    ] {
        assert!(serde_saphyr::from_str::<World>(wrong).is_err(), "{wrong}");
    }
    for out_of_bounds in [
        "latency_ms: 600001",
        "fail: [ { route: create_ticket, do: { slow_ms: 600001 } } ]",
        "fail: [ { route: create_ticket, do: { oversize: 67108865 } } ]",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            dir: dir.path().to_owned(),
            listen: free(),
            world: world(out_of_bounds),
            outside: None,
        };
        let ended = desk::serve(options, |_| {}, std::future::pending()).await;
        assert!(matches!(ended, Err(DeskError::World(_))), "{ended:?}");
    }
}
