//! What leaves.

use super::*;

async fn sent(
    calling: impl FnOnce(&str) -> Calling,
) -> (EffectOutcome, Option<crate::outside::Came>) {
    let outside = Outside::start([status(200, "{}")]).await;
    let outcome = calling(&outside.url).send().await;
    (outcome, outside.came().pop())
}

/// The line of the request that a read tool with this address sends for these arguments, or why nothing leaves.
async fn line(address: &str, arguments: &str) -> Result<String, String> {
    let (outcome, came) = sent(|url| {
        Calling::of(url, "read_incident", arguments).with(|tool| {
            http(tool).request.url = address.to_owned();
            tool.input = Value::map([
                ("type", Value::from("object")),
                ("additionalProperties", Value::Bool(true)),
            ])
            .into();
        })
    })
    .await;
    match (outcome, came) {
        (EffectOutcome::Withdrawn { why }, None) => Err(why),
        (EffectOutcome::Withdrawn { .. }, Some(_)) => panic!("withdrawn and sent"),
        (_, came) => Ok(came.unwrap().line),
    }
}

#[tokio::test]
async fn a_write_carries_canonical_arguments_key_and_tenant() {
    let (_, came) = sent(Calling::ticket).await;
    let came = came.unwrap();
    assert_eq!(came.line, "POST /tickets HTTP/1.1");
    assert_eq!(
        came.body,
        r#"{"body":[],"request_id":"r-17","title":"Differences"}"#
    );
    let key = Calling::ticket("http://x").intended("at:file").key.hex();
    for header in [
        format!("idempotency-key: {key}"),
        "coppice-tenant: default".to_owned(),
        "content-type: application/json".to_owned(),
    ] {
        assert!(
            came.headers.contains(&header),
            "{header} in {}",
            came.headers
        );
    }
}

#[tokio::test]
async fn the_trace_is_passed_on() {
    let outside = Outside::start([status(200, TICKET)]).await;
    let calling = Calling::ticket(&outside.url);
    let intended = calling.intended("at:file");
    calling.recorder.intend(&intended, 1);
    let mut request = calling.request(intended);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    request.trace = Some(trace.to_owned());
    calling.broker.send(request).await;
    assert!(
        outside.came()[0]
            .headers
            .contains(&format!("traceparent: {trace}"))
    );
}

#[tokio::test]
async fn a_value_in_an_address_adds_no_segment_and_no_parameter() {
    let sent = line(
        "{desk}/incidents/{arguments.id}",
        r#"{"id":"a/b?c=d&e#f g%2e"}"#,
    )
    .await;
    assert_eq!(
        sent.unwrap(),
        "GET /incidents/a%2Fb%3Fc%3Dd%26e%23f%20g%252e HTTP/1.1"
    );
    let sent = line("{desk}/runbooks?q={arguments.text}", r#"{"text":"ä+=&"}"#).await;
    assert_eq!(sent.unwrap(), "GET /runbooks?q=%C3%A4%2B%3D%26 HTTP/1.1");
}

#[tokio::test]
async fn numbers_and_booleans_stand_in_an_address_as_they_are() {
    let sent = line(
        "{desk}/p/{arguments.n}?b={arguments.b}",
        r#"{"n":-7,"b":true}"#,
    )
    .await;
    assert_eq!(sent.unwrap(), "GET /p/-7?b=true HTTP/1.1");
}

#[tokio::test]
async fn a_value_that_leads_to_another_resource_is_refused() {
    for id in ["..", ".", ""] {
        let why = line(
            "{desk}/incidents/{arguments.id}/text",
            &format!(r#"{{"id":"{id}"}}"#),
        )
        .await;
        let expected = format!("the address of read_incident would have the path segment {id:?}");
        assert_eq!(why, Err(expected));
    }
    let why = line(
        "{desk}/i/{arguments.a}{arguments.b}",
        r#"{"a":".","b":"."}"#,
    )
    .await;
    assert!(why.is_err(), "{why:?}");
}

#[tokio::test]
async fn an_empty_value_may_stand_in_a_query() {
    let sent = line("{desk}/runbooks?q={arguments.text}", r#"{"text":""}"#).await;
    assert_eq!(sent.unwrap(), "GET /runbooks?q= HTTP/1.1");
}

#[tokio::test]
async fn an_address_that_cannot_be_filled_is_refused_with_what_is_missing() {
    let why = line("{desk}/i/{arguments.id}", "{}").await;
    assert_eq!(
        why.unwrap_err(),
        "the address of read_incident needs the argument id, which is not given"
    );
    let why = line("{desk}/i/{arguments.id}", r#"{"id":[]}"#).await;
    assert!(
        why.unwrap_err()
            .contains("must be text, a number or a boolean")
    );
    let why = line("{bank}/i", "{}").await;
    assert_eq!(
        why.unwrap_err(),
        "the address of read_incident needs {bank}, and this host knows no such endpoint; known are: {desk}"
    );
}

#[tokio::test]
async fn a_write_gets_a_connection_of_its_own() {
    let kept = || Reply::Kept(TICKET.to_owned());
    let outside = Outside::start([kept(), kept()]).await;
    let calling = Calling::ticket(&outside.url);
    calling.send().await;
    let second = calling.intended("at:second");
    calling.recorder.intend(&second, 1);
    calling.broker.send(calling.request(second)).await;
    let connections: Vec<_> = outside.came().iter().map(|came| came.connection).collect();
    assert_eq!(connections, [0, 1]);
}
