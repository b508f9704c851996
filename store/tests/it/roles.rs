//! What each role of a private server may say and hear.

use std::sync::Arc;

use async_nats::{Client, ConnectOptions, Event, Subscriber};
use coppice_store::{Credentials, Endpoint, Role};
use futures::StreamExt as _;
use tokio::sync::mpsc;

use crate::support::open;

/// Connects as the endpoint says; the receiver gets what the server complains about.
pub async fn connect(endpoint: &Endpoint) -> (Client, mpsc::UnboundedReceiver<String>) {
    let Credentials::Password { user, password } = endpoint.credentials.clone() else {
        panic!("a private server has passwords");
    };
    let (tell, told) = mpsc::unbounded_channel();
    let tell = Arc::new(tell);
    let client = ConnectOptions::with_user_and_password(user, password)
        .custom_inbox_prefix(&endpoint.inbox_prefix)
        .event_callback(move |event| {
            if let Event::ServerError(error) = event {
                let _ = tell.send(error.to_string());
            }
            async {}
        })
        .connect(endpoint.url.as_str())
        .await
        .expect("connected");
    (client, told)
}

/// The server refuses that this is published.
async fn cannot_say(client: &Client, errors: &mut mpsc::UnboundedReceiver<String>, subject: &str) {
    client
        .publish(subject.to_owned(), "{}".into())
        .await
        .expect("handed over");
    let error = errors.recv().await.expect("an error");
    assert!(
        error.contains("Permissions Violation for Publish") && error.contains(subject),
        "{error} for {subject}"
    );
}

/// Subscribes, and waits until the server knows it: `flush` only empties the client's own buffer, and whatever another connection says before
/// would not be heard. Everything that one connection sends is taken in order, so a later refusal comes after it.
pub async fn subscribe(
    client: &Client,
    errors: &mut mpsc::UnboundedReceiver<String>,
    subject: &str,
) -> Subscriber {
    let subscription = client.subscribe(subject.to_owned()).await;
    let subscription = subscription.expect("handed over");
    cannot_say(client, errors, "$JS.API.INFO").await;
    subscription
}

/// The server refuses that this is listened to.
async fn cannot_hear(client: &Client, errors: &mut mpsc::UnboundedReceiver<String>, subject: &str) {
    let _subscription = client
        .subscribe(subject.to_owned())
        .await
        .expect("handed over");
    let error = errors.recv().await.expect("an error");
    assert!(
        error.contains("Permissions Violation for Subscription") && error.contains(subject),
        "{error} for {subject}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_can_read_the_feed_and_nothing_else() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let (watcher, mut errors) = connect(&store.endpoint(Role::Watcher).await).await;
    for subject in [
        "$JS.API.INFO",
        "$JS.API.STREAM.NAMES",
        "$JS.API.STREAM.INFO.COPPICE_local",
        "$JS.API.STREAM.MSG.GET.COPPICE_local",
        "$JS.API.STREAM.DELETE.COPPICE_local",
        "$JS.API.STREAM.PURGE.COPPICE_local",
        "$JS.API.CONSUMER.CREATE.COPPICE_local",
        "$JS.API.CONSUMER.MSG.NEXT.COPPICE_local.c",
        "$JS.API.DIRECT.GET.COPPICE_local",
        "$SRV.PING",
        "coppice.v1.local.commit.default",
        "coppice.v1.local.blob.default",
        "coppice.v1.local.event.default.r.r.run.ended",
        "coppice.v1.local.api.default.start",
        "coppice.v1.local.api.default.cancel",
        "coppice.v1.local.api.default.get",
        "coppice.v1.local.host.test-host.api.tail",
        "coppice.v1.local.host.test-host.beat",
        "_INBOX_host.x",
    ] {
        cannot_say(&watcher, &mut errors, subject).await;
    }
    for subject in [
        ">",
        "$JS.>",
        "coppice.>",
        "coppice.v1.local.commit.default",
        "coppice.v1.local.blob.default",
        "coppice.v1.local.api.default.start",
        "_INBOX_host.>",
        "_INBOX_operator.>",
    ] {
        cannot_hear(&watcher, &mut errors, subject).await;
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_fills_a_gap_with_tail() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let (service, mut errors) = connect(&store.endpoint(Role::Service).await).await;
    let mut asked = subscribe(&service, &mut errors, "coppice.v1.local.api.*.tail").await;
    let (watcher, _errors) = connect(&store.endpoint(Role::Watcher).await).await;
    let answer = async {
        let request = asked.next().await.expect("a request");
        let reply = request.reply.expect("somewhere to answer");
        let said = service.publish(reply, "page".into()).await;
        said.expect("handed over");
    };
    let request = watcher.request("coppice.v1.local.api.default.tail", "{}".into());
    let ((), answered) = tokio::join!(answer, request);
    assert_eq!(answered.expect("answered").payload, "page");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_answers_into_inboxes_and_nowhere_else() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let (service, mut errors) = connect(&store.endpoint(Role::Service).await).await;
    for subject in [
        "$JS.API.STREAM.PURGE.COPPICE_local",
        "coppice.v1.local.commit.default",
        "coppice.v1.local.api.default.cancel",
        "_INBOX_host.x",
    ] {
        cannot_say(&service, &mut errors, subject).await;
    }
    cannot_hear(&service, &mut errors, "coppice.v1.local.commit.default").await;
    for role in [Role::Operator, Role::Watcher] {
        let (client, mut errors) = connect(&store.endpoint(role).await).await;
        let inbox = client.new_inbox();
        let mut answers = subscribe(&client, &mut errors, &inbox).await;
        let said = store.client().publish(inbox, "answer".into()).await;
        said.expect("handed over");
        let answer = answers.next().await.expect("an answer");
        assert_eq!(answer.payload, "answer");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_use_the_api_but_neither_write_nor_read_the_stream() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let (operator, mut errors) = connect(&store.endpoint(Role::Operator).await).await;
    for subject in [
        "$JS.API.STREAM.MSG.GET.COPPICE_local",
        "$JS.API.STREAM.DELETE.COPPICE_local",
        "coppice.v1.local.commit.default",
        "coppice.v1.local.event.default.r.r.run.ended",
    ] {
        cannot_say(&operator, &mut errors, subject).await;
    }
    cannot_hear(&operator, &mut errors, "coppice.v1.local.commit.default").await;
    let (service, mut refused) = connect(&store.endpoint(Role::Service).await).await;
    let mut starts = subscribe(&service, &mut refused, "coppice.v1.local.api.*.start").await;
    operator
        .publish("coppice.v1.local.api.default.start", "{}".into())
        .await
        .expect("handed over");
    assert!(starts.next().await.is_some());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_connects_without_a_password() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let url = store.endpoint(Role::Host).await.url;
    assert!(async_nats::connect(url.as_str()).await.is_err());
    store.close().await;
}
