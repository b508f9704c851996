//! A host that goes on from an older copy of its log: what was done after the copy was taken is found out, not done again.

use coppice_actors::{
    api::{ApiClient, CopyOf, CopyPage, CopyRequest, SignalRequest, Started},
    host::HostOptions,
};
use coppice_messages::{
    Value,
    event::run::Reason,
    ids::{RunId, TenantId},
};
use coppice_store::archive::{self, Reader, Selection};

use crate::{
    support::{Place, comparison, ended, guard, tenant, whole},
    telling::waiting,
};

async fn page(client: &ApiClient, request: &CopyRequest) -> CopyPage {
    client.copy(&TenantId::host(), request).await.unwrap()
}

/// An archive, asked of a living host page by page, each page twice.
async fn copy(client: &ApiClient, of: CopyOf) -> Vec<u8> {
    let mut request = CopyRequest {
        copy: None,
        offset: 0,
        of,
    };
    let mut bytes = Vec::new();
    loop {
        let next = page(client, &request).await;
        request.copy = Some(next.copy);
        assert_eq!(page(client, &request).await, next);
        bytes.extend(next.bytes().unwrap());
        request.offset = next.next;
        if next.end {
            return bytes;
        }
    }
}

/// Tells the tree to file its ticket.
async fn go(client: &ApiClient, run: &RunId) {
    let signal = SignalRequest {
        run: run.clone(),
        name: "go".to_owned(),
        id: "s-1".to_owned(),
        value: Value::map([("title", Value::from("Go"))]),
    };
    assert!(client.signal(&tenant(), &signal).await.unwrap().recorded);
}

/// A tree that made its ticket after the log was copied, and a place in which the copy is restored.
async fn older_copy(place: &Place, lost_since: bool) -> (Started, tempfile::TempDir) {
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &waiting("one")).await.unwrap();
    let backup = copy(&client, CopyOf::Log).await;
    go(&client, &started.run).await;
    let view = ended(&client, &started.run).await;
    assert_eq!(view.ended.unwrap().reason, Reason::Succeeded);
    assert_eq!(place.world.tickets(), 1);
    host.stop().await;
    let restored = tempfile::tempdir().unwrap();
    let open = || Reader::open(&backup[..]);
    archive::restore(open, restored.path(), lost_since, |_| Ok(()), |_| {}).unwrap();
    (started, restored)
}

/// Goes on from the copy to the tree's end, and says how it ended.
async fn go_on(place: &Place, started: &Started, data: &std::path::Path) -> (Reason, u32) {
    let mut options = HostOptions::new(data);
    options.endpoints = place.options().endpoints;
    let host = coppice_actors::host::Host::start(options, guard())
        .await
        .unwrap();
    let client = ApiClient::of_data(data).await.unwrap();
    go(&client, &started.run).await;
    let view = ended(&client, &started.run).await;
    let counts = place.counts(&client, started).await;
    whole(&client, started).await;
    host.stop().await;
    (view.ended.unwrap().reason, counts.of("effect.reconciled"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_landed_after_the_backup_is_looked_up_and_not_done_again() {
    let place = Place::new().await;
    let (started, data) = older_copy(&place, true).await;
    let (reason, reconciled) = go_on(&place, &started, data.path()).await;
    assert_eq!((reason, reconciled), (Reason::Succeeded, 1));
    assert_eq!(place.world.tickets(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_says_that_nothing_was_done_since_the_backup_is_taken_at_their_word() {
    let place = Place::new().await;
    let (started, data) = older_copy(&place, false).await;
    let (_, reconciled) = go_on(&place, &started, data.path()).await;
    // The world does not deduplicate: this is what the look-up is there for.
    assert_eq!((reconciled, place.world.tickets()), (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_opened_after_the_log_was_restored_sends_without_looking_up() {
    let place = Place::new().await;
    let (_, data) = older_copy(&place, true).await;
    let mut options = HostOptions::new(data.path());
    options.endpoints = place.options().endpoints;
    let host = coppice_actors::host::Host::start(options, guard())
        .await
        .unwrap();
    let client = ApiClient::of_data(data.path()).await.unwrap();
    let started = client.start(&tenant(), &comparison("new")).await.unwrap();
    let view = ended(&client, &started.run).await;
    assert_eq!(view.ended.unwrap().reason, Reason::Succeeded);
    let counts = place.counts(&client, &started).await;
    assert_eq!((counts.of("effect.unknown"), place.world.tickets()), (0, 2));
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_of_several_tenants_are_the_hosts_and_pages_out_of_turn_are_refused() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    ended(&client, &started.run).await;
    let of_all = CopyRequest {
        copy: None,
        offset: 0,
        of: CopyOf::Log,
    };
    let refused = client.copy(&tenant(), &of_all).await.unwrap_err();
    assert!(refused.to_string().contains("_host"), "{refused}");
    let elsewhere = CopyRequest {
        offset: 7,
        ..of_all
    };
    let refused = client.copy(&TenantId::host(), &elsewhere).await;
    assert!(refused.unwrap_err().to_string().contains("byte 7"));
    let mine = CopyOf::Trees(Selection {
        tenant: Some(tenant()),
        ..Selection::default()
    });
    let bytes = copy(&client, mine).await;
    let mut archive = Reader::open(&bytes[..]).unwrap();
    let plan = archive::plan(&mut archive, None, |_| {}).unwrap();
    assert_eq!((plan.trees, plan.open), (1, vec![]));
    host.stop().await;
}
