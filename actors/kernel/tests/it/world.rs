//! A world in memory around the drivers of one tree: a log, a desk that counts, a scripted model, and a seeded order of everything.

mod ordered;
mod outside;
mod plans;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use coppice_kernel::{
    Command, Driver, Duty, Identity, Input, Obligation, Output, Prepared, Room, Start, State, Turn,
    command::{ChildEnd, ChildEndFacts},
    governor::Governor,
    open,
};
use coppice_messages::{
    Blobs, Cause, Commit, Digest, Entry, Event, Millis, ParentRef, Payload, Timestamp, Value,
    delegation::Root,
    event::{
        self,
        effect::Intended,
        model::Proposal,
        run::{ClaimReason, Ended},
    },
    ids::{ClientKey, EffectKey, RunId, TenantId, TreeId},
};
use coppice_topology::Plan;

pub use self::outside::calls;
pub use self::plans::{comparison, plan_of};

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
    pub room_low: u64,
}

const START: i64 = 1_000_000_000_000_000;

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

/// Whether the desk shows what it said that it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lying {
    Never,
    Always,
    /// Nobody may look.
    Unreadable,
}

enum Pending {
    Admit(Prepared),
    Carry(RunId, Duty, Obligation),
}

impl Pending {
    fn run(&self) -> &RunId {
        match self {
            Self::Admit(prepared) => &prepared.commit.run,
            Self::Carry(run, ..) => run,
        }
    }
}

pub struct World {
    pub plan: Arc<Plan>,
    pub seed: Seed,
    pub weather: Weather,
    pub now: Timestamp,
    /// The store's room.
    pub room: Room,
    /// The policy set.
    pub governor: Option<Arc<dyn Governor>>,
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
    /// What a model proposes: on which work, for which agent, after how many calls, shown which last result.
    pub proposes: fn(&Value, &str, usize, Option<Payload>) -> Proposal,
    /// What a tool gives.
    pub gives: fn(&Intended) -> Payload,
    /// What the desk shows of what it did.
    pub lying: Lying,
    /// How many more requests find no place among the calls of their tool.
    pub no_place: u32,
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
            now: Timestamp(START),
            room: Room::Enough,
            governor: None,
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
            proposes: outside::two_reads_and_an_answer,
            gives: outside::what_was_asked,
            no_place: 0,
            lying: Lying::Never,
            after_step: |_| {},
        }
    }

    /// The same world with the first `commits` of this one recorded, nothing in memory, and this one's blobs and time.
    pub fn after(&self, commits: usize) -> Self {
        let mut world = Self::new(self.plan.clone(), self.input.clone(), 1, Weather::default());
        world.now = self.now;
        world.log = self.log[..commits].to_vec();
        world.blobs.0.clone_from(&self.blobs.0);
        world.failing = self.failing;
        world.lying = self.lying;
        world
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

    /// How often a kind of event is recorded.
    pub fn count(&self, kind: &str) -> usize {
        self.events()
            .filter(|(_, event)| event.kind() == kind)
            .count()
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

    /// When every world begins.
    pub fn start_of_time(&self) -> Timestamp {
        Timestamp(START)
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
        let turn = Turn::new(self.now, self.room, &self.blobs).governed_by(self.governor.clone());
        let outputs = driver.begin(turn);
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
        let turn = Turn::new(self.now, self.room, &self.blobs).governed_by(self.governor.clone());
        let Some(driver) = self.drivers.get_mut(run) else {
            return;
        };
        let outputs = driver.handle(input, turn);
        self.take(run, outputs);
    }

    fn take(&mut self, run: &RunId, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Publish(prepared) => {
                    let intends = |entry: &Entry| entry.event.kind() == "effect.intended";
                    assert!(
                        self.room == Room::Enough || !prepared.commit.events.iter().any(intends),
                        "an intent without room: {:?}",
                        prepared.commit
                    );
                    self.pending.push(Pending::Admit(prepared));
                }
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
        if self.room == Room::Low
            && self.weather.room_low > 0
            && (self.pending.is_empty() || self.seed.one_in(8))
        {
            return self.make_room();
        }
        if self.seed.one_in(self.weather.room_low) {
            self.room = Room::Low;
        }
        if self.pending.is_empty() {
            return self.let_time_pass();
        }
        let at = self.seed.below(self.pending.len() as u64);
        self.now = self.now.plus(Millis(1));
        let at = usize::try_from(at).expect("a small number");
        let pending = self.pending.swap_remove(at);
        self.happen(pending);
    }

    fn happen(&mut self, pending: Pending) {
        match pending {
            Pending::Admit(prepared) => self.record(prepared),
            Pending::Carry(run, duty, obligation) => self.carry(&run, &duty, obligation),
        }
    }

    /// Whether something but time will move this world.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// There is room again, and every driver looks.
    pub fn make_room(&mut self) {
        self.room = Room::Enough;
        for run in self.drivers.keys().cloned().collect::<Vec<_>>() {
            self.give(&run, Input::Command(Command::Tick));
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
                state.due(self.room),
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
            .partition(|pending| pending.run() == run);
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
}
