//! Tools that are functions of the host's own program: the same mediation as over HTTP.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use coppice_actors::broker::{InProcessTool, NoAnswer, ToolCall, ToolFailure, ToolFuture};
use coppice_messages::event::effect::{ResultCheck, Source};
use coppice_topology::tool::{InProcess, InProcessLookup, OnUnknown, ReceiptPointers};

use super::*;

type Said = Result<Value, ToolFailure>;

/// A function that says what it is told to, and counts.
#[derive(Default)]
struct Desk {
    says: Mutex<Vec<Said>>,
    panics: bool,
    holds: bool,
    shows: Mutex<Vec<Result<Option<Value>, NoAnswer>>>,
    calls: Mutex<Vec<ToolCall>>,
    looks: AtomicU32,
    dropped: AtomicBool,
}

struct Dropped(Arc<Desk>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.dropped.store(true, Ordering::Release);
    }
}

struct Function(Arc<Desk>);

impl InProcessTool for Function {
    fn call(&self, call: ToolCall) -> ToolFuture<'_, Said> {
        let desk = self.0.clone();
        Box::pin(async move {
            desk.calls.lock().unwrap().push(call);
            let _dropped = Dropped(desk.clone());
            assert!(!desk.panics, "the desk is on fire");
            if desk.holds {
                std::future::pending::<()>().await;
            }
            desk.says.lock().unwrap().remove(0)
        })
    }

    fn look_up(&self, _: ToolCall) -> ToolFuture<'_, Result<Option<Value>, NoAnswer>> {
        self.0.looks.fetch_add(1, Ordering::AcqRel);
        let seen = self.0.shows.lock().unwrap().remove(0);
        Box::pin(async { seen })
    }
}

fn ticket() -> Value {
    Value::parse(TICKET.as_bytes()).unwrap()
}

/// `create_ticket` as the function of this desk, on a host that began at this position.
fn calling(desk: &Arc<Desk>, begins_at: u64) -> Calling {
    let (mut plan, recorder) = released("incident-comparison");
    alone(&mut plan);
    let broker = ToolBroker::new(BrokerOptions {
        record: recorder.clone(),
        endpoints: std::collections::BTreeMap::new(),
        tools: InProcessTools::new().with("desk", Function(desk.clone())),
        schemas: Schemas::new(),
        policies: Policies::none(),
        signer: None,
        own: BTreeSet::new(),
        credentials: BTreeSet::new(),
        secrets: Secrets::default(),
        begins_at,
    });
    let arguments = br#"{"title":"Differences","body":[],"request_id":"r-17"}"#;
    let calling = Calling {
        broker: broker.unwrap(),
        recorder,
        plan,
        tool: "create_ticket".parse().unwrap(),
        arguments: Value::parse(arguments).unwrap(),
    };
    calling.with(|tool| {
        tool.transport = Transport::InProcess(InProcess {
            function: "desk".to_owned(),
            timeout: Millis(200),
            max_bytes: Bytes(1024),
            receipt: ReceiptPointers {
                id: Some("/id".to_owned()),
                version: Some("/version".to_owned()),
            },
            lookup_by_key: Some(InProcessLookup {
                absent_is_final: true,
                settles_within: Millis(0),
            }),
            deduplicates: false,
            on_unknown: OnUnknown::Reconcile,
        });
    })
}

async fn said(said: Said) -> (EffectOutcome, Arc<Desk>) {
    let desk = Arc::new(Desk {
        says: Mutex::new(vec![said]),
        ..Desk::default()
    });
    (calling(&desk, 0).send().await, desk)
}

#[tokio::test]
async fn what_a_function_gives_has_landed_with_its_receipt() {
    let (outcome, desk) = said(Ok(ticket())).await;
    let EffectOutcome::Landed {
        receipt,
        result,
        value,
        usage,
    } = outcome
    else {
        panic!("it has landed");
    };
    assert_eq!(receipt.id.as_deref(), Some("T-1"));
    assert_eq!(receipt.version.as_deref(), Some("3"));
    assert_eq!(
        (result, value),
        (ResultCheck::Ok, Payload::Inline(ticket()))
    );
    assert_eq!((usage.steps, usage.network), (1, 0));
    let calls = desk.calls.lock().unwrap();
    assert_eq!(calls.len(), 1);
    let key = calling(&desk, 0).intended("at:file").key;
    assert_eq!(calls[0].key, Some(key));
}

#[tokio::test]
async fn a_result_that_is_not_what_the_contract_says_has_landed_and_cannot_be_used() {
    let (outcome, _) = said(Ok(Value::from("no ticket"))).await;
    let EffectOutcome::Landed { result, value, .. } = outcome else {
        panic!("it has landed");
    };
    assert_eq!(result, ResultCheck::OutputInvalid);
    assert_eq!(value, Payload::Inline(Value::Null));
    let (outcome, _) = said(Ok(Value::from("x".repeat(2000).as_str()))).await;
    let EffectOutcome::Landed { result, .. } = outcome else {
        panic!("it has landed");
    };
    assert_eq!(result, ResultCheck::OutputTooLarge);
}

