//! What is read of the world before an effect leaves and after it landed.

use coppice_kernel::command::ProbeOutcome;
use coppice_messages::event::effect::Receipt;
use coppice_topology::tool::{Method, Probe, Resource, VersionRead};

use super::*;

const OPEN: &str = r#"{"id":"support","open":true}"#;
const SHUT: &str = r#"{"id":"support","open":false}"#;

fn probe(url: &str, expect: &str) -> Option<Probe> {
    let expect = serde_json::from_str(expect).unwrap();
    Some(Probe {
        method: Method::Get,
        url: url.to_owned(),
        expect,
    })
}

fn queue_is_open(tool: &mut Tool) {
    tool.precondition = probe(
        "{desk}/queues/support",
        r#"{"eq":[{"from":"body","at":"/open"},true]}"#,
    );
}

fn title_is_there(tool: &mut Tool) {
    tool.postcondition = probe(
        "{desk}/tickets/{receipt.id}",
        r#"{"eq":[{"from":"body","at":"/title"},{"from":"arguments","at":"/title"}]}"#,
    );
    http(tool).lookup_by_key.as_mut().unwrap().settles_within = Millis(60);
}

/// What a create_ticket comes to before which the queue must be open.
async fn sent(replies: impl IntoIterator<Item = Reply>) -> (EffectOutcome, Vec<String>) {
    let outside = Outside::start(replies).await;
    let calling = Calling::ticket(&outside.url).with(queue_is_open);
    let outcome = calling.send().await;
    (outcome, lines(&outside))
}

fn lines(outside: &Outside) -> Vec<String> {
    outside.came().into_iter().map(|came| came.line).collect()
}

const LOOK: &str = "GET /queues/support HTTP/1.1";

#[tokio::test]
async fn what_must_hold_before_is_read_right_before_the_call() {
    let (outcome, lines) = sent([status(200, OPEN), status(200, TICKET)]).await;
    assert!(
        matches!(outcome, EffectOutcome::Landed { .. }),
        "{outcome:?}"
    );
    assert_eq!(lines, [LOOK, "POST /tickets HTTP/1.1"]);
}

#[tokio::test]
async fn a_precondition_that_does_not_hold_withdraws_the_effect_and_names_what_was_wanted_and_found()
 {
    for (reply, found) in [
        (status(200, SHUT), "expected true, found false"),
        (
            status(404, ""),
            "expected true, found status 404 at /queues/support",
        ),
        (
            status(403, ""),
            "it cannot be read: /queues/support answers with status 403",
        ),
        (
            status(200, "<html>"),
            "it cannot be read: the answer of /queues/support is no JSON data",
        ),
    ] {
        let (outcome, lines) = sent([reply]).await;
        let why = format!("precondition: {found}");
        assert_eq!(outcome, EffectOutcome::Withdrawn { why });
        assert_eq!(lines, [LOOK], "nothing was sent");
    }
}

#[tokio::test]
async fn a_lost_answer_about_a_precondition_is_asked_for_again() {
    let replies = [
        Reply::Drop,
        status(503, ""),
        status(200, OPEN),
        status(200, TICKET),
    ];
    let (outcome, lines) = sent(replies).await;
    assert!(
        matches!(outcome, EffectOutcome::Landed { .. }),
        "{outcome:?}"
    );
    assert_eq!(lines.len(), 4);
}

#[tokio::test]
async fn a_precondition_that_cannot_be_read_in_time_lets_nothing_out() {
    let outside = Outside::start([]).await;
    let calling = Calling::ticket(&outside.url).with(queue_is_open);
    let mut intended = calling.intended("at:file");
    intended.send_by = clock::now().plus(Millis(200));
    calling.recorder.intend(&intended, 1);
    let outcome = calling.broker.send(calling.request(intended)).await;
    let EffectOutcome::NotSent { why } = outcome else {
        panic!("it is not sent: {outcome:?}");
    };
    assert_eq!(
        why,
        "precondition: it could not be read in time: status 500"
    );
    assert!(lines(&outside).iter().all(|line| line == LOOK));
}

/// What the world shows of a ticket that landed.
async fn probed(replies: impl IntoIterator<Item = Reply>) -> (ProbeOutcome, Vec<String>) {
    let outside = Outside::start(replies).await;
    let calling = Calling::ticket(&outside.url).with(title_is_there);
    let receipt = Receipt {
        id: Some("T 1".to_owned()),
        ..Receipt::default()
    };
    let request = calling.request(calling.intended("at:file"));
    let outcome = calling.broker.probe(request, receipt).await;
    (outcome, lines(&outside))
}

