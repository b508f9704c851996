//! What an answer means.

use coppice_messages::{
    Operation,
    event::effect::{Receipt, ResultCheck},
};
use coppice_topology::tool::{Attempts, ErrorRow, Meaning};

use super::*;
use crate::outside::nobody;

/// The outcome in one word, with its code or class.
fn word(outcome: &EffectOutcome) -> String {
    match outcome {
        EffectOutcome::Landed { result, .. } => format!("landed {result:?}"),
        EffectOutcome::Declined { code, .. } => format!("declined {code}"),
        EffectOutcome::Retryable { code, .. } => format!("retryable {code}"),
        EffectOutcome::NotSent { .. } => "not sent".to_owned(),
        EffectOutcome::NoPlace { .. } => "no place".to_owned(),
        EffectOutcome::Withdrawn { .. } => "withdrawn".to_owned(),
        EffectOutcome::Denied(_) => "denied".to_owned(),
        EffectOutcome::Unknown { .. } => "unknown".to_owned(),
        EffectOutcome::Reconciled { .. } => "reconciled".to_owned(),
        EffectOutcome::Unresolvable { .. } => "unresolvable".to_owned(),
    }
}

async fn check(change: impl FnOnce(&mut Tool), reply: Reply, expected: &str) {
    let outside = Outside::start([reply]).await;
    let calling = Calling::ticket(&outside.url).with(change);
    assert_eq!(word(&calling.send().await), expected);
    assert_eq!(outside.came().len(), 1, "one request, whatever it comes to");
}

fn as_it_is(_: &mut Tool) {}

fn without_rows(tool: &mut Tool) {
    http(tool).errors.clear();
}

fn never_again(tool: &mut Tool) {
    http(tool).errors.clear();
    tool.idempotency.attempts = Attempts::AtMostOnce;
}

fn row(status: u16, code: Option<&str>, meaning: Meaning) -> impl FnOnce(&mut Tool) {
    let row = ErrorRow {
        status,
        code: code.map(str::to_owned),
        meaning,
    };
    |tool| http(tool).errors.insert(0, row)
}

#[tokio::test]
async fn a_good_answer_has_landed_with_its_receipt() {
    let EffectOutcome::Landed {
        receipt,
        result,
        value,
        usage,
    } = outcome_of(status(200, TICKET)).await
    else {
        panic!("it has landed");
    };
    let ticket = Value::parse(TICKET.as_bytes()).unwrap();
    let expected = Receipt {
        id: Some("T-1".to_owned()),
        version: Some("3".to_owned()),
        result: ticket.digest(),
    };
    assert_eq!(receipt, expected);
    assert_eq!((result, value), (ResultCheck::Ok, Payload::Inline(ticket)));
    assert_eq!(usage.steps, 1);
    assert_eq!(usage.operations, [(Operation::Create, 1)].into());
    assert!(usage.network > TICKET.len() as u64, "{}", usage.network);
}

