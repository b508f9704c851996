//! A world in memory around the drivers of one tree: a log, a desk that counts, a scripted model, and a seeded order of everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use coppice_kernel::{
    Command, Driver, Duty, Identity, Input, Obligation, Output, Prepared, Start, State, Turn,
    command::{CheckId, CheckOutcome, ChildEnd, ChildEndFacts, EffectOutcome, ModelOutcome},
    open,
};
use coppice_messages::{
    Blobs, Cause, Commit, Digest, Event, Millis, ParentRef, Payload, Spent, Timestamp, Value,
    delegation::Root,
    event::{
        self,
        effect::{Intended, Receipt, ResultCheck, Source},
        model::Proposal,
        run::{CancelRequested, CancelSettled, ClaimReason, Ended},
    },
    ids::{ClientKey, EffectKey, RunId, TenantId, TreeId},
};
use coppice_topology::{
    Plan,
    bundle::{Document, DocumentKind, Documents, bundle},
};

/// The library on disk.
struct Library;

fn library() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/library")
}

impl Documents for Library {
    fn find(&self, kind: DocumentKind, name: &str) -> Option<Document> {
        let path = kind.path(name);
        let bytes = std::fs::read(library().join(&path)).ok()?;
        Some(Document { file: path, bytes })
    }
}

/// The plan of a library topology.
pub fn plan(name: &str) -> Arc<Plan> {
    let path = library().join(format!("topologies/{name}.yaml"));
    let bytes = std::fs::read(&path).expect("a library topology");
    Arc::new(
        bundle(name, &bytes, &Library)
            .expect("a valid library topology")
            .plan,
    )
}

/// The plan of a topology given as text, with the library's documents.
pub fn plan_of(yaml: &str) -> Arc<Plan> {
    Arc::new(
        bundle("test.yaml", yaml.as_bytes(), &Library)
            .expect("a valid topology")
            .plan,
    )
}

/// The plan that most tests run.
pub fn comparison() -> Arc<Plan> {
    static PLAN: OnceLock<Arc<Plan>> = OnceLock::new();
    PLAN.get_or_init(|| plan("incident-comparison")).clone()
}

/// A small random source with a seed.
#[derive(Clone)]
pub struct Seed(pub u64);

impl Seed {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }

    pub fn one_in(&mut self, bound: u64) -> bool {
        bound > 0 && self.below(bound) == 0
    }
}

/// How often what goes wrong; 0 is never, n is one in n.
#[derive(Clone, Copy, Default)]
pub struct Weather {
    pub reply_lost: u64,
    pub not_sent: u64,
    pub retryable: u64,
    pub model_fails: u64,
    pub actor_dies: u64,
    pub host_dies: u64,
    pub duplicate_input: u64,
}

/// One recorded commit.
#[derive(Clone)]
pub struct Recorded {
    pub commit: Commit,
    pub hash: Digest,
}

#[derive(Default)]
pub struct BlobStore(pub BTreeMap<Digest, Vec<u8>>);

impl Blobs for BlobStore {
    fn value(&self, digest: &Digest) -> Option<Value> {
        Value::parse(self.0.get(digest)?).ok()
    }
}

enum Pending {
    Admit(Prepared),
    Carry(RunId, Duty, Obligation),
}

pub struct World {
    pub plan: Arc<Plan>,
    pub seed: Seed,
    pub weather: Weather,
    pub now: Timestamp,
    pub log: Vec<Recorded>,
    pub blobs: BlobStore,
    /// How often each write was done.
    pub desk: BTreeMap<EffectKey, u32>,
    pub drivers: BTreeMap<RunId, Driver>,
    pub root: RunId,
    pub host_crashes: u32,
    pub actor_crashes: u32,
    pub refusals: Vec<String>,
    pending: Vec<Pending>,
    arms: BTreeMap<RunId, Timestamp>,
    tree: TreeId,
    tenant: TenantId,
    input: Value,
    /// Items whose model never answers.
    pub failing: fn(&Value) -> bool,
    /// Looks at the world after every step.
    pub after_step: fn(&World),
}

pub fn input(incidents: usize) -> Value {
    let names = (0..incidents)
        .map(|at| Value::Text(format!("incident_{}", 100 + at)))
        .collect();
    Value::map([
        ("request_id", Value::from("r-1")),
        ("incidents", Value::List(names)),
    ])
}

