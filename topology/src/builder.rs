//! Topologies built in Rust. What is built becomes the documents that files would be, and takes the same way: the same checks, the same
//! digests over bytes. A diagnostic points into the JSON that a part was written as.

mod parts;

use std::collections::BTreeMap;

use coppice_messages::{
    Access, Bytes, Contract, MicroUsd, Millis, Value,
    contract::{
        Authority, ContractBudget, DataBoundary, HumanControl, Recovery, Rollback, SuccessEvidence,
        TaskBoundary, Termination,
    },
    ids::{AgentName, NodeName, SchemaName},
    scope::Resources,
};
use serde::Serialize;

use crate::{
    bundle::{Bundle, Document, DocumentKind, Documents, bundle},
    document::{ContractRef, Topology},
    load::Diagnostics,
    node::Node,
    plan::Agent,
    script::Script,
    tool::Tool,
};

/// A topology and everything that it names. All parts are open: what no method says is set in them.
#[derive(Debug, Clone, PartialEq)]
pub struct Builder {
    /// The topology; its contract is the one below.
    pub topology: Topology,
    /// What the whole tree may do and spend. It allows nothing until tools are added.
    pub contract: Contract,
    /// Tools by name.
    pub tools: BTreeMap<String, Tool>,
    /// JSON Schemas by name.
    pub schemas: BTreeMap<String, Value>,
    /// Model scripts by name, for the routes `scripted/NAME`.
    pub models: BTreeMap<String, Script>,
}

impl Builder {
    /// A topology without nodes under a contract that allows nothing. `unit_of_work` says what one run of it handles.
    #[must_use]
    pub fn new(name: &str, unit_of_work: &str) -> Self {
        let contract = nothing(name, unit_of_work);
        let topology = Topology {
            topology: name.to_owned(),
            version: 1,
            contract: ContractRef::Inline(Box::new(contract.clone())),
            result_schema: None,
            input: None,
            agents: BTreeMap::new(),
            nodes: BTreeMap::new(),
        };
        Self {
            topology,
            contract,
            tools: BTreeMap::new(),
            schemas: BTreeMap::new(),
            models: BTreeMap::new(),
        }
    }

    /// What the input must look like: JSON Schema.
    #[must_use]
    pub fn input(mut self, schema: Value) -> Self {
        self.topology.input = Some(schema);
        self
    }

    /// A tool, and that the contract lets the tree do so many more operations of its class.
    #[must_use]
    pub fn tool(mut self, tool: Tool, calls: u64) -> Self {
        let (contract, operation) = (&mut self.contract, tool.operation);
        contract.authority.tools.insert(tool.tool.clone());
        contract.authority.access = contract.authority.access.max(operation.access());
        *contract.allowed_operations.entry(operation).or_default() += calls;
        contract.human_control.insert(operation, HumanControl::None);
        if !contract.task_boundary.systems.contains(&tool.namespace) {
            contract.task_boundary.systems.push(tool.namespace.clone());
        }
        self.tools.insert(tool.tool.to_string(), tool);
        self
    }

    /// A JSON Schema.
    #[must_use]
    pub fn schema(mut self, name: &SchemaName, schema: Value) -> Self {
        self.schemas.insert(name.to_string(), schema);
        self
    }

    /// What the answer must look like.
    #[must_use]
    pub fn result_schema(mut self, name: SchemaName, schema: Value) -> Self {
        self = self.schema(&name, schema);
        self.topology.result_schema = Some(name);
        self
    }

    /// A model script.
    #[must_use]
    pub fn model(mut self, script: Script) -> Self {
        self.models.insert(script.model.clone(), script);
        self
    }

    /// An agent.
    #[must_use]
    pub fn agent(mut self, name: AgentName, agent: Agent) -> Self {
        self.topology.agents.insert(name, agent);
        self
    }

    /// A node.
    #[must_use]
    pub fn node(mut self, name: NodeName, node: Node) -> Self {
        self.topology.nodes.insert(name, node);
        self
    }

    /// Checks everything and pins it.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn bundle(mut self) -> Result<Bundle, Diagnostics> {
        self.topology.contract = ContractRef::Inline(Box::new(self.contract.clone()));
        let file = format!("{} (built in Rust)", self.topology.topology);
        bundle(&file, &json(&self.topology), &self)
    }
}

impl Documents for Builder {
    fn find(&self, kind: DocumentKind, name: &str) -> Option<Document> {
        let bytes = match kind {
            // The contract stands in the topology.
            DocumentKind::Contract => return None,
            DocumentKind::Tool => json(self.tools.get(name)?),
            DocumentKind::Schema => json(self.schemas.get(name)?),
            DocumentKind::Model => json(self.models.get(name)?),
        };
        let file = format!("{} {name} (built in Rust)", kind.word());
        Some(Document { file, bytes })
    }

    fn names(&self, kind: DocumentKind) -> Vec<String> {
        match kind {
            DocumentKind::Contract => Vec::new(),
            DocumentKind::Tool => self.tools.keys().cloned().collect(),
            DocumentKind::Schema => self.schemas.keys().cloned().collect(),
            DocumentKind::Model => self.models.keys().cloned().collect(),
        }
    }
}

/// On lines, so that a position says something.
fn json<T: Serialize>(part: &T) -> Vec<u8> {
    // Parts are text, numbers, and maps with text keys: nothing that JSON cannot say.
    serde_json::to_vec_pretty(part).unwrap_or_default()
}

/// A contract that allows no operation, with the limits of the library's.
fn nothing(name: &str, unit_of_work: &str) -> Contract {
    Contract {
        contract: name.to_owned(),
        version: 1,
        task_boundary: TaskBoundary {
            accepts: vec![unit_of_work.to_owned()],
            excludes: vec!["Everything else".to_owned()],
            systems: Vec::new(),
            environments: vec!["local".to_owned()],
            unit_of_work: unit_of_work.to_owned(),
            person_takes_over: "When an outcome cannot be found out by key".to_owned(),
        },
        success_evidence: SuccessEvidence {
            answer: "An answer that meets the topology's result schema".to_owned(),
            world: Vec::new(),
            artifacts: Vec::new(),
            uncertainty: "A doubt is looked up by key and never guessed".to_owned(),
        },
        allowed_operations: BTreeMap::new(),
        authority: Authority {
            tools: [].into(),
            may_delegate: [].into(),
            access: Access::None,
            resources: Resources::default(),
            valid_for: Millis(3_600_000),
        },
        data_boundary: DataBoundary {
            may_read: vec!["input".to_owned()],
            may_leave: Vec::new(),
            keep_for: Millis(30 * 86_400_000),
            redact: Vec::new(),
        },
        budget: ContractBudget {
            steps: 1_000,
            tokens: 1_000_000,
            cost: MicroUsd(1_000_000),
            wall_clock: Millis(900_000),
            concurrency: 16,
            storage: Bytes(64 << 20),
            network: Bytes(64 << 20),
            depth: 2,
            children: 64,
            spawn_per_minute: 600,
            join_reserve: Millis(10_000),
        },
        human_control: BTreeMap::new(),
        termination: Termination {
            consecutive_failures: 5,
            no_progress: 4,
        },
        recovery: Recovery {
            attempts: 4,
            backoff: Millis(200),
        },
        rollback: Rollback {
            controller: "nodes 1".to_owned(),
            tools: "as pinned by the release".to_owned(),
            policy: "none".to_owned(),
            sandbox_image: "none".to_owned(),
            route: "as declared by the topology".to_owned(),
        },
    }
}
