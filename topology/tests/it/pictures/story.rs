//! Commits made by hand, one event each, and the tree that is shown them.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::{
    Account, Commit, Delegation, Digest, Entry, Event, Operation, Payload, Spent, Timestamp, Value,
    commit::FORMAT,
    delegation::{AuthorityScope, BudgetRequest, Request, Root, Standing},
    event::{
        child::{self, Delegated, Settled},
        effect::{self, Intended},
        model::{self, Asked, Proposal, Proposed},
        node::{self, Started},
        run::{self, Ended, Opened, Program, Reason},
    },
    ids::{ClientKey, EffectKey, RunId, TenantId, ToolName, TreeId},
    scope::Access,
};
use coppice_topology::{Tree, load};

use crate::files::Directory;

const START: Timestamp = Timestamp(1_790_000_000_000_000);

pub struct Story {
    pub tree: Tree,
    pub commits: Vec<(Commit, u64)>,
    name: String,
    envelopes: BTreeMap<RunId, Delegation>,
    programs: BTreeMap<RunId, (Program, String)>,
    next: BTreeMap<RunId, u64>,
    used: BTreeMap<RunId, Spent>,
}

pub fn spent(steps: u64, tokens: u64) -> Spent {
    Spent {
        steps,
        tokens,
        ..Spent::default()
    }
}

impl Story {
    pub fn new(name: &str) -> Self {
        Self {
            tree: Tree::new(),
            commits: Vec::new(),
            name: name.to_owned(),
            envelopes: BTreeMap::new(),
            programs: BTreeMap::new(),
            next: BTreeMap::new(),
            used: BTreeMap::new(),
        }
    }

    pub fn root(&self) -> RunId {
        let key: ClientKey = format!("{}-r17", self.name).parse().unwrap();
        RunId::root(&TenantId::default_tenant(), &key)
    }

    pub fn child(&self, slot: &str, ordinal: u32) -> RunId {
        RunId::child(&self.root(), &slot.parse().unwrap(), ordinal)
    }

    pub fn runs(&self) -> Vec<RunId> {
        self.next.keys().cloned().collect()
    }

    pub fn of(&self, run: &RunId) -> Vec<(&Commit, u64)> {
        let commits = self.commits.iter();
        commits
            .filter(|(commit, _)| commit.run == *run)
            .map(|(commit, position)| (commit, *position))
            .collect()
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(START.0 + 1_000_000 * (self.commits.len() as i64 + 1))
    }

    pub fn push(&mut self, run: &RunId, event: Event) {
        self.commit(run, 1, vec![event]);
    }

    pub fn claim(&mut self, run: &RunId, events: Vec<Event>) {
        self.commit(run, 2, events);
    }

    fn commit(&mut self, run: &RunId, epoch: u64, events: Vec<Event>) {
        let seq = self.next.entry(run.clone()).or_insert(1);
        let commit = Commit {
            v: FORMAT,
            tenant: TenantId::default_tenant(),
            tree: TreeId::of_root(&RunId::root(
                &TenantId::default_tenant(),
                &format!("{}-r17", self.name).parse().unwrap(),
            )),
            run: run.clone(),
            seq: *seq,
            epoch,
            prev: Digest::ZERO,
            at: Timestamp(START.0 + 1_000_000 * (self.commits.len() as i64 + 1)),
            trace: String::new(),
            parent: None,
            events: events
                .into_iter()
                .map(|event| Entry { cause: None, event })
                .collect(),
        };
        *seq = commit.next_seq();
        let position = self.commits.len() as u64 + 1;
        self.tree.apply(&commit, position);
        self.commits.push((commit, position));
    }

    pub fn open_root(&mut self) -> RunId {
        let bytes = Directory::library().bytes("contracts/default.yaml");
        let contract = load::contract("default.yaml", &bytes).unwrap().value;
        let root = Root {
            run: self.root(),
            tenant: TenantId::default_tenant(),
            principal: "user:ada".to_owned(),
            objective: "Compare the incidents".to_owned(),
            result_schema: None,
            input_refs: BTreeSet::new(),
        };
        let envelope = Delegation::root(&contract, root, START);
        let program = Program::Topology {
            name: self.name.clone(),
        };
        let run = self.root();
        self.envelopes.insert(run.clone(), envelope);
        self.programs
            .insert(run.clone(), (program, "root".to_owned()));
        self.open_child(&run);
        run
    }

    pub fn open_child(&mut self, run: &RunId) {
        let (program, path) = self.programs[run].clone();
        let opened = Opened {
            contract: Digest::ZERO,
            topology: Digest::ZERO,
            release: Digest::ZERO,
            tools: BTreeMap::new(),
            program,
            path,
            envelope: self.envelopes[run].clone(),
            input: Payload::Inline(Value::Null),
            lineage: self.root(),
            labels: BTreeMap::new(),
        };
        self.push(run, Event::Run(run::Event::Opened(Box::new(opened))));
    }

