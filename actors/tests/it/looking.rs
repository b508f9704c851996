//! Looking at what is recorded: through a living host in each role, and from the log alone.

use std::time::Duration;

use coppice_actors::{
    api::{
        ApiClient, AuditRequest, ClientError, Code, Compared, EventView, GetRequest, Law,
        ListRequest, TailRequest, TreeRequest, VerifyRequest,
    },
    endpoint::WATCHER,
    faults::offers,
    inspect::Inspect,
};
use coppice_messages::{
    Commit, Digest, Timestamp,
    commit::FORMAT,
    event::run::Reason,
    ids::{RunId, TenantId, TreeId},
};
use coppice_store::{BusOptions, Log, Options, Store, Verdict};
use tokio::sync::oneshot;

use crate::support::{Place, comparison, ended, guard, tenant, whole};

#[tokio::test(flavor = "multi_thread")]
async fn the_log_alone_says_what_the_living_host_said() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let get = ended(&client, &started.run).await;
    let list = client
        .list(&tenant(), &ListRequest::default())
        .await
        .unwrap();
    let tail = client
        .tail(&tenant(), &TailRequest::default())
        .await
        .unwrap();
    let of_tree = TreeRequest::now(started.tree.clone());
    let tree = client.tree(&tenant(), &of_tree).await.unwrap();
    let verify = client
        .verify(&tenant(), &VerifyRequest::default())
        .await
        .unwrap();
    host.stop().await;

    let log = Log::open(place.data.path()).unwrap();
    let inspect = Inspect::new(log.reader());
    let run = started.run.clone();
    assert_eq!(inspect.get(&tenant(), &GetRequest { run }).unwrap(), get);
    assert_eq!(
        inspect.list(&tenant(), &ListRequest::default()).unwrap(),
        list
    );
    assert_eq!(inspect.tree(&tenant(), &of_tree).unwrap(), tree);
    let alone = inspect.tail(&tenant(), &TailRequest::default()).unwrap();
    assert_eq!(alone.events, tail.events);
    let alone = inspect
        .verify(&tenant(), &VerifyRequest::default())
        .unwrap();
    assert_eq!((alone.state, alone.findings), (verify.state, Vec::new()));
    let request = AuditRequest { tree: started.tree };
    assert_eq!(inspect.audit(&tenant(), &request).unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_compares_the_log_with_the_living_actors_and_the_stream() {
    let place = Place::new().await;
    place.world.hold();
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let mut request = TailRequest::default();
    request.filter.kind = Some("effect.intended".to_owned());
    let mut feed = client.feed(&tenant(), &request.filter).await.unwrap();
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    while feed.next().await.unwrap().run != started.run {}

    let report = client
        .verify(&tenant(), &VerifyRequest::default())
        .await
        .unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(
        (report.live, report.log),
        (Compared::Equal(1), Compared::Equal(report.chains))
    );
    assert!(
        matches!(report.stream, Compared::Equal(commits) if commits > 3),
        "{report:?}"
    );

    place.world.release();
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_tail_join_up_to_the_whole_and_equal_the_feed() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let mut feed = client.feed(&tenant(), &Default::default()).await.unwrap();
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let mut live: Vec<EventView> = Vec::new();
    while live
        .last()
        .is_none_or(|event| event.run != started.run || event.kind != "run.ended")
    {
        live.push(feed.next().await.unwrap());
    }
    let mut paged = Vec::new();
    let mut request = TailRequest {
        limit: Some(5),
        ..TailRequest::default()
    };
    loop {
        let page = client.tail(&tenant(), &request).await.unwrap();
        paged.extend(page.events);
        request.from = page.next;
        if page.end {
            break;
        }
    }
    assert_eq!(paged, live);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_fills_gaps_and_can_start_nothing() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let operator = place.client().await;
    let started = operator.start(&tenant(), &comparison("one")).await.unwrap();
    ended(&operator, &started.run).await;
    let watcher = ApiClient::of_data_as(place.data.path(), WATCHER)
        .await
        .unwrap();
    let page = watcher
        .tail(&tenant(), &TailRequest::default())
        .await
        .unwrap();
    assert!(page.events.len() > 20, "{}", page.events.len());
    let (of, two) = (tenant(), comparison("two"));
    let unanswered = tokio::time::timeout(Duration::from_secs(1), watcher.start(&of, &two)).await;
    assert!(unanswered.is_err());
    let roots = ListRequest {
        roots: true,
        ..ListRequest::default()
    };
    let list = operator.list(&tenant(), &roots).await.unwrap();
    assert_eq!(list.runs.len(), 1);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_a_nats_service_that_says_its_verbs() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let endpoint = host.endpoint().clone();
    let access = &endpoint.roles["operator"];
    let nats = async_nats::ConnectOptions::new()
        .user_and_password(
            access.user.clone().unwrap(),
            access.password.clone().unwrap(),
        )
        .custom_inbox_prefix(&access.inbox_prefix)
        .connect(endpoint.nats_url.as_str())
        .await
        .unwrap();
    let info = nats.request("$SRV.INFO.coppice", "".into()).await.unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info.payload).unwrap();
    let subjects: Vec<_> = info["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|endpoint| endpoint["subject"].as_str().unwrap())
        .collect();
    assert!(
        subjects.contains(&"coppice.v1.local.api.*.tail"),
        "{subjects:?}"
    );

    let reply = nats
        .request(
            "coppice.v1.local.api.default.get",
            r#"{"run": "nothing"}"#.into(),
        )
        .await
        .unwrap();
    let headers = reply.headers.unwrap();
    assert_eq!(
        headers.get("Nats-Service-Error-Code").unwrap().as_str(),
        "404"
    );
    let body: serde_json::Value = serde_json::from_slice(&reply.payload).unwrap();
    assert_eq!(body["error"]["code"], "unknown_run");
    let of_host = format!("coppice.v1.local.host.{}.api.status", endpoint.host);
    let reply = nats.request(of_host, "".into()).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&reply.payload).unwrap();
    assert_eq!(body["pid"], std::process::id());
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_with_an_event_of_a_newer_build_blocks_its_run_alone() {
    let place = Place::new().await;
    place.world.hold();
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    host.stop().await;
    let newer = RawEvent {
        kind: "run.upgraded",
        v: 1,
        body: "of a newer build",
    };
    append(&place, &started.run, newer).await;

    place.world.release();
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let other = client.start(&tenant(), &comparison("two")).await.unwrap();
    let end = ended(&client, &other.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    let degraded = client.status().await.unwrap().degraded;
    assert!(
        degraded.len() == 1 && degraded[0].contains("unknown kind \"run.upgraded\""),
        "{degraded:?}"
    );
    match client.get(&tenant(), &started.run).await {
        Err(ClientError::Refused(error)) => assert_eq!(error.code, Code::LogUnreadable),
        other => panic!("{other:?}"),
    }
    let report = client
        .verify(&tenant(), &VerifyRequest::default())
        .await
        .unwrap();
    let laws: Vec<_> = report.findings.iter().map(|finding| finding.law).collect();
    assert_eq!(laws, [Law::Fold]);
    whole_but(&client, &other).await;
    host.stop().await;
}

async fn whole_but(client: &ApiClient, tree: &coppice_actors::api::Started) {
    assert_eq!(
        client.audit(&tenant(), &tree.tree).await.unwrap().findings,
        []
    );
}

/// Appends a commit with one event to a run's chain, behind this build's back.
async fn append(place: &Place, run: &RunId, event: RawEvent) {
    let bus = BusOptions::Private { guard: guard() };
    let options = Options::new(place.data.path(), "other-host".parse().unwrap(), bus);
    let store = Store::open(options).await.unwrap();
    let head = store.log().head(&tenant(), run).unwrap().unwrap();
    let commit = RawCommit {
        v: FORMAT,
        tenant: tenant(),
        tree: head.tree,
        run: run.clone(),
        seq: head.next_seq,
        epoch: head.epoch,
        prev: head.hash,
        at: coppice_store::clock::now(),
        trace: String::new(),
        events: vec![event],
    };
    let bytes = rmp_serde::to_vec_named(&commit).unwrap();
    let (tell, told) = oneshot::channel();
    let waiter = Box::new(move |verdict| {
        let _ = tell.send(verdict);
    });
    let hash = Digest::of(&bytes);
    store.submit(tenant(), bytes.into(), hash, waiter);
    let verdict = told.await.unwrap();
    assert!(matches!(verdict, Verdict::Admitted { .. }), "{verdict:?}");
    store.close().await;
}

/// A commit whose event this build would not write.
#[derive(serde::Serialize)]
struct RawCommit {
    v: u16,
    tenant: TenantId,
    tree: TreeId,
    run: RunId,
    seq: u64,
    epoch: u64,
    prev: Digest,
    at: Timestamp,
    trace: String,
    events: Vec<RawEvent>,
}

#[derive(serde::Serialize)]
struct RawEvent {
    kind: &'static str,
    v: u16,
    body: &'static str,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_whose_chain_is_damaged_is_settled_as_unreachable() {
    let place = Place::new().await;
    let slow = "root/research[1]@model.proposed:after=delay(1h)";
    let host = place.host(place.faulty(&[slow])).await;
    let client = place.client().await;
    let mut request = TailRequest::default();
    request.filter.kind = Some("fault.injected".to_owned());
    let mut feed = client.feed(&tenant(), &request.filter).await.unwrap();
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let struck = feed.next().await.unwrap();
    host.stop().await;
    let child: RunId = struck.body["run"].as_str().unwrap().parse().unwrap();
    let body = "not the body of this kind";
    append(
        &place,
        &child,
        RawEvent {
            kind: "node.started",
            v: 1,
            body,
        },
    )
    .await;

    let host = place.host(place.options()).await;
    let client = place.client().await;
    let end = ended(&client, &started.run).await.ended.unwrap();
    // The join of this topology collects.
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    let degraded = client.status().await.unwrap().degraded;
    assert!(
        degraded.len() == 1 && degraded[0].contains("cannot be decoded"),
        "{degraded:?}"
    );
    let view = client.get(&tenant(), &started.run).await.unwrap();
    assert!(view.account.is_conserved());
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_run_offers_an_address_for_each_of_its_events() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    ended(&client, &started.run).await;
    whole(&client, &started).await;
    host.stop().await;
    let log = Log::open(place.data.path()).unwrap();
    let commits: Vec<Commit> = log
        .reader()
        .commits_from(1)
        .map(|found| Commit::decode(&found.unwrap().bytes).unwrap())
        .collect();
    let offers = offers(&started.tree, &commits);
    let events: u32 = offers.iter().map(|offer| offer.count).sum();
    let of_tree = commits.iter().filter(|commit| commit.tree == started.tree);
    assert_eq!(
        events as usize,
        of_tree.map(|commit| commit.events.len()).sum::<usize>()
    );
    let written = |offer: &&coppice_actors::faults::Offer| {
        offer.event == "effect.landed" && offer.path == "root"
    };
    let landed: Vec<_> = offers.iter().filter(written).collect();
    assert_eq!(landed.len(), 1);
    assert_eq!(landed[0].tool.as_ref().unwrap().as_str(), "create_ticket");
}
