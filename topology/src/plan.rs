//! A compiled release: everything a run needs to know, read from the documents that its log pins.

mod branches;

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::{
    Contract, Digest,
    delegation::SchemaRef,
    event::run::{Program, Reason},
    ids::{AgentName, NodeName, SchemaName, ToolName},
};
use serde::{Deserialize, Serialize};

use crate::{
    expr::{Reference, Source, Template},
    node::{AgentLoop, End, Join, Node},
    tool::{Schema, Tool},
};

/// An agent: a model, or nodes of its own, with tools and a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// `scripted/NAME`, or a provider's model. Absent: it has nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What a child of a fan-out does instead of asking a model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<NodeName, Node>,
    /// What it may call, where its envelope permits them.
    #[serde(default)]
    pub tools: BTreeSet<ToolName>,
    /// What its answer must look like.
    pub result_schema: SchemaName,
    /// Tokens reserved for each model call.
    #[serde(default = "tokens_per_call")]
    pub tokens_per_call: u64,
}

fn tokens_per_call() -> u64 {
    1000
}

/// Every document of a release by its digest: itself a document, whose digest is the release.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The topology.
    pub topology: Digest,
    /// The contract.
    pub contract: Digest,
    /// Tool contracts by name.
    pub tools: BTreeMap<ToolName, Digest>,
    /// JSON Schemas by name.
    pub schemas: BTreeMap<SchemaName, Digest>,
    /// Model scripts by route, such as `scripted/summarise`.
    pub models: BTreeMap<String, Digest>,
}

/// A tool in a release.
#[derive(Debug, Clone, PartialEq)]
pub struct PinnedTool {
    /// Digest of its document.
    pub digest: Digest,
    /// Its contract.
    pub contract: Tool,
}

/// A compiled, validated release.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Digest of the manifest.
    pub release: Digest,
    /// What the release consists of.
    pub manifest: Manifest,
    /// Name of the topology.
    pub name: String,
    /// The contract.
    pub contract: Contract,
    /// Agents by name.
    pub agents: BTreeMap<AgentName, Agent>,
    /// Tools by name.
    pub tools: BTreeMap<ToolName, PinnedTool>,
    /// What the root's answer must look like.
    pub result_schema: Option<SchemaRef>,
    /// What the input must look like: JSON Schema.
    pub input_schema: Option<Schema>,
    /// The root's nodes.
    pub root: Graph,
    /// For each agent the nodes of a child that does its work.
    pub children: BTreeMap<AgentName, Graph>,
}

/// The nodes of one program.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// By name; the order of names is the order of equal steps.
    pub nodes: BTreeMap<NodeName, Node>,
}

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Its turn has not come.
    Waiting,
    /// It is at work.
    Started,
    /// It did what it is for.
    Done,
    /// It did not.
    Failed,
    /// A branch did not take it.
    Skipped,
}

impl Plan {
    /// The tools that its nodes call, its agents have and its ends are proved with: the contract may allow more.
    #[must_use]
    pub fn used_tools(&self) -> BTreeSet<&ToolName> {
        let graphs = std::iter::once(&self.root).chain(self.children.values());
        let nodes = graphs.flat_map(|graph| graph.nodes.values());
        let of_nodes = nodes.flat_map(|node| {
            let evidence = node.end.iter().flat_map(|end| &end.evidence);
            let checks = evidence.map(|evidence| &evidence.check);
            node.call.iter().map(|call| &call.tool).chain(checks)
        });
        let of_agents = self.agents.values().flat_map(|agent| &agent.tools);
        of_nodes.chain(of_agents).collect()
    }

    /// The nodes of a run's program; none when the release has no such agent.
    #[must_use]
    pub fn graph(&self, program: &Program) -> Option<&Graph> {
        match program {
            Program::Topology { .. } => Some(&self.root),
            Program::Agent { agent, .. } => self.children.get(agent),
        }
    }

    /// The pinned schema that an agent's answer must meet.
    #[must_use]
    pub fn agent_schema(&self, agent: &Agent) -> Option<SchemaRef> {
        let digest = self.manifest.schemas.get(&agent.result_schema)?;
        Some(SchemaRef {
            name: agent.result_schema.clone(),
            digest: *digest,
        })
    }
}

impl Graph {
    /// The program of a child that does this agent's work: its own nodes, or its loop.
    #[must_use]
    pub fn of_child(name: &AgentName, agent: &Agent) -> Self {
        if agent.nodes.is_empty() {
            return Self::of_agent(name);
        }
        Self {
            nodes: agent.nodes.clone(),
        }
    }

