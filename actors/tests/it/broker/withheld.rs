//! What is not sent, and why.

use coppice_messages::{Access, Operation};
use coppice_topology::tool::Limits;

use super::*;

/// Sends after the request and what the log shows were changed; nothing may come.
async fn refused(change: impl FnOnce(&mut SendRequest, &Recorder)) -> EffectOutcome {
    let outside = Outside::start([status(200, TICKET)]).await;
    let calling = Calling::ticket(&outside.url);
    let intended = calling.intended("at:file");
    calling.recorder.intend(&intended, 1);
    let mut request = calling.request(intended);
    change(&mut request, &calling.recorder);
    let outcome = calling.broker.send(request).await;
    assert!(outside.came().is_empty(), "nothing was sent");
    outcome
}

async fn withdrawn(change: impl FnOnce(&mut SendRequest, &Recorder)) -> String {
    match refused(change).await {
        EffectOutcome::Withdrawn { why } => why,
        other => panic!("it is withdrawn: {other:?}"),
    }
}

async fn not_sent(change: impl FnOnce(&mut SendRequest, &Recorder)) -> String {
    match refused(change).await {
        EffectOutcome::NotSent { why } => why,
        other => panic!("it is not sent: {other:?}"),
    }
}

fn intended(request: &mut SendRequest) -> &mut Intended {
    Arc::make_mut(&mut request.intended)
}

fn plan(request: &mut SendRequest) -> &mut Plan {
    Arc::make_mut(&mut request.plan)
}

#[tokio::test]
async fn what_the_log_does_not_show_as_open_is_withdrawn() {
    let why = withdrawn(|request, _| {
        intended(request).key = EffectKey(Digest::of(b"made up"));
    });
    assert_eq!(why.await, "the log shows no open intent under this key");
    let why = withdrawn(|request, _| request.run = "another-1".parse().unwrap());
    assert_eq!(why.await, "the log shows no open intent under this key");
}

#[tokio::test]
async fn nothing_leaves_once_a_cancel_of_the_run_or_of_an_ancestor_is_recorded() {
    let why = withdrawn(|_, recorder| recorder.cancel("a cancel of root-1 is recorded")).await;
    assert_eq!(why, "a cancel of root-1 is recorded");
}

#[tokio::test]
async fn an_intent_that_differs_from_the_open_one_is_withdrawn() {
    let differs = |what| format!("the open intent in the log has another {what} than this one");
    let why = withdrawn(|request, _| request.epoch = 2).await;
    assert_eq!(why, differs("epoch"));
    let why = withdrawn(|request, _| intended(request).attempt = 2).await;
    assert_eq!(why, differs("attempt"));
    let why = withdrawn(|request, _| intended(request).action = Digest::ZERO).await;
    assert_eq!(why, differs("action digest"));
    let why = withdrawn(|request, _| {
        intended(request).arguments =
            Payload::Inline(Value::map([("title", Value::from("other"))]));
    });
    assert_eq!(why.await, differs("arguments"));
    let why = withdrawn(|request, _| {
        intended(request).send_by = Timestamp(i64::MAX);
    });
    assert_eq!(why.await, differs("send_by"));
}

#[tokio::test]
async fn an_intent_that_is_gone_when_the_connection_stands_is_withdrawn() {
    // Shown before the request waits for a place and after it, and not when the connection stands.
    let why = withdrawn(|_, recorder| recorder.show_open_intents(2)).await;
    assert_eq!(why, "the log shows no open intent under this key");
}

#[tokio::test]
async fn another_contract_than_the_one_it_was_intended_under_is_withdrawn() {
    let why = withdrawn(|request, _| {
        let tool = intended(request).tool.clone();
        plan(request).tools.get_mut(&tool).unwrap().digest = Digest::ZERO;
    });
    assert!(why.await.contains("under another contract"));
    let why = withdrawn(|request, _| plan(request).tools.clear()).await;
    assert_eq!(why, "create_ticket is not in the release");
}

#[tokio::test]
async fn what_the_contract_gives_nobody_is_withdrawn() {
    let why = withdrawn(|request, _| plan(request).contract.authority.tools.clear()).await;
    assert_eq!(why, "the contract gives nobody create_ticket");
    let why = withdrawn(|request, _| plan(request).contract.authority.access = Access::ReadOnly);
    assert_eq!(
        why.await,
        "create_ticket needs read_write, the contract gives read_only"
    );
    let why = withdrawn(|request, _| {
        plan(request)
            .contract
            .allowed_operations
            .remove(&Operation::Create);
    });
    assert_eq!(why.await, "the contract allows no create");
    let why = withdrawn(|request, _| intended(request).operation = Operation::Read).await;
    assert_eq!(why, "create_ticket does create, not read");
}

