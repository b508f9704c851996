//! The shell of a run actor around the kernel's own [`Driver`]: a mailbox, tasks that report back, a timer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coppice_kernel::{
    Command, Driver, Duty, Identity, Input, Output, Prepared, Room, Start, State, Turn,
};
use coppice_messages::{
    Digest, ParentRef, Timestamp,
    event::run::{CancelRequested, ClaimReason, Opened},
    ids::{HostId, RunId},
};
use coppice_store::Verdict;

use crate::sim::{
    agenda::Ticket,
    step::{ActorId, Step},
    world::World,
};

/// How often one incarnation folds its chain anew after a refusal; then it dies and is supervised.
const FOLDS_MAX: u32 = 3;

/// One incarnation of a run.
pub(in crate::sim) struct Actor {
    /// Which incarnation, over the whole world.
    pub nth: u64,
    pub driver: Driver,
    mailbox: VecDeque<Message>,
    pub(super) tasks: BTreeMap<Duty, Task>,
    pub(super) timer: Option<(Timestamp, Ticket)>,
    pub(super) why: ClaimReason,
    give_up: Option<String>,
    cancel: Option<CancelRequested>,
    folds: u32,
    /// The parent's actor; none for a root.
    pub(super) supervisor: Option<ActorId>,
    pub(super) seen_ended: BTreeSet<RunId>,
    /// The run had ended before: what is left are effects in doubt.
    pub(super) only_doubts: bool,
}

/// What an actor is told.
pub(super) enum Message {
    /// Begin; with this, when nothing is recorded.
    Begin(Option<Box<Opened>>),
    /// A command.
    Told(Command),
    /// What became of its commit.
    Spoken(Digest, Verdict),
    /// A child's actor is gone.
    ChildGone(RunId, String),
}

/// What a waiter was told.
pub(in crate::sim) struct Told {
    pub actor: ActorId,
    pub hash: Digest,
    pub verdict: Verdict,
}

/// A commit that waits for the blobs that it cites.
pub(super) struct Unstored {
    pub blobs: BTreeSet<Digest>,
    held: Option<(ActorId, Prepared)>,
}

impl Unstored {
    pub fn take(&mut self) -> Option<(ActorId, Prepared)> {
        self.held.take()
    }
}

/// What an actor has under way for a duty.
pub(super) enum Task {
    /// It is on the agenda.
    Planned(Ticket),
    /// It waits for the answer to a request.
    Request(u64),
    /// A look-up that counts absence only from this time of the clock that never steps.
    LookUp {
        planned: Ticket,
        settled: u64,
        silent: u32,
    },
}

/// What a run is started with.
pub(super) struct Starting {
    pub run: RunId,
    /// With what to open it, should nothing be recorded.
    pub opened: Box<Opened>,
    pub parent: Option<ParentRef>,
    pub why: ClaimReason,
    /// It is to be closed, not driven.
    pub give_up: Option<String>,
    /// It is to stop, and everything below it.
    pub cancel: Option<CancelRequested>,
    pub supervisor: Option<ActorId>,
}

impl Actor {
    pub fn id(&self, run: &RunId) -> ActorId {
        (run.clone(), self.nth)
    }

    /// Whether something will move it: a message, a commit under way, a timer, or what it has under way outside.
    pub fn has_waker(&self, world: &World) -> bool {
        let planned = |ticket: &Ticket| world.agenda.has(*ticket);
        let wakes = |duty: &Duty| match (duty, self.tasks.get(duty)) {
            (_, Some(Task::Planned(ticket))) if planned(ticket) => true,
            (Duty::Child(child), _) => world.host.actors.contains_key(child),
            (_, Some(Task::Request(sending))) => world.host.is_under_way(*sending),
            (
                _,
                Some(Task::LookUp {
                    planned: ticket, ..
                }),
            ) => planned(ticket),
            (_, Some(Task::Planned(_)) | None) => false,
        };
        let due = self.driver.state().due(Room::Enough).is_some();
        let armed = self
            .timer
            .as_ref()
            .is_some_and(|(_, ticket)| planned(ticket));
        !self.mailbox.is_empty()
            || self.driver.is_publishing()
            || (self.driver.in_hand().keys().all(wakes)
                && (armed || !due)
                && (armed || !self.driver.in_hand().is_empty()))
    }

    pub fn describe(&self) -> String {
        let state = self.driver.state();
        format!(
            "publishing {}, mailbox {}, due {:?}, timer {:?}, in hand {:?}, progress {:?}",
            self.driver.is_publishing(),
            self.mailbox.len(),
            state.due(Room::Enough),
            self.timer.as_ref().map(|(at, _)| at),
            self.driver.in_hand().keys().collect::<Vec<_>>(),
            state.progress()
        )
    }
}