    /// The program of a child that does one agent's work: the loop, then its answer as the run's.
    ///
    /// # Panics
    /// Never: the two names are usable ids.
    #[must_use]
    pub fn of_agent(agent: &AgentName) -> Self {
        let name =
            |text: &str| -> NodeName { text.parse().expect("a literal that is a usable id") };
        let whole = |from| {
            Template::Reference(Reference {
                from,
                at: String::new(),
            })
        };
        let work = Node {
            agent: Some(AgentLoop {
                agent: agent.clone(),
                input: whole(Source::Item),
            }),
            ..Node::empty()
        };
        let end = End {
            reason: Reason::Succeeded,
            answer: whole(Source::Node(name("work"))),
            evidence: Vec::new(),
        };
        let done = Node {
            after: vec![name("work")],
            end: Some(end),
            ..Node::empty()
        };
        Self {
            nodes: [(name("work"), work), (name("done"), done)].into(),
        }
    }

    /// The nodes whose turn has come: waiting, with everything before them done or skipped and not all of it skipped, and a join of its
    /// own decided by its branches; `late` says of a join that its time is over.
    #[must_use]
    pub fn ready(
        &self,
        progress: impl Fn(&NodeName) -> Progress,
        late: impl Fn(&Join) -> bool,
    ) -> Vec<&NodeName> {
        let ready = |(name, node): &(&NodeName, &Node)| {
            progress(name) == Progress::Waiting
                && node
                    .after
                    .iter()
                    .all(|before| matches!(progress(before), Progress::Done | Progress::Skipped))
                && !is_skipped(node, &progress)
                && node
                    .gathers()
                    .is_none_or(|join| self.join_verdict(join, late(join), &progress).is_some())
        };
        self.nodes
            .iter()
            .filter(ready)
            .map(|(name, _)| name)
            .collect()
    }

    /// Waiting nodes that stand only behind skipped ones.
    #[must_use]
    pub fn skipped(&self, progress: impl Fn(&NodeName) -> Progress) -> Vec<&NodeName> {
        let skipped = |(name, node): &(&NodeName, &Node)| {
            progress(name) == Progress::Waiting && is_skipped(node, &progress)
        };
        self.nodes
            .iter()
            .filter(skipped)
            .map(|(name, _)| name)
            .collect()
    }

    /// The nodes that stand directly behind this one.
    pub fn behind<'a>(&'a self, before: &'a NodeName) -> impl Iterator<Item = &'a NodeName> {
        self.nodes
            .iter()
            .filter(move |(_, node)| node.after.contains(before))
            .map(|(name, _)| name)
    }

    /// The nodes that go round: from `first` to `last`, both of them included.
    #[must_use]
    pub fn round(&self, first: &NodeName, last: &NodeName) -> BTreeSet<NodeName> {
        let leads_back = |name: &NodeName| name == first || self.is_before(first, name);
        let leads_on = |name: &NodeName| name == last || self.is_before(name, last);
        self.nodes
            .keys()
            .filter(|name| leads_back(name) && leads_on(name))
            .cloned()
            .collect()
    }

    fn is_before(&self, earlier: &NodeName, later: &NodeName) -> bool {
        let mut open = vec![later];
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop() {
            let Some(node) = self.nodes.get(name) else {
                continue;
            };
            for before in node.before() {
                if before == earlier {
                    return true;
                }
                if seen.insert(before) {
                    open.push(before);
                }
            }
        }
        false
    }
}

fn is_skipped(node: &Node, progress: &impl Fn(&NodeName) -> Progress) -> bool {
    let mut before = node.before().peekable();
    before.peek().is_some() && before.all(|before| progress(before) == Progress::Skipped)
}

impl Node {
    /// A node without a body, to fill in.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            after: Vec::new(),
            call: None,
            agent: None,
            fan_out: None,
            delegation: None,
            join: None,
            wait: None,
            branch: None,
            again: None,
            end: None,
        }
    }

    /// The join that this node is; none for every other node, also for a fan-out with its own.
    #[must_use]
    pub fn gathers(&self) -> Option<&Join> {
        self.join.as_ref().filter(|join| !join.of.is_empty())
    }

    /// Everything that must be over before this node.
    pub fn before(&self) -> impl Iterator<Item = &NodeName> {
        self.after
            .iter()
            .chain(self.join.iter().flat_map(|join| join.of.iter()))
    }
}
