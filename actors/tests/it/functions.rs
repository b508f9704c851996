//! Functions of the host's own program as tools, from a topology built in Rust to the answer.

use std::{process::Command, sync::Arc};

use coppice_actors::{
    api::{ClientError, Code, StartRequest},
    broker::{InProcessTools, ToolCall},
    host::{Host, HostOptions},
};
use coppice_messages::{Operation, Value, event::run::Reason, ids::NodeName};
use coppice_topology::{
    Builder,
    expr::{Source, Template},
    node::{Node, WaitFor},
    tool::Tool,
};
use tokio::sync::Notify;

use crate::support::{Place, ended, example, guard, tenant};

fn named(name: &str) -> NodeName {
    name.parse().unwrap()
}

/// Waits a while, then calls the function `note`.
fn noting(key: &str, wait: u64) -> StartRequest {
    let takes = br#"{"type": "object", "properties": {"text": {"type": "string"}}}"#;
    let any = || Value::parse(takes).unwrap();
    let tool = "note".parse().unwrap();
    let note = Tool::function(tool, Operation::Create, any(), any());
    let call = Node::calling(note.tool.clone(), Template::cite(Source::Input, ""));
    let pause = Node {
        wait: Some(WaitFor::Timer(coppice_messages::Millis(wait))),
        ..Node::empty()
    };
    let answer = Template::cite(Source::Node(named("call")), "");
    let bundle = Builder::new("noting", "One note")
        .tool(note, 1)
        .node(named("pause"), pause)
        .node(named("call"), call.behind([named("pause")]))
        .node(
            named("end"),
            Node::succeeding(answer).behind([named("call")]),
        )
        .bundle()
        .unwrap();
    let input = Value::map([("text", Value::from("Looked at."))]);
    StartRequest::new(key.parse().unwrap(), &bundle, input, "user:test").unwrap()
}

async fn host(options: HostOptions, tools: InProcessTools) -> Host {
    Host::start_with_tools(options, guard(), tools)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_a_function_starts_no_tree_that_needs_it() {
    let place = Place::new().await;
    let echo = |call: ToolCall| async move { Ok(call.arguments) };
    let host = host(place.options(), InProcessTools::new().with("echo", echo)).await;
    let client = place.client().await;
    let refused = client.start(&tenant(), &noting("one", 0)).await;
    let Err(ClientError::Refused(error)) = refused else {
        panic!("it is refused: {refused:?}");
    };
    assert_eq!(error.code, Code::InvalidRelease);
    assert_eq!(
        error.message,
        r#"the tool note is the function "note" of the host's own program, and this host has only echo: start it with a program that brings the function, or change in_process.function"#
    );
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_function_the_host_does_not_have_is_blocked_until_a_host_has_it() {
    let place = Place::new().await;
    let called = Arc::new(Notify::new());
    let tools = || {
        let called = called.clone();
        InProcessTools::new().with("note", move |call: ToolCall| {
            called.notify_one();
            async move { Ok(call.arguments) }
        })
    };
    let first = host(place.options(), tools()).await;
    let client = place.client().await;
    let started = client.start(&tenant(), &noting("one", 300)).await.unwrap();
    first.stop().await;

    let without = host(place.options(), InProcessTools::new()).await;
    let client = place.client().await;
    let degraded = loop {
        let degraded = client.status().await.unwrap().degraded;
        if !degraded.is_empty() {
            break degraded;
        }
    };
    assert!(
        degraded[0]
            .contains(r#"the function "note" of the host's own program, and this host has none"#),
        "{degraded:?}"
    );
    without.stop().await;

    let with = host(place.options(), tools()).await;
    let client = place.client().await;
    let end = ended(&client, &started.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    assert_eq!(end.answer.unwrap().to_string(), r#"{"text":"Looked at."}"#);
    called.notified().await;
    with.stop().await;
}

#[test]
fn the_example_of_embedding_answers_and_a_second_time_from_its_log() {
    let data = tempfile::tempdir().unwrap();
    for calls in [1, 0] {
        let run = Command::new(example("embed")).arg(data.path()).output();
        let run = run.unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{said}");
        assert_eq!(String::from_utf8_lossy(&run.stdout), "\"Hello, world!\"\n");
        assert_eq!(said.matches("greet is called").count(), calls, "{said}");
    }
}

#[test]
fn the_example_of_embedding_has_at_most_sixty_lines() {
    let text = include_str!("../../examples/embed.rs");
    assert!(text.lines().count() <= 60, "{}", text.lines().count());
}