impl World {
    pub fn new(plan: Arc<Plan>, input: Value, seed: u64, weather: Weather) -> Self {
        let tenant = TenantId::default_tenant();
        let root = RunId::root(&tenant, &"key".parse::<ClientKey>().expect("an id"));
        Self {
            plan,
            seed: Seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            weather,
            now: Timestamp(1_000_000_000_000_000),
            log: Vec::new(),
            blobs: BlobStore::default(),
            desk: BTreeMap::new(),
            drivers: BTreeMap::new(),
            tree: TreeId::of_root(&root),
            root,
            host_crashes: 0,
            actor_crashes: 0,
            refusals: Vec::new(),
            pending: Vec::new(),
            arms: BTreeMap::new(),
            tenant,
            input,
            failing: |_| false,
            after_step: |_| {},
        }
    }

    pub fn chain(&self, run: &RunId) -> impl Iterator<Item = &Recorded> {
        self.log
            .iter()
            .filter(move |recorded| recorded.commit.run == *run)
    }

    pub fn events(&self) -> impl Iterator<Item = (&RunId, &Event)> {
        self.log.iter().flat_map(|recorded| {
            recorded
                .commit
                .events
                .iter()
                .map(|entry| (&recorded.commit.run, &entry.event))
        })
    }

    pub fn fold(&self, run: &RunId) -> State {
        let mut state = State::new(
            self.plan.clone(),
            self.tenant.clone(),
            self.tree.clone(),
            run.clone(),
        );
        for recorded in self.chain(run) {
            state
                .fold(&recorded.commit, recorded.hash)
                .expect("a recorded chain folds");
        }
        state
    }

    pub fn ended(&self) -> Option<Ended> {
        self.chain(&self.root)
            .flat_map(|recorded| &recorded.commit.events)
            .find_map(|entry| match &entry.event {
                Event::Run(event::run::Event::Ended(ended)) => Some(ended.clone()),
                _ => None,
            })
    }

    /// Runs to the root's end; panics when nothing more happens, with the seed.
    pub fn run(&mut self) -> Ended {
        self.start_root();
        self.run_on()
    }

    /// Runs a prepared world to the root's end.
    pub fn run_on(&mut self) -> Ended {
        for _ in 0..200_000 {
            if let Some(ended) = self.ended() {
                return ended;
            }
            self.step();
            (self.after_step)(self);
        }
        panic!(
            "the root did not end: {:?}",
            self.drivers
                .get(&self.root)
                .map(|driver| driver.state().owed())
        );
    }

    /// Starts the root without running on.
    pub fn prepare(&mut self) {
        self.start_root();
    }

    fn start_root(&mut self) {
        let (root, start) = (
            self.root.clone(),
            self.start_kind(&self.root.clone(), ClaimReason::Start),
        );
        self.start(&root, start, None);
        if self.chain(&root).next().is_none() {
            let about = Root {
                run: root.clone(),
                tenant: self.tenant.clone(),
                principal: "user:tester".to_owned(),
                objective: self.plan.name.clone(),
                result_schema: self.plan.result_schema.clone(),
                input_refs: BTreeSet::new(),
            };
            let opened = open::root(
                &self.plan,
                about,
                Payload::Inline(self.input.clone()),
                BTreeMap::new(),
                self.now,
            );
            self.tell(
                &root,
                Command::Open(Box::new(opened), Some(Cause::Command("key".to_owned()))),
            );
        }
    }

    fn start_kind(&self, run: &RunId, why: ClaimReason) -> Start {
        if self.chain(run).next().is_some() {
            Start::Again(why)
        } else {
            Start::First
        }
    }

    fn start(&mut self, run: &RunId, start: Start, parent: Option<ParentRef>) {
        let identity = Identity {
            host: "host-1".parse().expect("an id"),
            trace: String::new(),
            parent,
        };
        let mut driver = Driver::new(self.fold(run), identity, start);
        let outputs = driver.begin(self.now, &self.blobs);
        self.drivers.insert(run.clone(), driver);
        self.take(run, outputs);
    }

    /// Tells a run something.
    pub fn tell(&mut self, run: &RunId, command: Command) {
        let repeat = self.seed.one_in(self.weather.duplicate_input);
        self.give(run, Input::Command(command.clone()));
        if repeat {
            self.give(run, Input::Command(command));
        }
    }