impl World {
    fn host_id(&self) -> HostId {
        format!("host-{}", self.host.nth)
            .parse()
            .unwrap_or_else(|_| unreachable!("letters and digits are an id"))
    }

    /// A driver over what the log has of a run; none when it has nothing.
    fn driver_of(
        &mut self,
        run: &RunId,
        why: ClaimReason,
        parent: Option<ParentRef>,
    ) -> Option<Driver> {
        let recorded = self.rebuild(run)?;
        let (state, start) = match recorded {
            Some(state) => (state, Start::Again(why)),
            None => (self.empty_state(run)?, Start::First),
        };
        let identity = Identity {
            host: self.host_id(),
            trace: String::new(),
            parent,
        };
        Some(Driver::new(state, identity, start))
    }

    fn empty_state(&self, run: &RunId) -> Option<State> {
        let tree = self.tree_of(run)?;
        Some(State::new(
            tree.plan.clone(),
            self.tenant.clone(),
            tree.tree.clone(),
            run.clone(),
        ))
    }

    /// Starts an actor.
    pub(super) fn spawn(&mut self, starting: Starting) {
        let Starting {
            run,
            opened,
            parent,
            why,
            give_up,
            cancel,
            supervisor,
        } = starting;
        self.laws.learn(&run, &opened);
        let Some(driver) = self.driver_of(&run, why, parent) else {
            return;
        };
        let first = driver.state().opened().is_none();
        let nth = self.number();
        let actor = Actor {
            nth,
            driver,
            mailbox: VecDeque::new(),
            tasks: BTreeMap::new(),
            timer: None,
            why,
            give_up,
            cancel,
            folds: 0,
            supervisor,
            seen_ended: BTreeSet::new(),
            only_doubts: false,
        };
        self.note(format_args!("actor {run}#{nth}, first {first}"));
        let id = actor.id(&run);
        self.host.actors.insert(run, actor);
        self.mail(&id, Message::Begin(first.then_some(opened)));
    }

    /// Puts a message into a mailbox.
    pub(super) fn mail(&mut self, id: &ActorId, message: Message) {
        if !self.is_alive(id) {
            return;
        }
        if let Some(actor) = self.host.actors.get_mut(&id.0) {
            actor.mailbox.push_back(message);
        }
        self.put_between(0, 200, Step::Hear(id.clone()));
    }

    /// Somebody from outside tells a run something.
    pub(in crate::sim) fn tell(&mut self, id: &ActorId, command: Command) {
        self.mail(id, Message::Told(command));
    }

    pub(super) fn spoken(&mut self, told: Told) {
        self.mail(&told.actor, Message::Spoken(told.hash, told.verdict));
    }

    /// An actor takes its next message.
    pub(in crate::sim) fn hear(&mut self, id: &ActorId) {
        if !self.is_alive(id) {
            return;
        }
        let Some(actor) = self.host.actors.get_mut(&id.0) else {
            return;
        };
        let Some(message) = actor.mailbox.pop_front() else {
            return;
        };
        match message {
            Message::Begin(opened) => self.begin(id, opened),
            Message::Told(command) => self.feed(id, Input::Command(command)),
            Message::Spoken(hash, Verdict::Admitted { .. }) => {
                self.feed(id, Input::Admitted { hash });
            }
            Message::Spoken(hash, Verdict::Refused(reason)) => {
                let why = reason.to_string();
                self.feed(id, Input::Refused { hash, why });
            }
            Message::Spoken(_, Verdict::Unknown) => {}
            Message::ChildGone(child, why) => self.child_gone(id, &child, why),
        }
        self.stop_without_doubts(id);
        self.check_actor(id);
    }

    fn begin(&mut self, id: &ActorId, opened: Option<Box<Opened>>) {
        let now = self.now();
        let blobs = self.log.blobs_of(&self.tenant);
        let Some(actor) = self.host.actors.get_mut(&id.0) else {
            return;
        };
        actor.only_doubts = actor.driver.state().ended().is_some();
        let opening = opened.map(|opened| Command::Open(opened, None));
        let give_up = actor.give_up.clone().map(|why| Command::GiveUp { why });
        let cancel = actor.cancel.take().map(Command::Cancel);
        let first = [opening, give_up, cancel].into_iter().flatten();
        let outputs = actor
            .driver
            .begin_with(first, Turn::new(now, Room::Enough, &blobs));
        self.carry_out(id, outputs);
    }

