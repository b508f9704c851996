//! Callbacks over HTTP and the API, to runs awake, asleep, ended and dead, and those that are nobody's.

use std::time::Duration;

use coppice_actors::{
    api::{
        ApiClient, CallOutcome, CallbackRequest, Called, ClientError, Code, Refused, StartRequest,
        Started, TailRequest,
    },
    callback::{CallbackSecrets, SIGNATURE_HEADER},
    endpoint::Endpoint,
    host::{Host, HostError, HostOptions, HttpChoice},
    limits::CALLBACK_BYTES_MAX,
};
use coppice_messages::{
    Millis, Value,
    event::run::Reason,
    ids::{RunId, TenantId},
};
use futures::future::join_all;
use serde_json::json;

use crate::{
    supervision::{supervised, up},
    support::{Place, ended, guard, release, release_of, tenant, whole},
};

/// A tree that files a ticket, waits for the callback about it, and answers with what that says.
pub fn called_back(key: &str) -> StartRequest {
    let yaml = r"
topology: called-back
version: 1
contract: default
result_schema: ticket_ref_v1
input: { type: object, required: [request_id], properties: { request_id: { type: string } } }
nodes:
  file: { call: { tool: create_ticket, arguments: { title: T, body: {}, request_id: { from: input, at: /request_id } } } }
  called: { after: [file], wait: { callback: { of: file, timeout: 10m } } }
  done:
    after: [called]
    end:
      reason: succeeded
      answer: { ticket: { from: called, at: /ticket } }
      evidence: [ { check: find_ticket, arguments: { request_id: { from: input, at: /request_id } }, expect: { eq: [ { from: check, at: /count }, 1 ] } } ]
";
    let input = Value::map([("request_id", Value::Text(format!("r-{key}")))]);
    StartRequest::new(key.parse().unwrap(), &release_of(yaml), input, "user:test").unwrap()
}

/// What was answered: the status, and the callback's fate or the refusal.
pub type Answer = (u16, Result<Called, Refused>);

