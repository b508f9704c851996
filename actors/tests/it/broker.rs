//! The tool broker over real HTTP: what it sends, what it withholds, what it makes of answers, how it finds out.

mod flights;
mod functions;
mod leaving;
mod lookups;
mod outcomes;
mod probes;
mod reads;
mod requests;
mod withheld;

use std::{collections::BTreeSet, sync::Arc};

use coppice_actors::{
    broker::{BrokerOptions, InProcessTools, SendRequest, ToolBroker},
    policy::Policies,
    schema::Schemas,
    secrets::Secrets,
};
use coppice_kernel::command::EffectOutcome;
use coppice_messages::{
    Bytes, Digest, Millis, Payload, Spent, Timestamp, Value,
    event::effect::Intended,
    ids::{EffectKey, RunId, TenantId, ToolName, TreeId},
};
use coppice_store::clock;
use coppice_topology::{
    Plan,
    tool::{Http, Tool, Transport},
};

use crate::{
    outside::{Outside, Reply},
    recorder::{Recorder, released},
};

const TICKET: &str = r#"{"id":"T-1","version":3}"#;

pub fn run() -> RunId {
    "compare-1".parse().unwrap()
}

/// One run that calls one tool, and the broker that it calls it through.
struct Calling {
    broker: ToolBroker,
    recorder: Arc<Recorder>,
    plan: Plan,
    tool: ToolName,
    arguments: Value,
}

impl Calling {
    /// `create_ticket` at this address.
    fn ticket(url: &str) -> Self {
        Self::of(
            url,
            "create_ticket",
            r#"{"title":"Differences","body":[],"request_id":"r-17"}"#,
        )
    }

    fn of(url: &str, tool: &str, arguments: &str) -> Self {
        let (mut plan, recorder) = released("incident-comparison");
        alone(&mut plan);
        let broker = ToolBroker::new(BrokerOptions {
            record: recorder.clone(),
            endpoints: [("desk".to_owned(), url.to_owned())].into(),
            tools: InProcessTools::new(),
            schemas: Schemas::new(),
            policies: Policies::none(),
            signer: None,
            own: BTreeSet::new(),
            credentials: BTreeSet::new(),
            secrets: Secrets::default(),
            begins_at: 0,
        });
        Self {
            broker: broker.unwrap(),
            recorder,
            plan,
            tool: tool.parse().unwrap(),
            arguments: Value::parse(arguments.as_bytes()).unwrap(),
        }
    }

    /// Changes the tool's contract.
    fn with(mut self, change: impl FnOnce(&mut Tool)) -> Self {
        change(&mut self.plan.tools.get_mut(&self.tool).unwrap().contract);
        self
    }

    fn intended(&self, key: &str) -> Intended {
        let pinned = &self.plan.tools[&self.tool];
        let tenant = TenantId::default_tenant();
        Intended {
            key: EffectKey::derive(&tenant, &self.tool, &run(), key),
            node: "file".parse().unwrap(),
            call: 0,
            tool: self.tool.clone(),
            tool_digest: pinned.digest,
            operation: pinned.contract.operation,
            arguments: Payload::Inline(self.arguments.clone()),
            action: Digest::of(key.as_bytes()),
            attempt: 1,
            send_by: clock::now().plus(Millis(5_000)),
            policy: None,
            reserved: Spent {
                network: 64 * 1024,
                ..Spent::step()
            },
        }
    }

    fn request(&self, intended: Intended) -> SendRequest {
        SendRequest {
            plan: Arc::new(self.plan.clone()),
            tenant: TenantId::default_tenant(),
            tree: TreeId::of_root(&run()),
            run: run(),
            epoch: 1,
            deadline: clock::now().plus(Millis(60_000)),
            intended: Arc::new(intended),
            subject: None,
            trace: None,
        }
    }

    /// Records the intent and sends it.
    async fn send(&self) -> EffectOutcome {
        let intended = self.intended("at:file");
        self.recorder.intend(&intended, 1);
        self.broker.send(self.request(intended)).await
    }

    /// Reconciles an intent whose request is not in flight in this host and left so long ago.
    async fn reconcile(&self, ago: Millis) -> EffectOutcome {
        let mut intended = self.intended("at:file");
        intended.send_by = clock::now().minus(ago);
        self.broker.reconcile(self.request(intended)).await
    }
}

/// What is read around a call has tests of its own; here each request is one.
fn alone(plan: &mut Plan) {
    for pinned in plan.tools.values_mut() {
        pinned.contract.resource = None;
        pinned.contract.precondition = None;
        pinned.contract.postcondition = None;
    }
}

/// How the library's tools are called.
fn http(tool: &mut Tool) -> &mut Http {
    match &mut tool.transport {
        Transport::Http(http) => http,
        Transport::InProcess(_) => panic!("{} is a function", tool.tool),
    }
}

/// What a create_ticket comes to that is answered like this.
async fn outcome_of(reply: Reply) -> EffectOutcome {
    let outside = Outside::start([reply]).await;
    Calling::ticket(&outside.url).send().await
}

pub fn status(status: u16, body: &str) -> Reply {
    Reply::Status(status, body.to_owned())
}