#[tokio::test]
async fn without_a_row_a_business_refusal_is_declined() {
    check(without_rows, status(400, ""), "declined 400").await;
    check(without_rows, status(404, ""), "declined 404").await;
    check(
        without_rows,
        status(422, r#"{"code":"shut"}"#),
        "declined 422 shut",
    )
    .await;
}

#[tokio::test]
async fn a_refusal_keeps_the_words_of_the_outside_up_to_a_bound() {
    let body = format!(
        r#"{{"code":"key_conflict","message":"{}"}}"#,
        "x".repeat(5_000)
    );
    let EffectOutcome::Declined { code, message, .. } = outcome_of(status(409, &body)).await else {
        panic!("it is declined");
    };
    assert_eq!(code, "409 key_conflict");
    assert_eq!(message.chars().count(), 301);
}

#[tokio::test]
async fn without_a_row_not_now_is_retryable_only_for_a_tool_that_deduplicates() {
    for code in [408, 429, 503] {
        check(without_rows, status(code, ""), &format!("retryable {code}")).await;
        check(never_again, status(code, ""), "unknown").await;
    }
}

#[tokio::test]
async fn without_a_row_any_other_error_of_the_server_is_unknown() {
    check(without_rows, status(500, ""), "unknown").await;
    check(without_rows, status(502, ""), "unknown").await;
}

#[tokio::test]
async fn the_error_table_decides_before_the_general_rules() {
    check(
        row(500, None, Meaning::Declined),
        status(500, ""),
        "declined 500",
    )
    .await;
    check(row(404, None, Meaning::Unknown), status(404, ""), "unknown").await;
    check(
        row(404, None, Meaning::Retryable),
        status(404, ""),
        "retryable 404",
    )
    .await;
    check(
        row(409, None, Meaning::Landed),
        status(409, TICKET),
        "landed Ok",
    )
    .await;
}

#[tokio::test]
async fn a_row_with_a_code_decides_only_about_that_code() {
    let busy = || row(409, Some("busy"), Meaning::Retryable);
    check(
        busy(),
        status(409, r#"{"code":"busy"}"#),
        "retryable 409 busy",
    )
    .await;
    check(
        busy(),
        status(409, r#"{"code":"shut"}"#),
        "declined 409 shut",
    )
    .await;
    check(busy(), status(409, "no JSON"), "declined 409").await;
}

#[tokio::test]
async fn how_long_the_outside_asks_to_wait_is_kept() {
    let outcome = outcome_of(Reply::With(429, "retry-after: 7", String::new())).await;
    let EffectOutcome::Retryable { retry_after, .. } = outcome else {
        panic!("it is retryable: {outcome:?}");
    };
    assert_eq!(retry_after, Some(Millis(7_000)));
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_says_nothing() {
    let to = Reply::With(307, "location: /elsewhere", String::new());
    check(as_it_is, to, "unknown").await;
}

#[tokio::test]
async fn nobody_who_listens_is_not_sent() {
    let calling = Calling::ticket(&nobody().await);
    assert_eq!(word(&calling.send().await), "not sent");
}

#[tokio::test]
async fn an_endpoint_that_is_no_host_is_not_sent() {
    let calling = Calling::ticket("http://nowhere.invalid:1");
    assert_eq!(word(&calling.send().await), "not sent");
}

#[tokio::test]
async fn a_connection_that_closes_without_an_answer_is_unknown() {
    check(as_it_is, Reply::Drop, "unknown").await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_unknown_whatever_its_status() {
    check(as_it_is, Reply::Break(200), "unknown").await;
    check(as_it_is, Reply::Break(409), "unknown").await;
}

#[tokio::test]
async fn no_answer_within_the_timeout_is_unknown() {
    let (_teller, told) = tokio::sync::oneshot::channel();
    let hasty = |tool: &mut Tool| http(tool).request.timeout = Millis(50);
    check(hasty, Reply::Held(told), "unknown").await;
}

#[tokio::test]
async fn an_answer_that_is_too_large_has_landed_and_cannot_be_used() {
    let huge = || {
        format!(
            r#"{{"id":"T-1","version":3,"padding":"{}"}}"#,
            "x".repeat(10 << 20)
        )
    };
    for reply in [status(200, &huge()), Reply::Unmeasured(huge())] {
        let outcome = outcome_of(reply).await;
        let EffectOutcome::Landed {
            result,
            value,
            usage,
            ..
        } = outcome
        else {
            panic!("it has landed");
        };
        assert_eq!(result, ResultCheck::OutputTooLarge);
        assert_eq!(value, Payload::Inline(Value::Null));
        assert!(usage.network <= 64 * 1024, "never more than was reserved");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_what_the_contract_says_has_landed_and_cannot_be_used() {
    for body in [
        r#"{"id":"T-1"}"#,
        "",
        "no JSON",
        r#"{"id":"T-1","version":3,"version":4}"#,
    ] {
        check(as_it_is, status(200, body), "landed OutputInvalid").await;
    }
}

#[tokio::test]
async fn an_unusable_answer_keeps_the_receipt_that_it_has() {
    let outcome = outcome_of(status(200, r#"{"id":"T-1"}"#)).await;
    let EffectOutcome::Landed { receipt, value, .. } = outcome else {
        panic!("it has landed");
    };
    assert_eq!(receipt.id.as_deref(), Some("T-1"));
    assert_eq!(value, Payload::Inline(Value::Null));
}

#[tokio::test]
async fn a_large_result_is_stored_before_it_is_told() {
    let body = format!(
        r#"{{"id":"T-1","version":3,"text":"{}"}}"#,
        "x".repeat(100_000)
    );
    let outside = Outside::start([status(200, &body)]).await;
    let calling =
        Calling::ticket(&outside.url).with(|tool| http(tool).request.max_bytes = Bytes(1 << 20));
    let outcome = calling.send().await;
    let EffectOutcome::Landed {
        value: Payload::Blob { digest, .. },
        ..
    } = outcome
    else {
        panic!("it has landed with a blob");
    };
    let blob = coppice_actors::record::Record::blob(
        &*calling.recorder,
        &TenantId::default_tenant(),
        &digest,
    );
    assert_eq!(
        blob.map(|blob| blob.to_vec()),
        Some(Value::parse(body.as_bytes()).unwrap().canonical())
    );
}

#[tokio::test]
async fn of_a_read_not_now_is_retryable_and_a_lost_answer_is_unknown() {
    let read = |reply| async {
        let outside = Outside::start([reply]).await;
        let calling = Calling::of(&outside.url, "read_incident", r#"{"id":"i"}"#);
        word(&calling.send().await)
    };
    assert_eq!(read(status(429, "")).await, "retryable 429");
    assert_eq!(read(status(500, "")).await, "unknown");
    assert_eq!(read(Reply::Drop).await, "unknown");
    assert_eq!(read(status(302, "")).await, "declined 302");
}
