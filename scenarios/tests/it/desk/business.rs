//! What the desk knows and does when all goes well, and what it refuses.

use super::*;

#[tokio::test]
async fn incidents_are_known_or_made_from_their_number_and_nothing_else_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), World::default()).await;
    let (status, incident) = desk.get("/incidents/incident_104").await;
    assert_eq!(
        (status, &incident["id"], &incident["version"]),
        (200, &json!("incident_104"), &json!(1))
    );
    assert_eq!(incident["severity"], "high");
    assert_eq!(incident["runbooks"], json!(["runbook_certificates"]));

    let (status, made) = desk.get("/incidents/incident%5F70001").await;
    assert_eq!((status, &made["id"]), (200, &json!("incident_70001")));
    assert_eq!(made, desk.get("/incidents/incident_70001").await.1);
    assert_ne!(
        made["summary"],
        desk.get("/incidents/incident_70002").await.1["summary"]
    );

    for unknown in [
        "/incidents/incident_x",
        "/incidents/104",
        "/tickets/ticket_1",
        "/queues/other",
        "/files/none",
    ] {
        let (status, reply) = desk.get(unknown).await;
        assert_eq!(
            (status, &reply["code"]),
            (404, &json!("not_found")),
            "{unknown}"
        );
    }
    assert_eq!(desk.get("/nowhere").await.1["code"], "no_route");
    assert_eq!(
        desk.get("/queues/support").await.1,
        json!({ "id": "support", "open": true, "version": 1 })
    );
    desk.stop().await;
}

#[tokio::test]
async fn runbooks_are_found_by_their_words_best_first() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), World::default()).await;
    let (_, found) = desk.get("/runbooks?q=certificate%20expiry").await;
    assert_eq!(found["runbooks"][0]["id"], "runbook_certificates");
    assert_eq!(
        desk.get("/runbooks?q=zeppelin").await.1,
        json!({ "count": 0, "runbooks": [] })
    );
    assert_eq!(desk.get("/runbooks?q=").await.1["code"], "invalid");
    assert_eq!(desk.get("/runbooks").await.1["code"], "bad_query");
    desk.stop().await;
}

#[tokio::test]
async fn a_ticket_is_made_found_looked_up_and_closed() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), World::default()).await;
    let made = desk.post("/tickets", "k-1", &ticket("Differences")).await;
    assert_eq!(made, (200, json!({ "id": "ticket_1", "version": 1 })));

    let (_, shown) = desk.get("/tickets/ticket_1").await;
    assert_eq!(
        (&shown["title"], &shown["status"]),
        (&json!("Differences"), &json!("open"))
    );
    assert_eq!(desk.get("/tickets?key=k-1").await, (200, json!([shown])));
    assert_eq!(desk.get("/tickets?key=k-2").await, (200, json!([])));
    assert_eq!(
        desk.get("/tickets?request_id=r-17").await.1,
        json!({ "count": 1, "tickets": [shown] })
    );
    assert_eq!(desk.get("/tickets?request_id=r-1").await.1["count"], 0);
    assert_eq!(
        desk.get("/tickets?key=k-1&request_id=r-17").await.1["code"],
        "bad_query"
    );

    let close = json!({ "id": "ticket_1", "note": "done" });
    let closed = desk.post("/tickets/ticket_1/close", "k-3", &close).await;
    assert_eq!(closed, (200, json!({ "id": "ticket_1", "version": 2 })));
    assert_eq!(
        desk.post("/tickets/ticket_1/close", "k-3", &close).await,
        closed
    );
    assert_eq!(desk.get("/tickets?closed_key=k-3").await.1[0]["version"], 2);
    assert_eq!(desk.get("/tickets?closed_key=k-1").await.1, json!([]));
    let again = desk
        .post("/tickets/ticket_1/close", "k-4", &json!({}))
        .await;
    assert_eq!((again.0, &again.1["code"]), (409, &json!("already_closed")));
    let other = desk
        .post(
            "/tickets/ticket_1/close",
            "k-5",
            &json!({ "id": "ticket_2" }),
        )
        .await;
    assert_eq!((other.0, &other.1["code"]), (400, &json!("malformed")));
    desk.stop().await;
}

