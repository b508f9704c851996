//! Keys, look-ups and what a restart keeps.

use super::*;

#[tokio::test]
async fn a_repeated_key_gets_the_first_reply_and_no_second_effect() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), World::default()).await;
    let first = desk.post("/tickets", "k-1", &ticket("one")).await;
    let mut reworded = ticket("one");
    reworded["note"] = json!("said otherwise");
    assert_eq!(desk.post("/tickets", "k-1", &ticket("one")).await, first);
    assert_eq!(desk.post("/tickets", "k-1", &reworded).await, first);

    let other = desk.post("/tickets", "k-1", &ticket("two")).await;
    assert_eq!((other.0, &other.1["code"]), (409, &json!("key_conflict")));

    let witness = desk.witness().await;
    assert_eq!((witness.tickets, witness.duplicates), (1, 0));
    assert_eq!(sums(&witness, Route::CreateTicket), (4, 1));
    assert_eq!(
        witness.requests.len(),
        2,
        "one row for each argument digest: {witness:?}"
    );
    assert!(
        witness
            .requests
            .iter()
            .all(|row| (row.tenant.as_str(), row.key.as_str()) == ("default", "k-1"))
    );
    desk.stop().await;
}

#[tokio::test]
async fn without_dedupe_each_post_makes_another_one_and_the_witness_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), world("dedupe: false")).await;
    for number in 1..=3 {
        let (_, made) = desk.post("/tickets", "k-1", &ticket("one")).await;
        assert_eq!(made["id"], format!("ticket_{number}"));
    }
    desk.post("/tickets", "k-2", &ticket("one")).await;
    assert_eq!(
        desk.get("/tickets?key=k-1")
            .await
            .1
            .as_array()
            .map(Vec::len),
        Some(3)
    );
    let witness = desk.witness().await;
    assert_eq!(
        (witness.tickets, witness.duplicates, witness.reads),
        (4, 2, 1)
    );
    desk.stop().await;
}

#[tokio::test]
async fn without_lookup_no_effect_is_found_by_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), world("lookup: false")).await;
    desk.post("/tickets", "k-1", &ticket("one")).await;
    for path in [
        "/tickets?key=k-1",
        "/tickets?closed_key=k-1",
        "/refunds?key=k-1",
    ] {
        let (status, reply) = desk.get(path).await;
        assert_eq!(
            (status, &reply["code"]),
            (404, &json!("lookup_off")),
            "{path}"
        );
    }
    assert_eq!(desk.get("/tickets?request_id=r-17").await.1["count"], 1);
    desk.stop().await;
}

#[tokio::test]
async fn a_restart_forgets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), World::default()).await;
    let first = desk.post("/tickets", "k-1", &ticket("one")).await;
    let put = json!({ "content": "kept" });
    desk.send(Method::PUT, "/files/a", "k-2", &put)
        .await
        .unwrap();
    desk.get("/incidents/incident_104").await;
    let before = desk.witness().await;
    desk.stop().await;

    let desk = start(dir.path(), World::default()).await;
    assert_eq!(desk.witness().await, before);
    assert_eq!(desk.post("/tickets", "k-1", &ticket("one")).await, first);
    assert_eq!(desk.get("/files/a").await.1["content"], "kept");
    assert_eq!(
        desk.post("/tickets", "k-3", &ticket("next")).await.1["id"],
        "ticket_2"
    );
    let after = desk.witness().await;
    assert_eq!((after.tickets, after.files, after.duplicates), (2, 1, 0));
    assert_eq!(sums(&after, Route::CreateTicket), (3, 2));
    desk.stop().await;
}

#[tokio::test]
async fn two_desks_do_not_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let desk = start(dir.path(), World::default()).await;
    let options = Options {
        dir: dir.path().to_owned(),
        listen: free(),
        world: World::default(),
        outside: None,
    };
    let second = desk::serve(options, |_| {}, std::future::pending()).await;
    assert!(matches!(second, Err(DeskError::Open { .. })), "{second:?}");
    desk.stop().await;
}
