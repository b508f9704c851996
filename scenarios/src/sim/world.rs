//! One simulated world: a host, its nats-server, its log and the desk, in virtual time, with one seed behind everything.

use std::{collections::BTreeMap, sync::Arc};

use coppice_messages::{
    Timestamp, Value,
    ids::{ClientKey, RunId, TenantId, TreeId},
};
use coppice_topology::Plan;

use super::{
    agenda::{Agenda, Ticket},
    desk::{self, Desk},
    host::Host,
    laws::{Laws, Violation},
    log::Log,
    seed::Seed,
    server::Server,
    step::Step,
    trace::Trace,
    weather::Weather,
    workload,
};

/// The wall clock when a world begins.
const BEGINNING: i64 = 1_000_000_000_000_000;
/// Steps after which a world that has not come to rest is a fault.
const STEPS_MAX: u64 = 60_000;
/// One millisecond of the clock that never steps.
pub(super) const MS: u64 = 1_000;

/// A tree that the client wants run.
pub(super) struct Tree {
    pub tree: TreeId,
    pub root: RunId,
    pub plan: Arc<Plan>,
    pub input: Value,
}

/// See the module.
pub(super) struct World {
    pub seed: Seed,
    /// When somebody cancels, and which run.
    pub cancelling: Seed,
    pub weather: Weather,
    pub trace: Trace,
    pub agenda: Agenda<Step>,
    /// Microseconds of the clock that never steps.
    pub mono: u64,
    /// What the wall clock was set by.
    pub offset: i64,
    pub server: Server,
    pub log: Log,
    pub desk: Desk,
    pub requests: BTreeMap<u64, desk::Request>,
    pub host: Host,
    pub tenant: TenantId,
    pub trees: BTreeMap<RunId, Tree>,
    pub laws: Laws,
    pub violation: Option<Violation>,
    /// Numbers for sendings, requests, incarnations, …
    pub last_number: u64,
    pub steps: u64,
    fair_from: u64,
}

impl World {
    /// The world of one seed, before anything happened.
    pub fn new(number: u64, trace: Trace) -> Result<Self, workload::Unusable> {
        let mut seed = Seed::new(number);
        let mut cancelling = Seed::new(!number);
        let weather = Weather::draw(&mut seed, &mut cancelling);
        let tenant = TenantId::default_tenant();
        let mut trees = BTreeMap::new();
        for nth in 0..seed.pick(&[1, 1, 1, 2, 2, 3]) {
            let work = workload::draw(&mut seed, nth)?;
            let key: ClientKey = format!("tree-{nth}")
                .parse()
                .unwrap_or_else(|_| unreachable!("letters and digits are an id"));
            let root = RunId::root(&tenant, &key);
            let tree = Tree {
                tree: TreeId::of_root(&root),
                root: root.clone(),
                plan: work.plan,
                input: work.input,
            };
            trees.insert(root, tree);
        }
        let mut world = Self {
            cancelling,
            weather,
            trace,
            agenda: Agenda::new(),
            mono: 0,
            offset: 0,
            server: Server::new(&mut seed),
            log: Log::default(),
            desk: Desk::new(seed.one_in(2)),
            requests: BTreeMap::new(),
            host: Host::down(0),
            tenant,
            trees,
            laws: Laws::default(),
            violation: None,
            last_number: 0,
            steps: 0,
            fair_from: seed.between(100, 1_200),
            seed,
        };
        world.put(0, Step::HostUp);
        Ok(world)
    }

    /// The wall clock.
    pub fn now(&self) -> Timestamp {
        let mono = i64::try_from(self.mono).unwrap_or(i64::MAX);
        Timestamp(BEGINNING + mono + self.offset)
    }

    /// Puts a step on the agenda, this many microseconds from now.
    pub fn put(&mut self, after: u64, step: Step) -> Ticket {
        self.agenda.put(self.mono + after, step)
    }

    /// The same, somewhere between two times.
    pub fn put_between(&mut self, least: u64, most: u64, step: Step) -> Ticket {
        let after = self.seed.between(least, most);
        self.put(after, step)
    }

    pub fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Writes a line of the history.
    pub fn note(&mut self, line: std::fmt::Arguments<'_>) {
        self.trace.line(self.steps, self.mono, line);
    }

    /// A law is broken; the first one stands.
    pub fn broken(&mut self, law: &'static str, what: String) {
        if self.violation.is_none() {
            self.note(format_args!("BROKEN {law}: {what}"));
            self.violation = Some(Violation { law, what });
        }
    }

    /// Runs the world until it has come to rest or a law is broken.
    pub fn run(&mut self) {
        while self.violation.is_none() && !self.is_at_rest() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                let what = self.describe();
                return self.broken("it converges", what);
            }
            if self.steps == self.fair_from {
                self.weather = Weather::fair();
                self.note(format_args!("fair weather from here on"));
            }
            self.strike();
            let Some((at, step)) = self.agenda.next(self.mono, &mut self.seed) else {
                let what = self.describe();
                return self.broken("every waiting run has a waker", what);
            };
            self.mono = self.mono.max(at);
            self.take(step);
            self.check_steadily();
        }
        if self.violation.is_none() {
            self.check_at_rest();
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Hear(actor) => self.hear(&actor),
            Step::Tick(actor) => self.tick(&actor),
            Step::Report(actor, duty, command) => self.report(&actor, &duty, *command),
            Step::Await(actor, duty) => self.await_child(&actor, &duty),
            Step::LookUp(actor, duty) => self.look_up(&actor, &duty),
            Step::Root(run) => self.start_root(&run),
            Step::Doubt(run) => self.look_up_doubts(&run),
            Step::Publish => self.publish(),
            Step::AckLate(sending) => self.ack_late(sending),
            Step::Silence => self.silence(),
            Step::Look => self.look(),
            Step::Said(link, input) => self.said(link, input),
            Step::NoteLoss(loss) => self.note_loss(&loss),
            Step::Heartbeat(consumer) => self.heartbeat(consumer),
            Step::Stalled(consumer) => self.stalled(consumer),
            Step::Gather => self.gather(),
            Step::Synced => self.synced(),
            Step::Leave(sending) => self.leave(sending),
            Step::ReplyLate(sending) => self.reply_late(sending),
            Step::Reply(sending) => self.reply(sending),
            Step::Arrive {
                link,
                sending,
                message,
            } => self.arrive(link, sending, message),
            Step::Ack { link, sending, seq } => self.ack(link, sending, seq),
            Step::Deliver(consumer) => self.deliver(consumer),
            Step::Desk(request) => self.desk_takes(request),
            Step::LinkUp => self.link_up(),
            Step::HostUp => self.host_up(),
        }
    }

    /// Whether everything is done: every tree has ended, nothing is in doubt or on its way, and the weather is fair.
    fn is_at_rest(&self) -> bool {
        self.steps > self.fair_from.min(100)
            && self.host.up
            && self.trees.keys().all(|root| self.laws.has_ended(root))
            && self.host.is_idle(&self.server)
            && self.requests.is_empty()
            && self.in_doubt().next().is_none()
    }

    fn describe(&self) -> String {
        let open = self.trees.keys().filter(|root| !self.laws.has_ended(root));
        format!(
            "after {} steps: trees not ended {:?}, ended in doubt {:?}; {}",
            self.steps,
            open.collect::<Vec<_>>(),
            self.in_doubt().collect::<Vec<_>>(),
            self.host.describe()
        )
    }
}