#[tokio::test]
async fn a_refund_is_paid_in_text_or_minor_units_and_looked_up() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), World::default()).await;
    let refund = json!({ "order": "o-1", "amount": "12.50", "currency": "EUR" });
    assert_eq!(
        desk.post("/refunds", "k-1", &refund).await.1,
        json!({ "id": "refund_1", "version": 1 })
    );
    assert_eq!(
        desk.get("/refunds?key=k-1").await.1[0]["amount_minor"],
        1250
    );
    let minor = json!({ "order": "o-2", "amount": 99, "currency": "EUR" });
    assert_eq!(
        desk.post("/refunds", "k-2", &minor).await.1["id"],
        "refund_2"
    );
    for (field, wrong) in [
        ("amount", json!("12.5")),
        ("amount", json!(-1)),
        ("amount", json!(1.5)),
        ("currency", json!("eur")),
    ] {
        let mut body = refund.clone();
        body[field] = wrong;
        assert_eq!(desk.post("/refunds", "k-3", &body).await.0, 400, "{body}");
    }
    assert_eq!(desk.witness().await.refunds, 2);
    desk.stop().await;
}

#[tokio::test]
async fn a_file_changes_only_from_the_version_that_its_writer_has_seen() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), World::default()).await;
    let put = async |key: &str, body: Value| {
        told(
            desk.send(Method::PUT, "/files/notes.txt", key, &body)
                .await
                .unwrap(),
        )
        .await
    };
    assert_eq!(
        put("k-1", json!({ "content": "a", "version": 0 })).await.1,
        json!({ "id": "notes.txt", "version": 1 })
    );
    assert_eq!(
        put("k-2", json!({ "content": "b", "version": 1 })).await.1["version"],
        2
    );
    let late = put("k-3", json!({ "content": "c", "version": 1 })).await;
    assert_eq!((late.0, &late.1["code"]), (409, &json!("version_conflict")));
    assert_eq!(
        desk.get("/files/notes.txt").await.1,
        json!({ "id": "notes.txt", "content": "b", "version": 2 })
    );
    let bad = desk
        .send(
            Method::PUT,
            "/files/a%2Fb",
            "k-4",
            &json!({ "content": "c" }),
        )
        .await
        .unwrap();
    assert_eq!(told(bad).await.1["code"], "invalid");
    desk.stop().await;
}

#[tokio::test]
async fn what_is_malformed_is_refused_with_a_code_and_counted_without_an_effect() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), World::default()).await;
    let long = "x".repeat(201);
    let bodies = [
        json!({ "body": {} }),
        json!({ "title": "no body" }),
        json!({ "title": "", "body": {} }),
        json!({ "title": long, "body": {} }),
        json!({ "title": "extra", "body": {}, "urgent": true }),
        json!(["title"]),
    ];
    for (number, body) in bodies.iter().enumerate() {
        let (status, reply) = desk.post("/tickets", &format!("k-{number}"), body).await;
        assert_eq!(status, 400, "{body}");
        assert!(
            reply["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{reply}"
        );
    }
    let text = desk
        .http
        .post(format!("{}/tickets", desk.url))
        .body("{not json")
        .send()
        .await
        .unwrap();
    assert_eq!(told(text).await.1["code"], "malformed");

    let huge = json!({ "title": "huge", "body": "x".repeat(1024 * 1024) });
    let (status, reply) = desk.post("/tickets", "k-huge", &huge).await;
    assert_eq!((status, &reply["code"]), (413, &json!("too_large")));

    let get = desk.http.get(format!("{}/tickets/ticket_1", desk.url));
    let stranger = get.header("Coppice-Tenant", "a/b").send().await.unwrap();
    assert_eq!(told(stranger).await.1["code"], "bad_header");

    let witness = desk.witness().await;
    assert_eq!(sums(&witness, Route::CreateTicket), (8, 0));
    assert_eq!((witness.tickets, witness.reads), (0, 0));
    desk.stop().await;
}

#[tokio::test]
async fn tenants_do_not_see_each_other_and_may_use_the_same_key() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), World::default()).await;
    desk.post("/tickets", "k-1", &ticket("ours")).await;
    let tickets = format!("{}/tickets", desk.url);
    let theirs = desk
        .http
        .post(&tickets)
        .header("Coppice-Tenant", "other")
        .header("Idempotency-Key", "k-1");
    assert_eq!(
        told(theirs.json(&ticket("theirs")).send().await.unwrap())
            .await
            .1["id"],
        "ticket_2"
    );
    assert_eq!(desk.get("/tickets?request_id=r-17").await.1["count"], 1);
    assert_eq!(desk.get("/tickets/ticket_2").await.0, 404);
    let witness = desk.witness().await;
    assert_eq!((witness.tickets, witness.duplicates), (2, 0));
    desk.stop().await;
}