/// Sends a body to the host of a place, wherever it listens now; none when nobody answers.
async fn post(place: &Place, tenant: &str, body: &str, signature: Option<&str>) -> Option<Answer> {
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = Endpoint::read(place.data.path()).ok()?.http_url;
    let mut request = client
        .post(format!("{url}/callbacks/{tenant}"))
        .timeout(Duration::from_secs(20))
        .body(body.to_owned());
    if let Some(signature) = signature {
        request = request.header(SIGNATURE_HEADER, signature);
    }
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    let text = answer.text().await.ok()?;
    let said = if status == 200 {
        Ok(serde_json::from_str(&text).unwrap())
    } else {
        Err(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
    };
    Some((status, said))
}

/// The same, signed for the tenant.
pub async fn send(place: &Place, of: &str, body: &str) -> Option<Answer> {
    let secrets = CallbackSecrets::open(place.data.path()).unwrap();
    let signature = secrets.of(&of.parse().unwrap()).sign(body.as_bytes());
    post(place, of, body, Some(&signature)).await
}

pub fn body(key: &str, id: &str) -> String {
    json!({ "key": key, "id": id, "value": { "ticket": "t-1" } }).to_string()
}

/// Waits until the ticket is made, and returns the key of the operation.
pub async fn filed(place: &Place) -> String {
    tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            if let Some(key) = place.world.keys().pop() {
                return key;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the ticket is made")
}

/// A host on which one tree sleeps, waiting for its callback.
pub async fn asleep(place: &Place) -> (Host, ApiClient, Started, String) {
    let options = HostOptions {
        sleep_after: Millis(50),
        ..place.options()
    };
    let host = place.host(options).await;
    let client = place.client().await;
    let request = called_back("one");
    let started = client.start(&tenant(), &request).await.unwrap();
    while client.status().await.unwrap().asleep == 0 {}
    let key = filed(place).await;
    (host, client, started, key)
}

fn received(run: &RunId) -> Answer {
    let called = Called {
        run: run.clone(),
        outcome: CallOutcome::Received,
        why: None,
    };
    (200, Ok(called))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_wakes_the_run_that_sleeps_for_it_and_its_repetitions_get_the_same_answer() {
    let place = Place::new().await;
    let (host, client, started, key) = asleep(&place).await;
    for _ in 0..3 {
        let answer = send(&place, "default", &body(&key, "cb-1")).await.unwrap();
        assert_eq!(answer, received(&started.run));
    }
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    let counts = place.counts(&client, &started).await;
    assert_eq!(
        (
            counts.of("callback.received"),
            counts.of("callback.absorbed")
        ),
        (1, 2)
    );
    assert_eq!(place.world.tickets(), 1);
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_come_at_once_one_counts_and_all_are_answered_alike_or_sent_away_to_try_again()
{
    let place = Place::new().await;
    let (host, client, started, key) = asleep(&place).await;
    let text = body(&key, "cb-1");
    let answers = join_all((0..100).map(|_| send(&place, "default", &text))).await;
    let mut taken = 0;
    for answer in answers {
        match answer.unwrap() {
            (429, Err(refused)) => assert_eq!(refused.error.code, Code::Busy),
            answer => {
                assert_eq!(answer, received(&started.run));
                taken += 1;
            }
        }
    }
    assert!(taken > 0);
    ended(&client, &started.run).await;
    let counts = place.counts(&client, &started).await;
    assert_eq!(counts.of("callback.received"), 1);
    assert!(counts.of("callback.absorbed") < taken);
    whole(&client, &started).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_comes_before_the_answer_of_the_request_counts_once_the_run_waits_for_it() {
    let place = Place::new().await;
    place.world.hold();
    let host = place.host(place.options()).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &called_back("one")).await.unwrap();
    let key = filed(&place).await;
    let answer = send(&place, "default", &body(&key, "cb-1")).await.unwrap();
    assert_eq!(answer, received(&started.run));
    assert_eq!(
        place.counts(&client, &started).await.of("effect.landed"),
        0,
        "what it is about is not known to have happened yet"
    );
    place.world.release();
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    assert_eq!(place.world.tickets(), 1);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_takes_callbacks_as_the_http_port_does() {
    let place = Place::new().await;
    let (host, client, started, key) = asleep(&place).await;
    let request = |id: &str| CallbackRequest {
        key: key.clone(),
        id: id.to_owned(),
        value: Value::map([("ticket", Value::from("t-1"))]),
    };
    let first = client.callback(&tenant(), &request("cb-1")).await.unwrap();
    assert_eq!((200, Ok(first)), received(&started.run));
    let answer = send(&place, "default", &body(&key, "cb-1")).await.unwrap();
    assert_eq!(answer, received(&started.run));
    let mut unknown = request("cb-1");
    unknown.key = "0".repeat(64);
    let refused = client.callback(&tenant(), &unknown).await;
    assert!(
        matches!(refused, Err(ClientError::Refused(error)) if error.code == Code::UnknownOperation)
    );
    ended(&client, &started.run).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_callback_is_absorbed_and_recorded_in_the_ended_run_and_changes_nothing() {
    let place = Place::new().await;
    let (host, client, started, key) = asleep(&place).await;
    let answer = send(&place, "default", &body(&key, "cb-1")).await.unwrap();
    assert_eq!(answer, received(&started.run));
    let end = ended(&client, &started.run).await.ended.unwrap();
    host.stop().await;
    // Another life of the host finds the run ended.
    let host = place.host(place.options()).await;
    let client = place.client().await;
    for _ in 0..2 {
        let (status, said) = send(&place, "default", &body(&key, "cb-2")).await.unwrap();
        let called = said.unwrap();
        assert_eq!((status, called.outcome), (200, CallOutcome::Absorbed));
        assert_eq!(called.why.unwrap(), "the run had ended (succeeded)");
    }
    let answer = send(&place, "default", &body(&key, "cb-1")).await.unwrap();
    assert_eq!(answer, received(&started.run), "as the first time");
    let counts = place.counts(&client, &started).await;
    assert_eq!(
        (
            counts.of("callback.received"),
            counts.of("callback.absorbed"),
            counts.of("run.ended")
        ),
        (1, 3, 1)
    );
    let now = client.get(&tenant(), &started.run).await.unwrap();
    assert_eq!(now.ended.unwrap(), end);
    assert_eq!(place.world.tickets(), 1);
    whole(&client, &started).await;
    host.stop().await;
}

/// A child that has ended is told something before its parent has taken its end in.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_callback_of_a_child_does_not_hide_its_end_from_its_parent() {
    let place = Place::new().await;
    let fault = "root/filer[0]@run.ended:after=delay(1500ms)";
    let host = place.host(place.faulty(&[fault])).await;
    let client = place.client().await;
    let input = r#"{"request_id": "r-1", "items": [{"request_id": "r-1"}, {"request_id": "r-1"}]}"#;
    let input = Value::parse(input.as_bytes()).unwrap();
    let release = release("one-request-twice");
    let request = StartRequest::new("one".parse().unwrap(), &release, input, "user:test").unwrap();
    let started = client.start(&tenant(), &request).await.unwrap();
    let key = filed(&place).await;
    while place.counts(&client, &started).await.of("run.ended") == 0 {}
    let (_, said) = send(&place, "default", &body(&key, "cb-1")).await.unwrap();
    assert_eq!(said.unwrap().outcome, CallOutcome::Absorbed);
    assert_eq!(
        place.counts(&client, &started).await.of("child.returned"),
        0
    );
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    assert_eq!(place.world.tickets(), 1);
    whole(&client, &started).await;
    host.stop().await;
}

/// The refusals that stand in a tenant's system chain: code, tenant, id.
async fn refusals(client: &ApiClient, chain: &TenantId) -> Vec<[String; 3]> {
    let mut request = TailRequest::default();
    request.filter.run = Some(RunId::system());
    request.filter.kind = Some("callback.refused".to_owned());
    let page = client.tail(chain, &request).await.unwrap();
    assert!(page.end);
    let text = |body: &serde_json::Value, field: &str| {
        body.get(field)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let refusal = |body| ["code", "tenant", "id"].map(|field| text(body, field));
    page.events
        .iter()
        .map(|event| refusal(&event.body))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_vouches_for_or_belongs_to_no_run_of_the_tenant_is_refused_and_recorded() {
    let place = Place::new().await;
    let (host, client, started, key) = asleep(&place).await;
    let other: TenantId = "other".parse().unwrap();
    client.start(&other, &called_back("two")).await.unwrap();
    let (good, secrets) = (
        body(&key, "cb-1"),
        CallbackSecrets::open(place.data.path()).unwrap(),
    );
    let of_other = secrets.of(&other).sign(good.as_bytes());
    let unsigned = post(&place, "default", &good, None).await.unwrap();
    let foreign = post(&place, "default", &good, Some(&of_other))
        .await
        .unwrap();
    let (altered, of_good) = (
        body(&key, "cb-2"),
        secrets.of(&tenant()).sign(good.as_bytes()),
    );
    let answers = [
        unsigned,
        foreign,
        post(&place, "default", &altered, Some(&of_good))
            .await
            .unwrap(),
        // Rightly signed, and about the operation of somebody else.
        send(&place, "other", &good).await.unwrap(),
        send(&place, "nobody", &good).await.unwrap(),
        send(&place, "default", &body(&"0".repeat(64), "cb-3"))
            .await
            .unwrap(),
        send(&place, "default", &body("short", "cb-4"))
            .await
            .unwrap(),
        send(&place, "default", &body(&key, "")).await.unwrap(),
        send(&place, "default", "{}").await.unwrap(),
    ];
    let codes: Vec<_> = answers
        .into_iter()
        .map(|(status, said)| (status, said.unwrap_err().error.code))
        .collect();
    assert_eq!(
        codes,
        [
            (401, Code::Unsigned),
            (401, Code::Unsigned),
            (401, Code::Unsigned),
            (404, Code::UnknownOperation),
            (404, Code::UnknownOperation),
            (404, Code::UnknownOperation),
            (400, Code::InvalidRequest),
            (400, Code::InvalidRequest),
            (400, Code::InvalidRequest),
        ]
    );
    let row = |code: &str, tenant: &str, id: &str| [code, tenant, id].map(str::to_owned);
    assert_eq!(
        refusals(&client, &tenant()).await,
        [
            row("unsigned", "default", "cb-1"),
            row("unsigned", "default", "cb-1"),
            row("unsigned", "default", "cb-2"),
            row("unknown_operation", "default", "cb-3"),
            row("invalid_request", "default", "cb-4"),
            row("invalid_request", "default", ""),
            row("invalid_request", "default", ""),
        ]
    );
    assert_eq!(
        refusals(&client, &other).await,
        [row("unknown_operation", "other", "cb-1")]
    );
    assert_eq!(
        refusals(&client, &TenantId::host()).await,
        [row("unknown_operation", "nobody", "cb-1")],
        "a name without runs gets no chain"
    );
    let counts = place.counts(&client, &started).await;
    assert_eq!(
        counts.of("callback.received") + counts.of("callback.absorbed"),
        0
    );
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_or_goes_elsewhere_is_answered_and_does_no_harm() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let large = "x".repeat(CALLBACK_BYTES_MAX + 1);
    let (status, said) = send(&place, "default", &large).await.unwrap();
    assert_eq!(
        (status, said.unwrap_err().error.code),
        (413, Code::TooLarge)
    );
    let (status, _) = post(&place, "_sys", "{}", None).await.unwrap();
    assert_eq!(status, 400, "no tenant has such a name");
    let (status, said) = post(&place, "a/b", "{}", None).await.unwrap();
    assert_eq!(
        (status, said.unwrap_err().error.code),
        (404, Code::UnknownVerb)
    );
    host.stop().await;
}

/// Wherever the host dies around the recording of a callback, its sender sends it again and it counts once.
async fn killed_at(moment: &str) {
    let place = Place::new().await;
    let fault = format!("root@callback.received:{moment}=kill_host");
    let process = supervised(place.faulty(&[&fault]));
    let client = up(&place).await;
    let started = client.start(&tenant(), &called_back("one")).await.unwrap();
    let text = body(&filed(&place).await, "cb-1");
    let answers = tokio::time::timeout(Duration::from_secs(60), async {
        let mut unanswered = 0;
        loop {
            match send(&place, "default", &text).await {
                Some((200, said)) => return (unanswered, said.unwrap()),
                Some((429 | 503, _)) => {}
                Some(answer) => panic!("{moment}: {answer:?}"),
                None => unanswered += 1,
            }
            tokio::task::yield_now().await;
        }
    });
    let (unanswered, called) = answers.await.expect("it is taken in the end");
    assert_eq!(process.restarts(), 1, "{moment}");
    assert!(unanswered > 0, "{moment}: nothing was promised before");
    assert_eq!((200, Ok(called)), received(&started.run), "{moment}");
    let client = up(&place).await;
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{moment}: {}", end.message);
    let counts = place.counts(&client, &started).await;
    let absorbed = counts.of("callback.absorbed");
    assert_eq!(counts.of("callback.received"), 1, "{moment}");
    assert!(
        (moment == "before") == (absorbed == 0),
        "{moment}: what was recorded before the death is absorbed when it comes again, {absorbed}"
    );
    assert_eq!(place.world.tickets(), 1, "{moment}");
    whole(&client, &started).await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_dies_before_a_callback_is_recorded_is_sent_it_again() {
    killed_at("before").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_dies_between_the_record_of_a_callback_and_its_answer_absorbs_the_next_one() {
    for moment in ["synced", "after"] {
        killed_at(moment).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usual_port_is_given_up_for_a_free_one_and_a_chosen_one_is_not() {
    let (one, two) = (Place::new().await, Place::new().await);
    let usual = |place: &Place| HostOptions {
        http: HttpChoice::Usual,
        ..place.options()
    };
    let (first, second) = (one.host(usual(&one)).await, two.host(usual(&two)).await);
    let urls = [&first, &second].map(|host| host.endpoint().http_url.clone());
    assert_ne!(urls[0], urls[1]);
    for url in &urls {
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    }
    second.stop().await;
    let taken = urls[0].trim_start_matches("http://").parse().unwrap();
    let options = HostOptions {
        http: HttpChoice::At(taken),
        ..two.options()
    };
    let refused = Host::start(options, guard()).await.err().unwrap();
    assert!(
        matches!(refused, HostError::Http { address, .. } if address == taken),
        "{refused}"
    );
    assert_eq!(refused.exit_code(), 3);
    first.stop().await;
}