    fn feed(&mut self, id: &ActorId, input: Input) {
        if !self.is_alive(id) {
            return;
        }
        let now = self.now();
        let line = self.line_of(&input);
        self.note(format_args!("{}#{} {line}", id.0, id.1));
        let blobs = self.log.blobs_of(&self.tenant);
        let Some(actor) = self.host.actors.get_mut(&id.0) else {
            return;
        };
        let outputs = actor
            .driver
            .handle(input, Turn::new(now, Room::Enough, &blobs));
        self.carry_out(id, outputs);
    }

    fn line_of(&self, input: &Input) -> String {
        match input {
            Input::Command(command) => {
                let text = format!("{command:?}");
                text.split([' ', '(', '{'])
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            }
            Input::Admitted { hash } => format!("admitted {hash:?}"),
            Input::Refused { hash, why } => format!("refused {hash:?}: {why}"),
        }
    }

    fn carry_out(&mut self, id: &ActorId, outputs: Vec<Output>) {
        for output in outputs {
            if !self.is_alive(id) {
                return;
            }
            match output {
                Output::Publish(prepared) => self.publish_commit(id, prepared),
                Output::Do(duty, obligation) => self.carry(id, duty, obligation),
                Output::Drop(duty) => self.let_go(id, &duty),
                Output::Arm(at) => self.arm(id, at),
                Output::Refuse(refusal) => self.note(format_args!("refused command: {refusal}")),
                Output::Ended if self.is_for_doubts(id) => {}
                Output::Ended => return self.stop_actor(&id.0, "it ended"),
                Output::Stop { why } => return self.fold_again(id, &why),
            }
        }
    }

    fn publish_commit(&mut self, id: &ActorId, mut prepared: Prepared) {
        let kinds: Vec<&str> = prepared
            .commit
            .events
            .iter()
            .map(|entry| entry.event.kind())
            .collect();
        let line = format!(
            "{}#{} publishes {:?} seq {} epoch {}: {}",
            id.0,
            id.1,
            prepared.hash,
            prepared.commit.seq,
            prepared.commit.epoch,
            kinds.join(" ")
        );
        self.note(format_args!("{line}"));
        self.laws.published(id, &prepared);
        let blobs: BTreeMap<_, _> = std::mem::take(&mut prepared.blobs)
            .into_iter()
            .filter(|(blob, _)| !self.log.has_blob(&self.tenant, blob))
            .collect();
        if blobs.is_empty() {
            return self.submit(id, prepared);
        }
        self.host.unstored.push(Unstored {
            blobs: blobs.keys().copied().collect(),
            held: Some((id.clone(), prepared)),
        });
        let tenant = self.tenant.clone();
        for (blob, whole) in blobs {
            self.submit_blob(&tenant, blob, whole);
        }
    }

    /// The recorder refused a commit: the state is folded anew; what was owed is owed again.
    fn fold_again(&mut self, id: &ActorId, why: &str) {
        self.note(format_args!("{}#{} folds again: {why}", id.0, id.1));
        self.clear_tasks(id);
        let Some(actor) = self.host.actors.get_mut(&id.0) else {
            return;
        };
        actor.folds += 1;
        let folds = actor.folds;
        let recorded = self.log.head(&self.tenant, &id.0).is_some();
        if folds > FOLDS_MAX || !recorded {
            return self.actor_died(&id.0, why);
        }
        if let Some(driver) = self.driver_of(&id.0, ClaimReason::Restart, None)
            && let Some(actor) = self.host.actors.get_mut(&id.0)
        {
            actor.driver = driver;
            self.begin(id, None);
        }
    }

    fn arm(&mut self, id: &ActorId, at: Timestamp) {
        let after = u64::try_from(at.0 - self.now().0).unwrap_or(0);
        let ticket = self.put(after, Step::Tick(id.clone()));
        let Some(actor) = self.host.actors.get_mut(&id.0) else {
            return;
        };
        if let Some((_, old)) = actor.timer.replace((at, ticket)) {
            self.agenda.cancel(old);
        }
    }

    /// The wall clock was set: what is due by it is due at another moment.
    pub(in crate::sim) fn rearm(&mut self) {
        let armed: Vec<_> = self
            .host
            .actors
            .iter()
            .filter_map(|(run, actor)| Some((actor.id(run), actor.timer.as_ref()?.0)))
            .collect();
        for (id, at) in armed {
            self.arm(&id, at);
        }
    }

    pub(in crate::sim) fn tick(&mut self, id: &ActorId) {
        if let Some(actor) = self
            .host
            .actors
            .get_mut(&id.0)
            .filter(|known| known.nth == id.1)
        {
            actor.timer = None;
            self.mail(id, Message::Told(Command::Tick));
        }
    }
}
