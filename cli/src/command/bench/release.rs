//! The topologies of the workloads, built as a program that embeds Coppice builds its own.

use std::collections::BTreeMap;

use coppice_messages::{
    Access, Millis, Operation, Value,
    delegation::Request,
    ids::{AgentName, ClientKey, InvalidId, NodeName},
};
use coppice_topology::{
    Builder, Bundle,
    expr::Template,
    node::{FanOut, Join, Node, Restart, WaitFor, WaitForSignal},
    plan::Agent,
    tool::{Attempts, InProcess, InProcessLookup, OnUnknown, Tool, Transport},
};

use super::witness::NOTE;
use crate::failure::{Failure, Problem};

/// Children of one run of W1, and durable steps of each.
pub const CHILDREN: u32 = 16;
/// Durable steps of each child of W1.
pub const STEPS: u32 = 3;
/// Tries of one step that an envelope has room for: a host may die between.
const ATTEMPTS: u64 = 4;
/// Durable steps of one run of W2.
pub const STEPS_IN_A_ROW: u32 = 50;

/// What the children of a fan-out do.
pub enum Work {
    /// Three calls, one after the other.
    Steps,
    /// They wait for a signal that never comes.
    Wait,
}

/// A parent, so many children, and their join.
pub fn tree(name: &str, children: u32, work: &Work) -> Result<Bundle, Failure> {
    let worker: AgentName = id("worker")?;
    let result = Value::map([("type", Value::from("object"))]);
    let spread = Node {
        fan_out: Some(FanOut {
            over: None,
            width: Some(children),
            agent: worker.clone(),
            slot: id("work")?,
            concurrency: children,
            restart: Restart::default(),
        }),
        delegation: Some(envelope(work)),
        join: Some(join()),
        ..Node::empty()
    };
    let mut agent = Agent {
        model: None,
        nodes: BTreeMap::new(),
        tools: [].into(),
        result_schema: id("done")?,
        tokens_per_call: 100,
    };
    let mut builder = Builder::new(name, "One tree of the benchmark")
        .tool(note()?, u64::from(children * STEPS) * ATTEMPTS)
        .schema(&id("done")?, result)
        .node(id("spread")?, spread)
        .node(id("end")?, end().behind([id("spread")?]));
    match work {
        Work::Steps => {
            agent.tools = [id(NOTE)?].into();
            agent.nodes = steps(STEPS)?;
        }
        Work::Wait => {
            let signal = WaitForSignal {
                name: "go".to_owned(),
                timeout: None,
            };
            let wait = Node {
                wait: Some(WaitFor::Signal(signal)),
                ..Node::empty()
            };
            agent.nodes = [
                (id("wait")?, wait),
                (id("end")?, end().behind([id("wait")?])),
            ]
            .into();
        }
    }
    let budget = &mut builder.contract.budget;
    budget.steps = 1_000_000;
    budget.children = children;
    budget.concurrency = u64::from(children);
    budget.spawn_per_minute = children.max(600);
    bundled(builder.agent(worker, agent))
}

/// One run with calls in a row.
pub fn row() -> Result<Bundle, Failure> {
    let mut builder = Builder::new("row", "One run of the benchmark");
    builder = builder.tool(note()?, u64::from(STEPS_IN_A_ROW));
    builder.topology.nodes = steps(STEPS_IN_A_ROW)?;
    bundled(builder)
}

fn bundled(builder: Builder) -> Result<Bundle, Failure> {
    builder.bundle().map_err(Failure::from)
}

/// So many calls in a row, and the end.
fn steps(number: u32) -> Result<BTreeMap<NodeName, Node>, Failure> {
    let name = |nth: u32| id::<NodeName>(&format!("step-{nth:02}"));
    let mut nodes = BTreeMap::new();
    for nth in 0..number {
        let mut call = Node::calling(id(NOTE)?, Template::object([]));
        if nth > 0 {
            call = call.behind([name(nth - 1)?]);
        }
        nodes.insert(name(nth)?, call);
    }
    nodes.insert(id("end")?, end().behind([name(number - 1)?]));
    Ok(nodes)
}

fn end() -> Node {
    Node::succeeding(Template::object([(
        "ok",
        Template::Literal(Value::Bool(true)),
    )]))
}

fn join() -> Join {
    Join {
        of: Vec::new(),
        wait: coppice_topology::node::Wait::All,
        on_failure: coppice_topology::node::OnFailure::FailFast,
        then: coppice_topology::node::Then::Cancel,
        order: coppice_topology::node::Order::Declared,
        conflict: None,
        deadline: None,
    }
}

/// What a child gets.
fn envelope(work: &Work) -> Request {
    let mut request = Request {
        objective: "Note item {item}".to_owned(),
        ..Request::default()
    };
    let (steps, tokens, calls) = match work {
        Work::Steps => (u64::from(STEPS) * ATTEMPTS, 0, u64::from(STEPS) * ATTEMPTS),
        Work::Wait => (1, 0, 0),
    };
    request.budget.steps = Some(steps);
    request.budget.tokens = Some(tokens);
    if calls > 0 {
        request.authority_scope.access = Access::ReadWrite;
        request.operations = Some([(Operation::Create, calls)].into());
    }
    request
}

/// The effect of every step: see [`super::witness`].
fn note() -> Result<Tool, Failure> {
    let takes = Value::map([
        ("type", Value::from("object")),
        (
            "properties",
            Value::map([("nth", Value::map([("type", Value::from("integer"))]))]),
        ),
    ]);
    let gives = Value::map([("type", Value::from("object"))]);
    let mut tool = Tool::function(id(NOTE)?, Operation::Create, takes, gives);
    tool.transport = Transport::InProcess(InProcess {
        function: NOTE.to_owned(),
        timeout: Millis(5_000),
        max_bytes: coppice_messages::Bytes(1024),
        receipt: coppice_topology::tool::ReceiptPointers::default(),
        lookup_by_key: Some(InProcessLookup {
            absent_is_final: true,
            settles_within: Millis(0),
        }),
        deduplicates: false,
        on_unknown: OnUnknown::Reconcile,
    });
    // Where the look-up says that it did not happen it is done after all.
    tool.idempotency.attempts = Attempts::AtLeastOnce;
    Ok(tool)
}

/// The key of one run of a workload.
pub fn key(workload: &str, nth: u32) -> Result<ClientKey, Failure> {
    id(&format!("{workload}-{nth}"))
}

fn id<T: std::str::FromStr<Err = InvalidId>>(text: &str) -> Result<T, Failure> {
    text.parse()
        .map_err(|error: InvalidId| Failure::Environment(Problem::of(&error)))
}