    pub fn delegate(&mut self, parent: &RunId, slot: &str, ordinal: u32) -> RunId {
        let slot = slot.parse().unwrap();
        let run = RunId::child(parent, &slot, ordinal);
        let had = &self.envelopes[parent];
        let tools: BTreeSet<ToolName> = [
            "read_incident".parse().unwrap(),
            "search_runbook".parse().unwrap(),
        ]
        .into();
        let request = Request {
            objective: format!("Summarise incident {ordinal}"),
            authority_scope: AuthorityScope {
                access: Access::ReadOnly,
                ..AuthorityScope::default()
            },
            budget: BudgetRequest {
                steps: Some(12),
                tokens: Some(18_000),
                ..BudgetRequest::default()
            },
            ..Request::default()
        };
        let standing = Standing {
            account: &Account::open(had.budget().clone()),
            child: &run,
            children_made: 0,
            made_within_minute: 0,
            share: &Spent::default(),
            agent_tools: &tools,
            tool_access: &|_| Some(Access::ReadOnly),
            result_schema: None,
        };
        let envelope = had.narrow(&request, &standing, START).unwrap();
        let agent: coppice_messages::ids::AgentName = "researcher".parse().unwrap();
        let program = Program::Agent {
            agent: agent.clone(),
            slot: std::clone::Clone::clone(&slot),
            ordinal,
        };
        let path = format!("{}/{slot}[{ordinal}]", self.programs[parent].1);
        self.programs.insert(run.clone(), (program, path));
        self.envelopes.insert(run.clone(), envelope.clone());
        let delegated = Delegated {
            node: "gather".parse().unwrap(),
            slot,
            ordinal,
            agent,
            item: Payload::Inline(Value::Null),
            envelope,
        };
        self.push(
            parent,
            Event::Child(child::Event::Delegated(Box::new(delegated))),
        );
        run
    }

    pub fn settles(&mut self, parent: &RunId, child: &RunId) {
        let charged = self.used.get(child).cloned().unwrap_or_default();
        let settled = Settled {
            child: child.clone(),
            returned: self.envelopes[child].budget().less(&charged),
            charged,
        };
        self.push(parent, Event::Child(child::Event::Settled(settled)));
    }

    pub fn starts(&mut self, run: &RunId, node: &str) {
        let node = node.parse().unwrap();
        let started = Started { node, visit: 1 };
        self.push(run, Event::Node(node::Event::Started(started)));
    }

    pub fn asks(&mut self, run: &RunId, call: u32) {
        let asked = Asked {
            node: "work".parse().unwrap(),
            call,
            agent: "researcher".parse().unwrap(),
            route: "scripted/summarise".to_owned(),
            context: Digest::ZERO,
            reserved: spent(1, 1000),
        };
        self.push(run, Event::Model(model::Event::Asked(asked)));
    }

    pub fn proposes(&mut self, run: &RunId, call: u32, tokens: u64) {
        let proposed = Proposed {
            node: "work".parse().unwrap(),
            call,
            proposal: Proposal::Say("…".to_owned()),
            usage: spent(1, tokens),
            latency_ms: 12,
        };
        let used = self.used.entry(run.clone()).or_default();
        *used = used.plus(&proposed.usage);
        self.push(run, Event::Model(model::Event::Proposed(proposed)));
    }

    pub fn intends(&mut self, run: &RunId, tool: &str) -> EffectKey {
        let tool: ToolName = tool.parse().unwrap();
        let key = EffectKey::derive(&TenantId::default_tenant(), &tool, run, "file");
        let intended = Intended {
            key,
            node: "file".parse().unwrap(),
            call: 0,
            tool,
            tool_digest: Digest::ZERO,
            operation: Operation::Create,
            arguments: Payload::Inline(Value::Null),
            action: Digest::ZERO,
            attempt: 1,
            send_by: self.now(),
            policy: None,
            reserved: spent(1, 0),
        };
        self.push(
            run,
            Event::Effect(effect::Event::Intended(Box::new(intended))),
        );
        key
    }

    pub fn ends(&mut self, run: &RunId, reason: Reason, class: Option<&str>) {
        let ended = Ended {
            reason,
            class: class.map(str::to_owned),
            message: String::new(),
            answer: None,
            evidence: Vec::new(),
            usage: self.used.get(run).cloned().unwrap_or_default(),
            in_doubt: Vec::new(),
        };
        self.push(run, Event::Run(run::Event::Ended(ended)));
    }
}
