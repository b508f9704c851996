//! Finding out by key.

use coppice_messages::event::effect::{ResultCheck, Source};

use super::*;

const LONG_AGO: Millis = Millis(60_000);

fn found() -> Reply {
    status(200, &format!("[{TICKET}]"))
}

fn absent() -> Reply {
    status(200, "[]")
}

async fn looked_up(
    replies: impl IntoIterator<Item = Reply>,
    change: impl FnOnce(&mut Tool),
    ago: Millis,
) -> (EffectOutcome, usize) {
    let outside = Outside::start(replies).await;
    let calling = Calling::ticket(&outside.url).with(change);
    let outcome = calling.reconcile(ago).await;
    let key = calling.intended("at:file").key.hex();
    let line = format!("GET /tickets?key={key} HTTP/1.1");
    assert!(
        outside.came().iter().all(|came| came.line == line),
        "it only looks up"
    );
    (outcome, outside.came().len())
}

fn as_it_is(_: &mut Tool) {}

fn quickly(tool: &mut Tool) {
    http(tool).request.timeout = Millis(40);
    http(tool).lookup_by_key.as_mut().unwrap().settles_within = Millis(40);
}

fn not_happened() -> EffectOutcome {
    EffectOutcome::Reconciled {
        landed: None,
        source: Source::Lookup,
    }
}

fn unresolvable(outcome: EffectOutcome) -> String {
    match outcome {
        EffectOutcome::Unresolvable { why } => why,
        other => panic!("it cannot be resolved: {other:?}"),
    }
}

fn landed(
    outcome: EffectOutcome,
) -> (
    coppice_messages::event::effect::Receipt,
    ResultCheck,
    Payload,
) {
    match outcome {
        EffectOutcome::Reconciled {
            landed: Some(landed),
            source: Source::Lookup,
        } => landed,
        other => panic!("it has landed: {other:?}"),
    }
}

#[tokio::test]
async fn what_is_found_has_landed_with_the_result_that_was_found() {
    let (outcome, asked) = looked_up([found()], as_it_is, Millis(0)).await;
    let (receipt, check, value) = landed(outcome);
    assert_eq!(receipt.id.as_deref(), Some("T-1"));
    assert_eq!(check, ResultCheck::Ok);
    assert_eq!(
        value,
        Payload::Inline(Value::parse(TICKET.as_bytes()).unwrap())
    );
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn a_found_result_is_checked_like_any_other() {
    let (outcome, _) = looked_up([status(200, r#"[{"id":"T-1"}]"#)], as_it_is, LONG_AGO).await;
    assert_eq!(landed(outcome).1, ResultCheck::OutputInvalid);
    let large = format!(
        r#"[{{"id":"T-1","version":3,"x":"{}"}}]"#,
        "x".repeat(100_000)
    );
    let (outcome, _) = looked_up([status(200, &large)], as_it_is, LONG_AGO).await;
    assert_eq!(landed(outcome).1, ResultCheck::OutputTooLarge);
}

#[tokio::test]
async fn what_is_absent_for_good_did_not_happen() {
    let (outcome, asked) = looked_up([absent()], as_it_is, LONG_AGO).await;
    assert_eq!(outcome, not_happened());
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn absence_counts_only_once_it_must_have_settled() {
    let (outcome, asked) = looked_up([absent(), absent()], quickly, Millis(0)).await;
    assert_eq!(outcome, not_happened());
    assert_eq!(
        asked, 2,
        "asked again after send_by, timeout and settles_within"
    );
}

#[tokio::test]
async fn what_shows_up_late_has_landed() {
    let (outcome, asked) = looked_up([absent(), found()], quickly, Millis(0)).await;
    assert_eq!(landed(outcome).1, ResultCheck::Ok);
    assert_eq!(asked, 2);
}

#[tokio::test]
async fn absence_that_is_not_final_resolves_nothing() {
    let not_final = |tool: &mut Tool| {
        http(tool).lookup_by_key.as_mut().unwrap().absent_is_final = false;
    };
    let (outcome, _) = looked_up([absent()], not_final, LONG_AGO).await;
    let why = unresolvable(outcome);
    assert!(
        why.contains("does not say that what is absent will stay absent"),
        "{why}"
    );
}

#[tokio::test]
async fn a_look_up_that_is_off_never_means_absent() {
    for (code, body) in [
        (404, r#"{"code":"lookup_off"}"#),
        (404, ""),
        (403, ""),
        (400, ""),
        (302, ""),
    ] {
        let (outcome, asked) = looked_up([status(code, body)], as_it_is, LONG_AGO).await;
        let why = unresolvable(outcome);
        assert!(
            why.contains(&format!("status {code}, which says nothing")),
            "{why}"
        );
        assert_eq!(asked, 1);
    }
}

#[tokio::test]
async fn a_tool_that_does_not_answer_is_asked_again() {
    let replies = [
        Reply::Drop,
        status(500, ""),
        status(429, ""),
        status(503, ""),
        found(),
    ];
    let (outcome, asked) = looked_up(replies, as_it_is, LONG_AGO).await;
    assert_eq!(landed(outcome).1, ResultCheck::Ok);
    assert_eq!(asked, 5);
}

#[tokio::test]
async fn an_answer_that_is_none_resolves_nothing() {
    let (outcome, _) = looked_up([status(200, "<html>")], as_it_is, LONG_AGO).await;
    assert!(unresolvable(outcome).contains("no JSON data"));
    let (outcome, _) = looked_up([status(200, &"x".repeat(1 << 20))], as_it_is, LONG_AGO).await;
    assert!(unresolvable(outcome).contains("larger than a result may be"));
}

#[tokio::test]
async fn a_tool_without_a_look_up_resolves_nothing() {
    let without = |tool: &mut Tool| http(tool).lookup_by_key = None;
    let (outcome, asked) = looked_up([], without, LONG_AGO).await;
    assert_eq!(unresolvable(outcome), "create_ticket has no look-up by key");
    assert_eq!(asked, 0);
}
