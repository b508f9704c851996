//! Actors and hosts that die on purpose, at every level, and the trees that go on.

use coppice_actors::{
    api::{ApiClient, EventFilter, ListRequest, RunStateFilter, TailRequest},
    host::{HostOptions, HostProcess, SuperviseOptions, SupervisedEnd, supervise_host},
};
use coppice_messages::{event::run::Reason, ids::TenantId};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, comparison, ended, host_program, start, tenant, whole};

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
    let filter = EventFilter {
        kind: Some("effect.intended".to_owned()),
        ..EventFilter::default()
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
    let host = supervised(place.faulty(&["root@effect.landed(create_ticket):before=kill_host"]));
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

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_at_every_moment_of_one_commit_finishes_and_says_which_fault_struck() {
    for moment in ["before", "acked", "synced", "after"] {
        let place = Place::new().await;
        let fault = format!("root/research[1]@model.proposed#2:{moment}=kill_host");
        let host = supervised(place.faulty(&[&fault]));
        let client = up(&place).await;
        let started = client.start(&tenant(), &comparison("one")).await.unwrap();
        let end = ended(&client, &started.run).await.ended.unwrap();
        assert_eq!(end.reason, Reason::Succeeded, "{moment}: {}", end.message);
        assert_eq!((host.restarts(), place.world.tickets()), (1, 1), "{moment}");
        let client = place.client().await;
        whole(&client, &started).await;
        assert_eq!(injected(&client, 1).await, [fault.as_str()]);
        assert_eq!(host.stop().await, SupervisedEnd::Stopped);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_before_its_intent_is_recorded() {
    let place = Place::new().await;
    // The host dies when JetStream has acknowledged the intent and the log has not recorded it.
    let fault = "root@effect.intended(create_ticket):acked=kill_host";
    let host = supervised(place.faulty(&[fault]));
    let client = up(&place).await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    let requests = place.world.requests();
    let first = |of: &str| {
        requests
            .iter()
            .position(|line| line.starts_with(of))
            .unwrap()
    };
    // It is looked up as a doubt, found absent, and only then sent.
    assert!(
        first("GET /tickets?key=") < first("POST /tickets"),
        "{requests:?}"
    );
    assert_eq!((host.restarts(), place.world.tickets()), (1, 1));
    host.stop().await;
}

/// The addresses of the faults that the system chain says were injected, once there are so many.
async fn injected(client: &ApiClient, count: usize) -> Vec<String> {
    let mut request = TailRequest::default();
    request.filter.kind = Some("fault.injected".to_owned());
    let address = |body: &serde_json::Value| body["address"].as_str().unwrap().to_owned();
    tokio::time::timeout(std::time::Duration::from_secs(30), async {
        loop {
            let events = client.tail(&tenant(), &request).await.unwrap().events;
            if events.len() >= count {
                return events.iter().map(|event| address(&event.body)).collect();
            }
        }
    })
    .await
    .expect("what was noted is recorded")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_dies_again_and_again_is_given_up_and_the_join_decides() {
    let place = Place::new().await;
    let fault = "root/research[1]@model.proposed:before=panic*100";
    let host = place.host(place.faulty(&[fault])).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let end = ended(&client, &started.run).await.ended.unwrap();
    // The join of this topology collects: the ticket is filed with what there is.
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    let counts = place.counts(&client, &started).await;
    assert_eq!(
        (counts.of("child.crashed"), counts.of("child.given_up")),
        (4, 1)
    );
    assert_eq!((counts.of("child.settled"), counts.of("run.ended")), (2, 3));
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_dies_takes_its_children_with_it_and_all_go_on() {
    let place = Place::new().await;
    let fault = "root@child.returned:after=panic";
    let host = place.host(place.faulty(&[fault])).await;
    let client = place.client().await;
    let input = r#"{"request_id": "r-17", "incidents": ["i1", "i2", "i3", "i4", "i5", "i6", "i7", "i8", "i9"]}"#;
    let started = client.start(&tenant(), &start("one", input)).await.unwrap();
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    let counts = place.counts(&client, &started).await;
    // Whatever its children were doing when they were killed with it is no crash of theirs.
    assert_eq!(
        (counts.of("child.crashed"), counts.of("child.settled")),
        (0, 9)
    );
    assert_eq!(place.world.tickets(), 1);
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_trees_at_once_outlive_forty_deaths_and_each_makes_its_one_ticket() {
    let place = Place::new().await;
    let faults = [
        "*@model.proposed#20:after=panic*20",
        "*@effect.landed(read_incident)#10:before=kill_actor*20",
    ];
    let host = place.host(place.faulty(&faults)).await;
    let client = std::sync::Arc::new(place.client().await);
    let mut trees = tokio::task::JoinSet::new();
    for nth in 0..40 {
        let client = client.clone();
        trees.spawn(async move {
            let request = comparison(&format!("tree-{nth}"));
            let started = client.start(&tenant(), &request).await.unwrap();
            let end = ended(&client, &started.run).await.ended.unwrap();
            assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
            started
        });
    }
    let trees = trees.join_all().await;
    assert_eq!(place.world.tickets(), trees.len());
    for tree in &trees {
        let audit = client.audit(&tenant(), &tree.tree).await.unwrap();
        assert_eq!(audit.findings, []);
    }
    assert_eq!(injected(&client, 40).await.len(), 40);
    whole(&client, &trees[0]).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_outlives_the_death_of_nats_server() {
    let place = Place::new().await;
    place.world.hold();
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let pid = std::fs::read_to_string(place.data.path().join("nats/nats-server.pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    place.world.release();
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    assert_eq!(place.world.tickets(), 1);
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_asked_to_terminate_stops_in_order() {
    let place = Place::new().await;
    let host = supervised(place.options());
    let client = up(&place).await;
    let pid = i32::try_from(host.pid().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    assert_eq!(host.ended().await, SupervisedEnd::Stopped);
    drop(client);
    assert!(!place.data.path().join("endpoint.json").exists());

    let log = coppice_store::Log::open(place.data.path()).unwrap();
    let page = coppice_actors::inspect::Inspect::new(log.reader())
        .tail(&TenantId::host(), &TailRequest::default())
        .unwrap();
    let kinds: Vec<_> = page
        .events
        .iter()
        .map(|event| event.kind.as_str())
        .collect();
    assert_eq!(kinds, ["host.started", "host.stopped"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_host_on_the_same_directory_is_refused_and_not_started_again() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let second = supervised(place.options());
    assert_eq!(second.ended().await, SupervisedEnd::GaveUp { code: 3 });
    assert_eq!(second.restarts(), 0);
    // The first one is still to be found.
    assert!(place.client().await.status().await.is_ok());
    host.stop().await;
}

pub fn supervised(mut options: HostOptions) -> HostProcess {
    options.stop_with_stdin = true;
    supervise_host(SuperviseOptions {
        program: host_program(),
        data: options.data.clone(),
        arguments: vec![serde_json::to_string(&options).unwrap().into()],
        log: None,
    })
}

/// Waits until the host of a place answers.
pub async fn up(place: &Place) -> ApiClient {
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