    fn give(&mut self, run: &RunId, input: Input) {
        let Some(driver) = self.drivers.get_mut(run) else {
            return;
        };
        let outputs = driver.handle(input, self.now, &self.blobs);
        self.take(run, outputs);
    }

    fn take(&mut self, run: &RunId, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Publish(prepared) => self.pending.push(Pending::Admit(prepared)),
                Output::Do(duty, obligation) => {
                    self.pending
                        .push(Pending::Carry(run.clone(), duty, obligation))
                }
                Output::Drop(duty) => {
                    self.pending.retain(|pending| !matches!(pending, Pending::Carry(of, dropped, _) if of == run && *dropped == duty));
                }
                Output::Arm(at) => {
                    self.arms.insert(run.clone(), at);
                }
                Output::Refuse(refusal) => self.refusals.push(refusal.to_string()),
                Output::Ended => self.child_ended(run),
                Output::Stop { why } => panic!("{run} stopped: {why}"),
            }
        }
    }

    /// A run is over: its parent's host reports it.
    fn child_ended(&mut self, run: &RunId) {
        self.drivers.remove(run);
        self.arms.remove(run);
        let parent = self
            .fold(run)
            .opened()
            .and_then(|opened| opened.envelope.parent().cloned());
        if let Some(parent) = parent {
            let end = self.end_of(run);
            self.tell(&parent, Command::ChildEnded(Box::new(end)));
        }
    }

    fn end_of(&self, run: &RunId) -> ChildEnd {
        let state = self.fold(run);
        let ended = state.ended().expect("an ended child");
        ChildEnd {
            child: run.clone(),
            end: Some(ChildEndFacts {
                reason: ended.reason,
                class: ended.class.clone(),
                answer: ended.answer.clone(),
                usage: ended.usage.clone(),
                commit: state.head(),
                answer_valid: Ok(()),
            }),
        }
    }

    /// One thing happens: a commit is recorded, an obligation carried out, somebody dies, or time goes on.
    pub fn step(&mut self) {
        if self.seed.one_in(self.weather.host_dies) {
            return self.kill_host();
        }
        if self.seed.one_in(self.weather.actor_dies) {
            return self.kill_actor();
        }
        if self.pending.is_empty() {
            return self.let_time_pass();
        }
        let at = self.seed.below(self.pending.len() as u64);
        self.now = self.now.plus(Millis(1));
        match self
            .pending
            .swap_remove(usize::try_from(at).expect("a small number"))
        {
            Pending::Admit(prepared) => self.record(prepared),
            Pending::Carry(run, duty, obligation) => self.carry(&run, &duty, obligation),
        }
    }

    fn record(&mut self, prepared: Prepared) {
        self.blobs.0.extend(prepared.blobs);
        let run = prepared.commit.run.clone();
        let decoded = Commit::decode(&prepared.bytes).expect("what was encoded decodes");
        assert_eq!(decoded, prepared.commit, "encoding loses nothing");
        self.log.push(Recorded {
            commit: decoded,
            hash: prepared.hash,
        });
        self.give(
            &run,
            Input::Admitted {
                hash: prepared.hash,
            },
        );
    }

    /// A timer goes off although by the clock nothing is due: it was set back meanwhile.
    pub fn tick_early(&mut self) {
        if let Some((run, _)) = self.arms.pop_first() {
            self.tell(&run, Command::Tick);
        }
    }

    fn let_time_pass(&mut self) {
        let next = self
            .arms
            .iter()
            .min_by_key(|(_, at)| **at)
            .map(|(run, at)| (run.clone(), *at));
        let Some((run, at)) = next else {
            panic!("stuck: {}", self.describe())
        };
        self.arms.remove(&run);
        self.now = self.now.max(at);
        self.tell(&run, Command::Tick);
    }

    pub fn describe(&self) -> String {
        let driver = |(run, driver): (&RunId, &Driver)| {
            let state = driver.state();
            format!(
                "{run}: publishing {}, due {:?}, owed {:?}, progress {:?}",
                driver.is_publishing(),
                state.due(),
                state.owed(),
                state.progress()
            )
        };
        self.drivers
            .iter()
            .map(driver)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Everything in memory is gone; the log and the desk stay.
    pub fn kill_host(&mut self) {
        self.host_crashes += 1;
        self.drivers.clear();
        self.arms.clear();
        // A request on its way may or may not arrive at the desk.
        for pending in std::mem::take(&mut self.pending) {
            if let Pending::Carry(_, _, Obligation::Send { intended }) = pending
                && self.seed.one_in(2)
            {
                self.do_write(&intended);
            }
        }
        self.start_root();
    }

    fn kill_actor(&mut self) {
        let children: Vec<_> = self
            .drivers
            .keys()
            .filter(|run| **run != self.root)
            .cloned()
            .collect();
        if children.is_empty() {
            return;
        }
        let at = usize::try_from(self.seed.below(children.len() as u64)).expect("a small number");
        self.kill(&children[at]);
    }

    /// One child's actor dies; what it had published is recorded all the same.
    pub fn kill(&mut self, run: &RunId) {
        self.actor_crashes += 1;
        let parent = self.drivers.remove(run).and_then(|driver| {
            driver
                .state()
                .opened()
                .and_then(|opened| opened.envelope.parent().cloned())
        });
        self.arms.remove(run);
        let (of_run, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending| match pending {
                Pending::Admit(prepared) => prepared.commit.run == *run,
                Pending::Carry(of, ..) => of == run,
            });
        self.pending = others;
        for pending in of_run {
            match pending {
                Pending::Admit(prepared) => self.record(prepared),
                Pending::Carry(_, _, Obligation::Send { intended }) => self.do_write(&intended),
                Pending::Carry(..) => {}
            }
        }
        if let Some(parent) = parent.or_else(|| {
            self.fold(run)
                .opened()
                .and_then(|opened| opened.envelope.parent().cloned())
        }) {
            self.tell(
                &parent,
                Command::ChildCrashed {
                    child: run.clone(),
                    why: "killed".to_owned(),
                },
            );
        }
    }

    fn carry(&mut self, run: &RunId, duty: &Duty, obligation: Obligation) {
        let Some(driver) = self.drivers.get(run) else {
            return;
        };
        match obligation {
            Obligation::AskModel { asked, turns } => {
                let turn = Turn::new(self.now, &self.blobs);
                let input = driver
                    .state()
                    .agent_input(&asked.node, &turn)
                    .expect("an agent has an input");
                let outcome = self.model(
                    &asked.agent.to_string(),
                    &input,
                    turns.len(),
                    turns.last().and_then(|turned| turned.result.clone()),
                );
                self.tell(
                    run,
                    Command::Model {
                        node: asked.node.clone(),
                        call: asked.call,
                        outcome,
                    },
                );
            }
            Obligation::Send { intended } => {
                let outcome = self.send(&intended);
                self.tell(
                    run,
                    Command::Effect {
                        key: intended.key,
                        attempt: intended.attempt,
                        outcome,
                    },
                );
            }
            Obligation::Reconcile { intended } => {
                let landed = self
                    .desk
                    .contains_key(&intended.key)
                    .then(|| (receipt(), ResultCheck::Ok, result(&intended)));
                let outcome = EffectOutcome::Reconciled {
                    landed,
                    source: Source::Lookup,
                };
                self.tell(
                    run,
                    Command::Effect {
                        key: intended.key,
                        attempt: intended.attempt,
                        outcome,
                    },
                );
            }
            Obligation::Check { node, check } => {
                let seen = match check {
                    CheckId::Schema => CheckOutcome::SchemaMet(Digest::ZERO),
                    CheckId::Evidence(_) => {
                        let count = i64::try_from(self.desk.len()).expect("a small number");
                        CheckOutcome::Read(Payload::Inline(Value::map([(
                            "count",
                            Value::Int(count),
                        )])))
                    }
                };
                self.tell(run, Command::Check { node, check, seen });
            }
            Obligation::Await {
                delegated,
                seq,
                commit,
                give_up,
                cancel,
                ..
            } => {
                let child = delegated.envelope.run().clone();
                assert_eq!(*duty, Duty::Child(child.clone()));
                if self
                    .chain(&child)
                    .flat_map(|recorded| &recorded.commit.events)
                    .any(|entry| entry.event.kind() == "run.ended")
                {
                    let end = self.end_of(&child);
                    return self.tell(run, Command::ChildEnded(Box::new(end)));
                }
                let opened = driver
                    .state()
                    .child_opened(&delegated)
                    .expect("the parent is open");
                if self.drivers.contains_key(&child) {
                    return self.remind(&child, give_up, cancel);
                }
                let start = self.start_kind(&child, ClaimReason::Restart);
                self.start(
                    &child,
                    start,
                    Some(ParentRef {
                        run: run.clone(),
                        seq,
                        commit,
                    }),
                );
                if start == Start::First {
                    self.tell(&child, Command::Open(Box::new(opened), None));
                }
                if let Some(why) = give_up {
                    self.tell(&child, Command::GiveUp { why });
                }
                if let Some(cancel) = cancel {
                    self.tell(&child, Command::Cancel(cancel));
                }
            }
            Obligation::Receipt { .. } => {
                let receipt = self.receipt();
                self.tell(run, Command::Receipt(Box::new(receipt)));
            }
        }
    }

    /// A child that lives is only told what is new: the obligation names its state, not a step.
    fn remind(&mut self, child: &RunId, give_up: Option<String>, cancel: Option<CancelRequested>) {
        if let Some(why) = give_up {
            self.tell(child, Command::GiveUp { why });
        }
        if let Some(cancel) = cancel {
            self.tell(child, Command::Cancel(cancel));
        }
    }

    fn receipt(&self) -> CancelSettled {
        CancelSettled {
            acknowledged: 0,
            killed: 0,
            unreachable: 0,
            ended_before: 0,
            effects_landed: 0,
            effects_not_sent: 0,
            effects_in_doubt: 0,
            quiet_after: Millis(0),
            steps_after: 0,
            tokens_after: 0,
            descendants: Payload::Inline(Value::List(Vec::new())),
        }
    }

    fn model(
        &mut self,
        agent: &str,
        input: &Value,
        made: usize,
        last: Option<Payload>,
    ) -> ModelOutcome {
        let usage = Spent {
            tokens: 10,
            ..Spent::step()
        };
        if (self.failing)(input) || self.seed.one_in(self.weather.model_fails) {
            return ModelOutcome::Failed {
                class: "unavailable".to_owned(),
                message: "try later".to_owned(),
                usage,
            };
        }
        let call = |tool: &str, arguments| Proposal::Call {
            tool: tool.parse().expect("an id"),
            arguments: Payload::Inline(arguments),
        };
        let proposal = match made {
            0 => call("read_incident", Value::map([("id", input.clone())])),
            1 => call(
                "search_runbook",
                Value::map([("text", Value::from("database"))]),
            ),
            _ => Proposal::Answer(Payload::Inline(Value::map([
                ("incident", input.clone()),
                ("agent", Value::from(agent)),
                ("seen", Value::Bool(last.is_some())),
            ]))),
        };
        ModelOutcome::Proposed {
            proposal,
            answer_valid: Ok(()),
            usage,
            latency: Millis(1),
        }
    }

    fn do_write(&mut self, intended: &Intended) {
        if intended.operation != coppice_messages::Operation::Read {
            *self.desk.entry(intended.key).or_default() += 1;
        }
    }

    fn send(&mut self, intended: &Intended) -> EffectOutcome {
        let usage = Spent {
            operations: [(intended.operation, 1)].into(),
            network: 100,
            ..Spent::step()
        };
        if self.seed.one_in(self.weather.not_sent) {
            return EffectOutcome::NotSent {
                why: "connection refused".to_owned(),
            };
        }
        if self.seed.one_in(self.weather.retryable) {
            return EffectOutcome::Retryable {
                code: "429".to_owned(),
                retry_after: None,
                usage,
            };
        }
        if self.seed.one_in(self.weather.reply_lost) {
            if self.seed.one_in(2) {
                self.do_write(intended);
            }
            return EffectOutcome::Unknown {
                why: "timeout".to_owned(),
            };
        }
        self.do_write(intended);
        EffectOutcome::Landed {
            receipt: receipt(),
            result: ResultCheck::Ok,
            value: result(intended),
            usage,
        }
    }
}

fn receipt() -> Receipt {
    Receipt {
        id: Some("ticket_1".to_owned()),
        version: None,
        result: Digest::ZERO,
    }
}

fn result(intended: &Intended) -> Payload {
    let Payload::Inline(arguments) = &intended.arguments else {
        return Payload::Inline(Value::Null);
    };
    Payload::Inline(Value::map([
        ("id", Value::from("ticket_1")),
        ("of", arguments.clone()),
    ]))
}
