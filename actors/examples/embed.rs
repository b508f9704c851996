//! Coppice as a library: an async function as a tool, a topology built in Rust, a host in this program.
//!
//!     cargo run -p coppice-actors --example embed -- DIRECTORY

use std::{error::Error, path::Path, process::ExitCode};

use coppice_actors::api::{ApiClient, StartRequest};
use coppice_actors::broker::{InProcessTools, ToolCall, ToolFailure};
use coppice_actors::host::{Host, HostOptions};
use coppice_messages::{Operation, Value, ids::TenantId};
use coppice_store::{GuardCommand, guard_main};
use coppice_topology::expr::{Source, Template};
use coppice_topology::{Builder, node::Node, tool::Tool};

const TAKES: &[u8] = br#"{"type": "object", "properties": {"name": {"type": "string"}}}"#;
const GIVES: &[u8] = br#"{"type": "string"}"#;

/// The tool: its call is recorded before it begins, its result before anything goes on.
async fn greet(call: ToolCall) -> Result<Value, ToolFailure> {
    eprintln!("greet is called");
    let name = call.arguments.at("/name").and_then(Value::as_text);
    let text = format!("Hello, {}!", name.unwrap_or("whoever you are"));
    Ok(Value::from(text.as_str()))
}

/// A call of the tool, and what it gives as the answer; under a contract that allows just that.
fn greeting() -> Result<Builder, Box<dyn Error>> {
    let (takes, gives) = (Value::parse(TAKES)?, Value::parse(GIVES)?);
    let tool = Tool::function("greet".parse()?, Operation::Communicate, takes, gives);
    let call = Node::calling("greet".parse()?, Template::cite(Source::Input, ""));
    let answer = Template::cite(Source::Node("call".parse()?), "");
    let end = Node::succeeding(answer).behind(["call".parse()?]);
    Ok(Builder::new("greeting", "One greeting")
        .tool(tool, 1)
        .node("call".parse()?, call)
        .node("end".parse()?, end))
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let data = arguments.next().ok_or("give a directory")?;
    if data == "nats-guard" {
        return Ok(guard_main(arguments)); // the host's nats-server is started by way of this program
    }
    let tools = InProcessTools::new().with("greet", greet);
    let guard = GuardCommand::this_program()?;
    let host = Host::start_with_tools(HostOptions::new(&data), guard, tools).await?;
    let client = ApiClient::of_data(Path::new(&data)).await?;
    let (tenant, bundle) = (TenantId::default_tenant(), greeting()?.bundle()?);
    let input = Value::map([("name", Value::from("world"))]);
    let request = StartRequest::new("greeting-1".parse()?, &bundle, input, "user:you")?;
    let started = client.start(&tenant, &request).await?;
    let ended = client.wait_ended(&tenant, &started.run).await?.ended;
    let answer = ended.and_then(|ended| ended.answer).ok_or("no answer")?;
    println!("{answer}");
    host.stop().await;
    Ok(ExitCode::SUCCESS)
}
