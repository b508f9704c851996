//! The set is live: what changes between an intent and its dispatch counts, and what does not hold together never does.

use std::{sync::Arc, time::Duration};

use coppice_actors::{
    api::{ApiClient, TailRequest},
    broker::{BrokerOptions, InProcessTools, SendRequest, ToolBroker},
    host::HostOptions,
    policy::Policies,
    schema::Schemas,
};
use coppice_kernel::{
    command::EffectOutcome,
    governor::{Governor as _, Question},
};
use coppice_messages::{
    Digest, Millis, Payload, Spent, Value,
    event::{effect::Intended, policy::Decision, run::Reason},
    ids::{EffectKey, TenantId, ToolName},
};
use coppice_store::clock;

use super::{set, subject, write};
use crate::{
    broker::status,
    outside::Outside,
    recorder::released,
    support::{Place, comparison, ended, tenant},
};

const EVERYTHING: &str = "@id(\"everything\") permit (principal, action, resource);";
const NO_TICKETS: &str = "@id(\"everything\") permit (principal, action, resource);
@id(\"no-tickets\") @reason(\"the desk is being moved\") forbid (principal, action in Action::\"create\", resource);";

/// What a broker with this set makes of an intent that `judged_by` had allowed, and how many requests left.
async fn dispatched(policies: &str, judged_by: Option<Digest>) -> (EffectOutcome, usize) {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), policies);
    let outside = Outside::start([status(200, r#"{"id":"T-1","version":3}"#)]).await;
    let (mut plan, recorder) = released("incident-comparison");
    let tool: ToolName = "create_ticket".parse().unwrap();
    // What it reads of the world is not what is looked at here.
    let contract = &mut plan.tools.get_mut(&tool).unwrap().contract;
    (
        contract.precondition,
        contract.postcondition,
        contract.resource,
    ) = (None, None, None);
    let broker = ToolBroker::new(BrokerOptions {
        signer: None,
        own: std::collections::BTreeSet::new(),
        credentials: std::collections::BTreeSet::new(),
        secrets: coppice_actors::secrets::Secrets::default(),
        record: recorder.clone(),
        endpoints: [("desk".to_owned(), outside.url.clone())].into(),
        tools: InProcessTools::new(),
        schemas: Schemas::new(),
        policies: Policies::open(place.path()).unwrap(),
        begins_at: 0,
    });
    let subject = subject();
    let intended = Intended {
        key: EffectKey::derive(&subject.tenant, &tool, &subject.run, "at:file"),
        node: "file".parse().unwrap(),
        call: 0,
        tool_digest: plan.tools[&tool].digest,
        operation: plan.tools[&tool].contract.operation,
        tool,
        arguments: Payload::Inline(
            Value::parse(br#"{"title":"Differences","body":[],"request_id":"r-17"}"#).unwrap(),
        ),
        action: Digest::of(b"action"),
        attempt: 1,
        send_by: clock::now().plus(Millis(5_000)),
        policy: judged_by,
        reserved: Spent {
            network: 64 * 1024,
            ..Spent::step()
        },
    };
    recorder.intend(&intended, 1);
    let request = SendRequest {
        plan: Arc::new(plan),
        tenant: subject.tenant.clone(),
        tree: subject.tree.clone(),
        run: subject.run.clone(),
        epoch: 1,
        deadline: clock::now().plus(Millis(60_000)),
        intended: Arc::new(intended),
        subject: Some(subject),
        trace: None,
    };
    let outcome = broker.unwrap().send(request).await;
    (outcome, outside.came().len())
}

#[tokio::test]
async fn what_the_set_in_force_denies_does_not_leave_although_an_earlier_one_allowed_it() {
    let earlier = set(EVERYTHING).digest();
    let (outcome, left) = dispatched(NO_TICKETS, Some(earlier)).await;
    let EffectOutcome::Denied(judged) = outcome else {
        panic!("it is denied: {outcome:?}");
    };
    assert_eq!(judged.policies, ["no-tickets"]);
    assert_eq!(left, 0);
    // It is the same function: at the intent the same set says the same.
    let (plan, _) = released("incident-comparison");
    let subject = subject();
    let tool = &plan.tools[&"create_ticket".parse().unwrap()];
    let arguments = Value::map([("title", Value::from("Differences"))]);
    let at_intent = set(NO_TICKETS).judge(&Question {
        subject: &subject,
        tool,
        arguments: Some(&arguments),
        key: EffectKey(Digest::ZERO),
    });
    assert_eq!(*judged, at_intent);
}

#[tokio::test]
async fn what_needs_people_by_now_does_not_leave() {
    let policies = "@approve(\"role:operator\") permit (principal, action, resource);";
    let (outcome, left) = dispatched(policies, None).await;
    let EffectOutcome::Denied(judged) = outcome else {
        panic!("it is denied: {outcome:?}");
    };
    assert!(matches!(judged.decision, Decision::Approve { .. }));
    assert_eq!(left, 0);
}

#[tokio::test]
async fn what_another_version_allows_too_leaves() {
    let (outcome, left) = dispatched(EVERYTHING, Some(Digest::of(b"earlier"))).await;
    assert!(
        matches!(outcome, EffectOutcome::Landed { .. }),
        "{outcome:?}"
    );
    assert_eq!(left, 1);
}

/// The facts of one kind, of a tenant.
async fn facts(client: &ApiClient, tenant: &TenantId, kind: &str) -> Vec<serde_json::Value> {
    let mut request = TailRequest::default();
    let mut found = Vec::new();
    loop {
        let page = client.tail(tenant, &request).await.unwrap();
        found.extend(page.events.into_iter().filter(|event| event.kind == kind));
        if page.end {
            let body = |event: &_| serde_json::to_value(event).unwrap()["body"].clone();
            return found.iter().map(body).collect();
        }
        request.from = page.next;
    }
}

/// Waits for a condition on the host, within the time that any of these tests may take.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let from = clock::mono();
    while !holds().await {
        assert!(from.elapsed() < Duration::from_secs(30), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_follows_the_files_records_each_change_and_keeps_what_holds_together() {
    let place = Place::new().await;
    let policies = tempfile::tempdir().unwrap();
    write(policies.path(), EVERYTHING);
    let options = HostOptions {
        policies: Some(policies.path().to_owned()),
        ..place.options()
    };
    let host = place.host(options.clone()).await;
    let client = place.client().await;
    let first = client.status().await.unwrap().policies.unwrap().version;
    let started = client.start(&tenant(), &comparison("one")).await.unwrap();
    let run = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(run.reason, Reason::Succeeded);
    let counts = place.counts(&client, &started).await;
    assert_eq!(counts.of("policy.decided"), counts.of("effect.intended"));

    std::fs::write(policies.path().join("own.cedar"), "permit (principal").unwrap();
    until("the status says that the set is refused", async || {
        let degraded = client.status().await.unwrap().degraded;
        degraded.iter().any(|why| why.contains("own.cedar:1:"))
    })
    .await;
    let version = client.status().await.unwrap().policies.unwrap().version;
    assert_eq!(version, first, "the old one stays");

    write(policies.path(), NO_TICKETS);
    until("the new set is in force", async || {
        let status = client.status().await.unwrap();
        status.degraded.is_empty() && status.policies.unwrap().version != version
    })
    .await;
    let started = client.start(&tenant(), &comparison("two")).await.unwrap();
    let run = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(
        (run.reason, run.class.as_deref()),
        (Reason::Failed, Some("policy_denied"))
    );
    assert_eq!(place.world.tickets(), 1, "that of the first tree");
    host.stop().await;

    let host = place.host(options).await;
    let client = place.client().await;
    let changed = facts(&client, &TenantId::host(), "policy.changed").await;
    assert_eq!(
        changed.len(),
        2,
        "a start with the same set is no change: {changed:?}"
    );
    assert_eq!(changed[0]["from"], serde_json::Value::Null);
    assert_eq!(changed[0]["to"], changed[1]["from"]);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_does_not_start_with_a_set_that_does_not_hold_together() {
    let place = Place::new().await;
    let policies = tempfile::tempdir().unwrap();
    write(policies.path(), "permit (principal");
    let options = HostOptions {
        policies: Some(policies.path().to_owned()),
        ..place.options()
    };
    let guard = crate::support::guard();
    let Err(error) = coppice_actors::host::Host::start(options, guard).await else {
        panic!("it started");
    };
    assert!(error.is_bad_input());
    assert!(error.to_string().contains("own.cedar:1:"), "{error}");
}
