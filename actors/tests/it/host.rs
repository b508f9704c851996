//! Trees on a host: started, driven to their end, crashed on purpose, started again.

use coppice_actors::{
    api::{ApiClient, ClientError, Code, ListRequest, RunStateFilter, TreeRequest},
    host::{Host, HostError, SuperviseOptions, SupervisedEnd, supervise_host},
};
use coppice_messages::event::run::Reason;

use crate::support::{Place, comparison, ended, guard, host_program, start, tenant, whole};

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
    let request = TreeRequest {
        tree: started.tree.clone(),
        at: None,
    };
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
async fn an_actor_that_panics_is_started_again_and_repeats_nothing() {
    let place = Place::new().await;
    let fault = "root/research[1]@effect.landed(read_incident):after=panic";
    let host = place.host(place.faulty(&[fault])).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let run = ended(&client, &started.run).await;
    assert_eq!(run.ended.unwrap().reason, Reason::Succeeded);
    let counts = place.counts(&client, &started).await;
    assert_eq!(
        (counts.of("child.crashed"), counts.of("child.restarted")),
        (1, 1)
    );
    let reads = place.world.requests();
    let of = |id: &str| reads.iter().filter(|line| line.ends_with(id)).count();
    assert_eq!((of("incident_104"), of("incident_119")), (1, 1));
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_whose_actor_is_killed_is_started_again() {
    let place = Place::new().await;
    let host = place
        .host(place.faulty(&["root@join.opened:after=kill_actor"]))
        .await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let run = ended(&client, &started.run).await;
    assert_eq!(run.ended.unwrap().reason, Reason::Succeeded);
    assert_eq!(place.counts(&client, &started).await.of("run.claimed"), 1);
    assert_eq!(place.world.tickets(), 1);
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_that_dies_again_and_again_is_closed() {
    let place = Place::new().await;
    let host = place
        .host(place.faulty(&["root@join.decided:before=panic*100"]))
        .await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Failed);
    assert_eq!(end.class.as_deref(), Some("crashed"));
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_stops_leaves_a_tree_that_the_next_one_finishes() {
    let place = Place::new().await;
    // The actor stands still when its write is recorded, so the host stops in the middle.
    let slow = "root@effect.intended(create_ticket):after=delay(1h)";
    let host = place.host(place.faulty(&[slow])).await;
    let client = place.client().await;
    let filter = coppice_actors::api::EventFilter {
        kind: Some("effect.intended".to_owned()),
        ..Default::default()
    };
    let mut feed = client.feed(&tenant(), &filter).await.unwrap();
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    while feed.next().await.unwrap().run != started.run {}
    host.stop().await;
    assert_eq!(place.world.tickets(), 0);

    let host = place.host(place.options()).await;
    let client = place.client().await;
    let run = ended(&client, &started.run).await;
    assert_eq!(run.ended.unwrap().reason, Reason::Succeeded);
    assert_eq!(place.world.tickets(), 1);
    let request = ListRequest {
        state: Some(RunStateFilter::Open),
        ..ListRequest::default()
    };
    assert_eq!(client.list(&tenant(), &request).await.unwrap().runs, []);
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_after_the_write_and_before_the_receipt_makes_no_second_ticket() {
    let place = Place::new().await;
    let mut options = place.faulty(&["root@effect.landed(create_ticket):before=kill_host"]);
    options.stop_with_stdin = true;
    let host = supervise_host(SuperviseOptions {
        program: host_program(),
        arguments: vec![serde_json::to_string(&options).unwrap().into()],
        log: None,
    });
    let client = up(&place).await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let run = ended(&client, &started.run).await;
    let end = run.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    assert_eq!(host.restarts(), 1);
    assert_eq!(place.world.tickets(), 1);
    let client = place.client().await;
    let counts = place.counts(&client, &started).await;
    assert_eq!(
        (counts.of("effect.unknown"), counts.of("effect.reconciled")),
        (1, 1)
    );
    whole(&client, &started).await;
    assert_eq!(host.stop().await, SupervisedEnd::Stopped);
}

/// Waits until the host of a place answers.
async fn up(place: &Place) -> ApiClient {
    tokio::time::timeout(std::time::Duration::from_secs(30), async {
        loop {
            if let Ok(client) = ApiClient::of_data(place.data.path()).await
                && client.status().await.is_ok()
            {
                return client;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the host comes up")
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
