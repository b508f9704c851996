//! Reads that check the outside world.

use coppice_actors::broker::ReadRequest;
use coppice_kernel::command::CheckOutcome;

use super::*;

const NONE: &str = r#"{"count":0,"tickets":[]}"#;

async fn read_with(
    tool: &str,
    arguments: &str,
    replies: impl IntoIterator<Item = Reply>,
) -> (CheckOutcome, usize) {
    let outside = Outside::start(replies).await;
    let calling = Calling::of(&outside.url, tool, arguments);
    let request = ReadRequest {
        plan: Arc::new(calling.plan.clone()),
        tenant: TenantId::default_tenant(),
        run: run(),
        tool: calling.tool.clone(),
        arguments: calling.arguments.clone(),
        trace: None,
    };
    let outcome = calling.broker.read(request).await;
    (outcome, outside.came().len())
}

async fn read(replies: impl IntoIterator<Item = Reply>) -> (CheckOutcome, usize) {
    read_with("find_ticket", r#"{"request_id":"r-17"}"#, replies).await
}

async fn unreadable(reply: Reply) -> String {
    match read([reply]).await {
        (CheckOutcome::Unreadable { why }, 1) => why,
        other => panic!("it is unreadable at once: {other:?}"),
    }
}

#[tokio::test]
async fn a_check_reads_without_an_intent() {
    let value = Value::parse(NONE.as_bytes()).unwrap();
    let seen = CheckOutcome::Read(Payload::Inline(value));
    assert_eq!(read([status(200, NONE)]).await, (seen, 1));
}

#[tokio::test]
async fn a_check_is_read_again_until_there_is_an_answer() {
    let replies = [
        Reply::Drop,
        status(500, ""),
        status(503, ""),
        Reply::Break(200),
        status(200, NONE),
    ];
    let (outcome, asked) = read(replies).await;
    assert!(matches!(outcome, CheckOutcome::Read(_)), "{outcome:?}");
    assert_eq!(asked, 5);
}

#[tokio::test]
async fn what_the_outside_refuses_is_unreadable() {
    let why = unreadable(status(
        404,
        r#"{"code":"not_found","message":"no such ticket"}"#,
    ))
    .await;
    assert_eq!(why, "404 not_found: no such ticket");
    assert!(unreadable(status(302, "")).await.starts_with("302"));
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_unreadable() {
    let why = unreadable(status(200, "{}")).await;
    assert!(why.starts_with("output_invalid: "), "{why}");
    let why = unreadable(status(200, &"x".repeat(2 << 20))).await;
    assert!(why.starts_with("output_too_large: "), "{why}");
}

#[tokio::test]
async fn a_check_cannot_write() {
    let (outcome, asked) = read_with("create_ticket", r#"{"title":"t","body":1}"#, []).await;
    let why = "create_ticket does create: a check only reads".to_owned();
    assert_eq!(outcome, CheckOutcome::Unreadable { why });
    assert_eq!(asked, 0);
}

#[tokio::test]
async fn a_check_with_bad_arguments_is_unreadable() {
    let (outcome, asked) = read_with("find_ticket", r#"{"request_id":""}"#, []).await;
    assert!(
        matches!(outcome, CheckOutcome::Unreadable { .. }),
        "{outcome:?}"
    );
    assert_eq!(asked, 0);
}
