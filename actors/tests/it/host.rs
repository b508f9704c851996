//! Trees on a host: started, driven to their end, looked up; and what a host refuses.

use coppice_actors::{
    api::{ClientError, Code, ListRequest, TreeRequest},
    host::{Host, HostError},
};
use coppice_messages::event::run::Reason;

use crate::support::{Place, comparison, ended, guard, start, tenant, whole};

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_runs_to_its_end_and_everything_about_it_can_be_looked_up() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let run = ended(&client, &started.run).await;
    let end = run.ended.unwrap();
    assert_eq!(
        (end.reason, end.class),
        (Reason::Succeeded, None),
        "{}",
        end.message
    );
    assert_eq!(end.answer.unwrap().to_string(), r#"{"ticket":"t-1"}"#);
    assert_eq!(place.world.tickets(), 1);

    let request = ListRequest {
        tree: Some(started.tree.clone()),
        ..ListRequest::default()
    };
    let list = client.list(&tenant(), &request).await.unwrap();
    let mut paths: Vec<_> = list.runs.iter().map(|row| row.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["root", "root/research[0]", "root/research[1]"]);
    let request = TreeRequest::now(started.tree.clone());
    assert_eq!(
        client.tree(&tenant(), &request).await.unwrap().runs.len(),
        3
    );
    whole(&client, &started).await;
    let status = client.status().await.unwrap();
    assert_eq!(status.degraded, [] as [String; 0]);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_key_with_another_input_is_a_conflict_and_starts_nothing() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let first = client.start(&tenant(), &comparison("one")).await.unwrap();
    let other = start(
        "one",
        r#"{"request_id": "r-other", "incidents": ["incident_104"]}"#,
    );
    let refused = client.start(&tenant(), &other).await;
    assert!(matches!(refused, Err(ClientError::Refused(error)) if error.code == Code::KeyConflict));
    ended(&client, &first.run).await;
    assert_eq!(place.world.tickets(), 1);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_meets_the_same_tree() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let first = client.start(&tenant(), &comparison("one")).await.unwrap();
    let again = client.start(&tenant(), &comparison("one")).await.unwrap();
    assert_eq!((first.met, again.met), (false, true));
    assert_eq!(first.run, again.run);
    ended(&client, &first.run).await;
    assert_eq!(place.world.tickets(), 1);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_the_topology_does_not_take_is_refused_and_leaves_nothing() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let refused = client
        .start(
            &tenant(),
            &start("one", r#"{"request_id": "r-17", "incidents": []}"#),
        )
        .await;
    let Err(ClientError::Refused(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.code, Code::InvalidInput);
    assert!(error.message.contains("/incidents"), "{}", error.message);
    let list = client
        .list(&tenant(), &ListRequest::default())
        .await
        .unwrap();
    assert_eq!(list.runs, []);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_refused_by_a_host_that_is_not_told_to_inject_them() {
    let place = Place::new().await;
    let mut options = place.faulty(&["*@effect.landed=kill_host"]);
    options.allow_faults = false;
    let refused = Host::start(options, guard()).await.map(|_| ()).unwrap_err();
    assert!(matches!(refused, HostError::FaultsNotAllowed { count: 1 }));
    assert_eq!(refused.exit_code(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_fan_out_runs_and_is_settled_to_the_last_child() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let incidents: Vec<String> = (0..64).map(|nth| format!("\"incident_{nth}\"")).collect();
    let input = format!(
        r#"{{"request_id": "r-17", "incidents": [{}]}}"#,
        incidents.join(",")
    );
    let started = client
        .start(&tenant(), &start("wide", &input))
        .await
        .unwrap();
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    let counts = place.counts(&client, &started).await;
    assert_eq!(
        (counts.of("child.settled"), counts.of("run.ended")),
        (64, 65)
    );
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_the_log_has_needs_no_documents() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let first = client.start(&tenant(), &comparison("one")).await.unwrap();
    ended(&client, &first.run).await;
    host.stop().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let mut bare = comparison("two");
    bare.documents.clear();
    let second = client.start(&tenant(), &bare).await.unwrap();
    let end = ended(&client, &second.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_start_refuses_is_said_with_its_code() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let mut anonymous = comparison("one");
    anonymous.principal = "somebody".to_owned();
    let mut incomplete = comparison("one");
    incomplete.documents.pop();
    let mut bare = comparison("one");
    bare.documents.clear();
    let mut huge = comparison("one");
    huge.documents.push("x".repeat(2 << 20));
    for (request, code) in [
        (incomplete, Code::InvalidRelease),
        (bare, Code::InvalidRelease),
        (huge, Code::TooLarge),
        (anonymous, Code::InvalidRequest),
    ] {
        match client.start(&tenant(), &request).await {
            Err(ClientError::Refused(error)) => assert_eq!(error.code, code, "{error}"),
            other => panic!("{code:?}: {other:?}"),
        }
    }
    host.stop().await;
}