#[tokio::test]
async fn a_deadline_that_has_passed_withdraws() {
    let why = withdrawn(|request, _| request.deadline = clock::now()).await;
    assert!(why.contains("the run's deadline"), "{why}");
}

#[tokio::test]
async fn after_send_by_nothing_leaves_and_it_may_be_sent_again() {
    let why = not_sent(|request, recorder| {
        intended(request).send_by = clock::now();
        recorder.intend(&request.intended, 1);
    });
    let why = why.await;
    assert!(
        why.contains("by which it had to leave, has passed"),
        "{why}"
    );
}

#[tokio::test]
async fn arguments_that_do_not_meet_the_schema_are_withdrawn() {
    for (arguments, expected) in [
        (r#"{"title":"","body":1}"#, "/title: "),
        (r#"{"body":1}"#, "\"title\" is a required property"),
        (r#"{"title":"t","body":1,"owner":"me"}"#, "owner"),
        ("[]", "the whole: "),
    ] {
        let outside = Outside::start([status(200, TICKET)]).await;
        let outcome = Calling::of(&outside.url, "create_ticket", arguments)
            .send()
            .await;
        let EffectOutcome::Withdrawn { why } = outcome else {
            panic!("it is withdrawn: {outcome:?}");
        };
        assert!(why.starts_with("arguments of create_ticket: "), "{why}");
        assert!(why.contains(expected), "{why}");
        assert!(outside.came().is_empty());
    }
}

#[tokio::test]
async fn an_argument_that_the_schema_does_not_name_is_refused_also_where_the_schema_is_silent() {
    let calling = Calling::of("http://x", "create_ticket", r#"{"title":"t","owner":"me"}"#);
    let silent = calling.with(|tool| {
        let schema = br#"{"type":"object","properties":{"title":{"type":"string"}}}"#;
        tool.input = Value::parse(schema).unwrap().into();
    });
    let EffectOutcome::Withdrawn { why } = silent.send().await else {
        panic!("it is withdrawn");
    };
    assert_eq!(
        why,
        "arguments of create_ticket: /owner: the tool takes no such argument"
    );
}

#[tokio::test]
async fn arguments_that_are_no_longer_in_the_log_are_withdrawn() {
    let why = withdrawn(|request, recorder| {
        intended(request).arguments = Payload::Blob {
            digest: Digest::of(b"gone"),
            bytes: 70_000,
        };
        recorder.intend(&request.intended, 1);
    });
    assert_eq!(why.await, "the arguments of the intent are not in the log");
}

fn limited(rate_per_minute: Option<u32>, concurrency: Option<u32>) -> impl FnOnce(&mut Tool) {
    move |tool| {
        tool.limits = Some(Limits {
            rate_per_minute,
            concurrency,
        });
    }
}

/// An intent under another key that must leave soon.
fn hasty(calling: &Calling) -> SendRequest {
    let mut intended = calling.intended("at:second");
    intended.send_by = clock::now().plus(Millis(100));
    calling.recorder.intend(&intended, 1);
    calling.request(intended)
}

#[tokio::test]
async fn a_call_beyond_the_tools_concurrency_waits_and_is_not_sent_after_send_by() {
    let (teller, told) = tokio::sync::oneshot::channel();
    let mut outside = Outside::start([Reply::Held(told)]).await;
    let calling = Calling::ticket(&outside.url).with(limited(None, Some(1)));
    let second = async {
        outside.arrival().await;
        let outcome = calling.broker.send(hasty(&calling)).await;
        teller.send(TICKET.to_owned()).unwrap();
        outcome
    };
    let (first, second) = tokio::join!(calling.send(), second);
    assert!(matches!(first, EffectOutcome::Landed { .. }), "{first:?}");
    let EffectOutcome::NoPlace { why } = second else {
        panic!("it is not sent: {second:?}");
    };
    assert!(why.contains("at one time are under way"), "{why}");
    assert_eq!(outside.came().len(), 1);
}

#[tokio::test]
async fn a_call_beyond_the_tools_rate_is_not_sent() {
    let outside = Outside::start([status(200, TICKET)]).await;
    let calling = Calling::ticket(&outside.url).with(limited(Some(1), None));
    calling.send().await;
    let outcome = calling.broker.send(hasty(&calling)).await;
    let EffectOutcome::NoPlace { why } = outcome else {
        panic!("it is not sent: {outcome:?}");
    };
    assert!(why.contains("in a minute are used up"), "{why}");
    assert_eq!(outside.came().len(), 1);
}
