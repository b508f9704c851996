//! Trees of many shapes on a real host: closed, cancelled at each stage, nested under the narrowest limit, and wide.

use std::collections::BTreeSet;

use coppice_actors::api::{ApiClient, CancelRequest, EventFilter, StartRequest, Started};
use coppice_messages::{Millis, Value, event::run::Reason, ids::RunId};
use coppice_topology::{Bundle, Document, DocumentKind, Documents, bundle};

use crate::support::{Library, Place, comparison, ended, library, tenant, whole};

/// The library's documents, with a model that takes for ever and a contract that lets one child work at a time.
struct Slow;

impl Documents for Slow {
    fn find(&self, kind: DocumentKind, name: &str) -> Option<Document> {
        let bytes = match name {
            "for_ever" => {
                "model: for_ever\nturns: [ { after: 1h, say: Nothing yet. } ]\n".to_owned()
            }
            "one_at_a_time" => {
                let found = Library.find(kind, "default")?;
                let text = String::from_utf8(found.bytes).unwrap();
                let text = text.replace("contract: default", "contract: one_at_a_time");
                text.replace("concurrency: 64", "concurrency: 1")
            }
            _ => return Library.find(kind, name),
        };
        Some(Document {
            file: kind.path(name),
            bytes: bytes.into_bytes(),
        })
    }
}

fn release(yaml: &str) -> Bundle {
    bundle("test.yaml", yaml.as_bytes(), &Slow).unwrap()
}

async fn start(client: &ApiClient, key: &str, release: &Bundle) -> Started {
    let input = Value::map([("request_id", Value::from("r-1"))]);
    let request = StartRequest::new(key.parse().unwrap(), release, input, "user:test").unwrap();
    client.start(&tenant(), &request).await.unwrap()
}

/// A root with a child that never answers; `more` is a node `go` beside it, or nothing, and `clock` is the child's time.
fn thinking(clock: &str, more: &str) -> Bundle {
    let after = if more.is_empty() { "" } else { ", go" };
    release(&format!(
        r"
topology: thinking
version: 1
contract: default
input: {{ type: object }}
agents:
  thinker: {{ model: scripted/for_ever, tools: [read_incident], result_schema: incident_summary_v1 }}
nodes:
  think:
    fan_out: {{ width: 1, agent: thinker, slot: thinker }}
    delegation:
      objective: Think
      authority_scope: {{ access: read_only }}
      budget: {{ steps: 4, tokens: 4000, wall_clock: {clock} }}
    join: {{ wait: all, on_failure: fail_fast }}
{more}
  done:
    after: [think{after}]
    end:
      reason: succeeded
      evidence: [ {{ check: find_ticket, arguments: {{ request_id: r-1 }}, expect: {{ eq: [ {{ from: check, at: /count }}, 0 ] }} }} ]
"
    ))
}

async fn reason_of(client: &ApiClient, run: &RunId) -> Reason {
    ended(client, run).await.ended.unwrap().reason
}

/// The only child of the tree.
async fn child_of(client: &ApiClient, tree: &Started) -> RunId {
    let request = coppice_actors::api::TreeRequest::now(tree.tree.clone());
    let frame = client.tree(&tenant(), &request).await.unwrap();
    frame.runs[1].run.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_past_its_deadline_does_not_wait_for_a_model_that_does_not_answer() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let started = start(&client, "one", &thinking("1s", "")).await;
    assert_eq!(reason_of(&client, &started.run).await, Reason::Failed);
    let child = child_of(&client, &started).await;
    assert_eq!(reason_of(&client, &child).await, Reason::TimedOut);
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_failed_cancels_what_is_at_work_below_it() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let more = "  go: { wait: { signal: { name: go, timeout: 300ms } } }";
    let started = start(&client, "one", &thinking("5m", more)).await;
    assert_eq!(reason_of(&client, &started.run).await, Reason::TimedOut);
    let child = child_of(&client, &started).await;
    assert_eq!(reason_of(&client, &child).await, Reason::Cancelled);
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_fan_outs_where_one_child_may_work_at_a_time_come_to_an_end() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let yaml = std::fs::read_to_string(library("topologies/nested.yaml")).unwrap();
    let yaml = yaml.replace("contract: default", "contract: one_at_a_time");
    let yaml = yaml.replace("concurrency: 2", "concurrency: 1");
    let started = start(&client, "one", &release(&yaml)).await;
    assert_eq!(reason_of(&client, &started.run).await, Reason::Succeeded);
    let counts = place.counts(&client, &started).await;
    assert_eq!((counts.of("run.opened"), counts.of("join.decided")), (6, 4));
    whole(&client, &started).await;
    host.stop().await;
}

/// Kinds of events at which the tree is cancelled: in the usual run of the tests, and in the long one all that an undisturbed tree has.
async fn stages(place: &Place, client: &ApiClient) -> Vec<String> {
    let short = [
        "run.opened",
        "child.delegated",
        "model.proposed",
        "effect.intended",
        "child.returned",
        "join.decided",
        "check.passed",
    ];
    if std::env::var_os("COPPICE_LONG").is_none() {
        return short.map(str::to_owned).to_vec();
    }
    let started = client.start(&tenant(), &comparison("all")).await.unwrap();
    ended(client, &started.run).await;
    let kinds: BTreeSet<String> = place.counts(client, &started).await.kinds();
    assert!(kinds.len() > short.len(), "{kinds:?}");
    kinds.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_at_each_kind_of_event_gives_cancelled_and_keeps_what_was_spent() {
    let place = Place::new().await;
    // Slow enough that something is under way at each moment.
    place.world.answers_after(Millis(40));
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let mut cancelled = 0;
    for kind in stages(&place, &client).await {
        let filter = EventFilter {
            kind: Some(kind.clone()),
            ..EventFilter::default()
        };
        let mut feed = client.feed(&tenant(), &filter).await.unwrap();
        let key = format!("at-{}", kind.replace('.', "-"));
        let started = client.start(&tenant(), &comparison(&key)).await.unwrap();
        while feed.next().await.unwrap().tree != started.tree {}
        let cancel = CancelRequest {
            run: started.run.clone(),
            why: "enough".to_owned(),
            by: "user:test".to_owned(),
        };
        let told = client.cancel(&tenant(), &cancel).await.unwrap();
        let run = ended(&client, &started.run).await;
        let used = run.account.used;
        let end = run.ended.unwrap();
        let counts = place.counts(&client, &started).await;
        assert_eq!(counts.of("run.opened"), counts.of("run.ended"), "{kind}");
        if told.recorded {
            cancelled += 1;
            assert_eq!(end.reason, Reason::Cancelled, "{kind}");
            assert_eq!(counts.of("run.cancel_settled"), 1, "{kind}");
            // Each answer of a model or a tool was a step.
            let least = counts.of("model.proposed") + counts.of("effect.landed");
            assert!(used.steps >= u64::from(least), "{kind}: {:?}", used);
        } else {
            assert_eq!(end.reason, Reason::Succeeded, "{kind}");
        }
        whole(&client, &started).await;
    }
    assert!(cancelled >= 6, "{cancelled}");
    host.stop().await;
}