fn shown(title: &str) -> Reply {
    status(200, &format!(r#"{{"id":"T 1","title":"{title}"}}"#))
}

#[tokio::test]
async fn what_the_world_shows_is_kept_as_it_was_read() {
    let (outcome, lines) = probed([shown("Differences")]).await;
    let ProbeOutcome::Holds(Payload::Inline(seen)) = outcome else {
        panic!("it is there: {outcome:?}");
    };
    assert_eq!(seen.at("/id").and_then(Value::as_text), Some("T 1"));
    assert_eq!(lines, ["GET /tickets/T%201 HTTP/1.1"]);
}

#[tokio::test]
async fn what_shows_up_within_the_time_that_the_contract_gives_is_there() {
    let replies = [status(404, ""), shown("Draft"), shown("Differences")];
    let (outcome, lines) = probed(replies).await;
    assert!(matches!(outcome, ProbeOutcome::Holds(_)), "{outcome:?}");
    assert_eq!(lines.len(), 3);
}

#[tokio::test]
async fn what_the_world_still_does_not_show_then_contradicts_the_tool() {
    let (outcome, lines) = probed((0..20).map(|_| shown("Draft"))).await;
    let contradicted = |seen: &str| ProbeOutcome::Contradicted {
        expected: r#""Differences""#.to_owned(),
        seen: seen.to_owned(),
    };
    assert_eq!(outcome, contradicted(r#""Draft""#));
    assert!(lines.len() >= 2, "it had the time to show it");
    let (outcome, _) = probed((0..20).map(|_| status(404, ""))).await;
    assert_eq!(outcome, contradicted("status 404 at /tickets/T%201"));
}

#[tokio::test]
async fn a_lost_answer_about_a_postcondition_says_nothing_and_is_asked_for_again() {
    let lost = (0..4).map(|_| status(503, ""));
    let (outcome, lines) = probed(lost.chain([Reply::Drop, shown("Differences")])).await;
    assert!(matches!(outcome, ProbeOutcome::Holds(_)), "{outcome:?}");
    assert_eq!(lines.len(), 6);
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_neither_there_nor_contradicted() {
    let (outcome, _) = probed([status(401, "")]).await;
    let ProbeOutcome::Unreadable { why } = outcome else {
        panic!("nobody knows: {outcome:?}");
    };
    assert_eq!(why, "/tickets/T%201 answers with status 401");
}

#[tokio::test]
async fn a_receipt_without_what_the_address_needs_leaves_it_unread() {
    let outside = Outside::start([]).await;
    let calling = Calling::ticket(&outside.url).with(title_is_there);
    let request = calling.request(calling.intended("at:file"));
    let outcome = calling.broker.probe(request, Receipt::default()).await;
    let ProbeOutcome::Unreadable { why } = outcome else {
        panic!("nobody knows: {outcome:?}");
    };
    assert!(why.contains("needs the receipt's id"), "{why}");
    assert!(outside.came().is_empty());
}

fn ticket_is_seen(tool: &mut Tool) {
    tool.resource = Some(Resource {
        kind: "ticket".to_owned(),
        id: "{arguments.id}".to_owned(),
        version: Some(VersionRead {
            method: Method::Get,
            url: "{desk}/tickets/{arguments.id}".to_owned(),
            at: "/version".to_owned(),
        }),
    });
}

async fn closed(replies: impl IntoIterator<Item = Reply>) -> (EffectOutcome, Outside) {
    let outside = Outside::start(replies).await;
    let calling = Calling::of(&outside.url, "close_ticket", r#"{"id":"a b"}"#);
    let outcome = calling.with(ticket_is_seen).send().await;
    (outcome, outside)
}

#[tokio::test]
async fn the_tool_is_told_what_it_is_called_about_and_in_which_version_that_was_seen() {
    let seen = status(200, r#"{"id":"a b","version":7}"#);
    let (_, outside) = closed([seen, status(200, TICKET)]).await;
    let headers = &outside.came()[1].headers;
    assert!(
        headers.contains("coppice-resource: ticket/a%20b"),
        "{headers}"
    );
    assert!(headers.contains("coppice-resource-version: 7"), "{headers}");
}

#[tokio::test]
async fn a_resource_that_is_not_there_or_has_no_version_is_not_acted_upon() {
    for (reply, found) in [
        (status(404, ""), "status 404 at /tickets/a%20b"),
        (status(200, "{}"), "its answer has no version at /version"),
    ] {
        let (outcome, outside) = closed([reply]).await;
        let why = format!("resource version: ticket a%20b: {found}");
        assert_eq!(outcome, EffectOutcome::Withdrawn { why });
        assert_eq!(outside.came().len(), 1);
    }
}