#[tokio::test]
async fn a_failure_of_a_function_keeps_its_meaning() {
    let declined = ToolFailure::Declined {
        code: "closed".to_owned(),
        message: "the queue is closed".to_owned(),
    };
    let (outcome, _) = said(Err(declined)).await;
    assert!(matches!(outcome, EffectOutcome::Declined { code, .. } if code == "closed"));
    let retryable = ToolFailure::Retryable {
        code: "busy".to_owned(),
        after: Some(Duration::from_secs(2)),
    };
    let (outcome, _) = said(Err(retryable)).await;
    assert!(
        matches!(outcome, EffectOutcome::Retryable { retry_after, .. } if retry_after == Some(Millis(2000)))
    );
    let why = || "the line is dead".to_owned();
    let (outcome, _) = said(Err(ToolFailure::NotDone { why: why() })).await;
    assert_eq!(outcome, EffectOutcome::NotSent { why: why() });
    let (outcome, _) = said(Err(ToolFailure::Unknown { why: why() })).await;
    assert_eq!(outcome, EffectOutcome::Unknown { why: why() });
}

#[tokio::test]
async fn what_a_function_did_that_panics_is_unknown() {
    let desk = Arc::new(Desk {
        panics: true,
        ..Desk::default()
    });
    let outcome = calling(&desk, 0).send().await;
    let EffectOutcome::Unknown { why } = outcome else {
        panic!("it is unknown: {outcome:?}");
    };
    assert_eq!(why, "the function panicked: the desk is on fire");
}

#[tokio::test]
async fn a_function_that_outlasts_its_timeout_is_dropped_and_unknown() {
    let desk = Arc::new(Desk {
        holds: true,
        ..Desk::default()
    });
    let outcome = calling(&desk, 0).send().await;
    let why = "no result within 200ms".to_owned();
    assert_eq!(outcome, EffectOutcome::Unknown { why });
    assert!(desk.dropped.load(Ordering::Acquire));
}

#[tokio::test]
async fn a_function_is_not_called_when_the_log_does_not_show_its_intent_or_shows_a_cancel() {
    let desk = Arc::new(Desk::default());
    let calling = calling(&desk, 0);
    let outcome = calling
        .broker
        .send(calling.request(calling.intended("at:file")))
        .await;
    assert!(matches!(outcome, EffectOutcome::Withdrawn { .. }));
    calling.recorder.cancel("a cancel of root-1 is recorded");
    assert!(matches!(
        calling.send().await,
        EffectOutcome::Withdrawn { .. }
    ));
    assert!(desk.calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_last_look_is_taken_right_before_the_function() {
    let desk = Arc::new(Desk::default());
    let calling = calling(&desk, 0);
    // Before and after waiting for a place it is there, at the last look it is not.
    calling.recorder.show_open_intents(2);
    assert!(matches!(
        calling.send().await,
        EffectOutcome::Withdrawn { .. }
    ));
    assert!(desk.calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_function_that_the_host_does_not_have_is_not_called() {
    let desk = Arc::new(Desk::default());
    let calling = calling(&desk, 0).with(|tool| match &mut tool.transport {
        Transport::InProcess(function) => function.function = "bureau".to_owned(),
        Transport::Http(_) => panic!("it is a function"),
    });
    let EffectOutcome::Withdrawn { why } = calling.send().await else {
        panic!("it is withdrawn");
    };
    assert!(
        why.contains(
            r#"the function "bureau" of the host's own program, and this host has only desk"#
        ),
        "{why}"
    );
}

async fn reconciled(
    shows: impl IntoIterator<Item = Result<Option<Value>, NoAnswer>>,
    begins_at: u64,
) -> (EffectOutcome, Duration, u32) {
    let desk = Arc::new(Desk {
        shows: Mutex::new(shows.into_iter().collect()),
        ..Desk::default()
    });
    let calling = calling(&desk, begins_at);
    // As `create_ticket` was intended just now, at position 1.
    let mut intended = calling.intended("at:file");
    intended.send_by = clock::now().plus(Millis(300));
    calling.recorder.intend(&intended, 1);
    let from = clock::mono();
    let outcome = calling.broker.reconcile(calling.request(intended)).await;
    (outcome, from.elapsed(), desk.looks.load(Ordering::Acquire))
}

#[tokio::test]
async fn a_function_that_shows_the_effect_settles_the_doubt() {
    let silent = Err(NoAnswer("not now".to_owned()));
    let (outcome, _, looks) = reconciled([silent, Ok(Some(ticket()))], 0).await;
    let EffectOutcome::Reconciled {
        landed: Some((receipt, ..)),
        source: Source::Lookup,
    } = outcome
    else {
        panic!("it is reconciled: {outcome:?}");
    };
    assert_eq!((receipt.id.as_deref(), looks), (Some("T-1"), 2));
}

#[tokio::test]
async fn what_a_process_that_is_gone_intended_and_is_absent_did_not_happen_at_once() {
    let (outcome, _, looks) = reconciled([Ok(None)], 1).await;
    let not_happened = EffectOutcome::Reconciled {
        landed: None,
        source: Source::Lookup,
    };
    assert_eq!((outcome, looks), (not_happened, 1));
}

#[tokio::test]
async fn absence_of_what_this_process_intended_counts_only_after_send_by_and_timeout() {
    let (outcome, took, looks) = reconciled([Ok(None), Ok(None)], 0).await;
    assert!(matches!(
        outcome,
        EffectOutcome::Reconciled { landed: None, .. }
    ));
    assert_eq!(looks, 2, "the first one was too early to count");
    assert!(took >= Duration::from_millis(500), "{took:?}");
}
