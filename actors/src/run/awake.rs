//! One incarnation of a run: woken from the log, begun, fed with messages until it ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use coppice_kernel::{
    Command, Driver, Duty, Identity, Input, Obligation, Output, Room, Start, State, Turn,
    command::ChildEnd,
};
use coppice_messages::{
    Commit, Digest,
    event::run::{CancelRequested, ClaimReason, Opened},
    ids::RunId,
};
use coppice_store::{
    Storage, Verdict, clock,
    log::{Sleeper, TenantBlobs},
};
use ractor::{ActorCell, ActorRef};
use tokio::sync::{oneshot, watch};

use super::{
    Arguments, FoldChainError, Folded, Message, Opening, fold,
    tasks::{Task, Tasks},
};
use crate::{
    limits::FOLDS_MAX,
    services::{AwakeEntry, Key, Services},
    sleep::SLEEPS,
    timers::Timer,
};

/// Why an incarnation does not begin or go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// Its chain.
    #[error(transparent)]
    Chain(#[from] FoldChainError),
    /// Nothing is recorded and nobody said with what to open it.
    #[error("nothing of the run {run} is recorded")]
    NothingRecorded {
        /// Which run.
        run: RunId,
    },
    /// What it decided cannot be recorded.
    #[error("the run cannot go on: {why}")]
    Refused {
        /// Why.
        why: String,
    },
    /// A task for one of its obligations panicked.
    #[error("{duty:?}: {why}")]
    Broken {
        /// Which obligation.
        duty: coppice_kernel::Duty,
        /// The panic message.
        why: String,
    },
    /// The folding was cut off.
    #[error("folding the chain was cut off")]
    CutOff,
}

impl RunError {
    /// Whether starting again cannot help: the chain itself is the fault.
    pub fn blocks(&self) -> bool {
        match self {
            Self::Chain(_) => true,
            Self::NothingRecorded { .. }
            | Self::Refused { .. }
            | Self::Broken { .. }
            | Self::CutOff => false,
        }
    }
}

/// One incarnation of a run.
pub(crate) struct Incarnation {
    pub(super) myself: ActorRef<Message>,
    pub(super) services: Arc<Services>,
    pub(super) key: Key,
    pub(super) driver: Driver,
    pub(super) blobs: TenantBlobs,
    pub(super) trace: String,
    /// Why this incarnation claims, and those of its children that are started by it.
    pub(super) why: ClaimReason,
    pub(super) tasks: Tasks,
    pub(super) children: BTreeMap<RunId, ActorCell>,
    /// Children whose actor this incarnation saw end.
    pub(super) seen_ended: BTreeSet<RunId>,
    /// Children whose actor is being killed to make way for one that closes the run.
    pub(super) replacing: BTreeSet<RunId>,
    /// Kept for the faults that strike once it is recorded.
    pub(super) under_way: Option<Commit>,
    pub(super) publishing: Option<Task>,
    timer: Option<Timer>,
    begin: Option<Begin>,
    give_up: Option<String>,
    cancel: Option<CancelRequested>,
    recorded: Option<Arc<watch::Sender<bool>>>,
    hashes: Vec<oneshot::Sender<(Digest, Digest)>>,
    folds: u32,
    /// The run had ended before: what is left are effects in doubt, to be looked up.
    only_doubts: bool,
    _entry: AwakeEntry,
}

enum Begin {
    Open(Box<Opened>),
    Again,
}

impl Incarnation {
    /// Folds the chain, or takes the opening when there is none.
    pub async fn wake(myself: ActorRef<Message>, arguments: Arguments) -> Result<Self, RunError> {
        let Arguments {
            services,
            tenant,
            tree,
            run,
            opening,
            why,
            give_up,
            cancel,
            recorded,
        } = arguments;
        let key = (tenant, run);
        let folded = fold_chain(&services, &key).await?;
        let (driver, begin, trace) = match (folded, opening) {
            (Some(folded), _) => {
                let trace = folded.trace.clone();
                (again(&services, folded, why), Begin::Again, trace)
            }
            (None, Some(opening)) => {
                let Opening {
                    opened,
                    parent,
                    trace,
                } = opening;
                let plan = services
                    .releases
                    .plan(services.store.log(), &key.0, opened.release)
                    .map_err(FoldChainError::from)?;
                let state = State::new(plan, key.0.clone(), tree, key.1.clone());
                let identity = Identity {
                    host: services.host.clone(),
                    trace: trace.clone(),
                    parent,
                };
                let driver = Driver::new(state, identity, Start::First);
                (driver, Begin::Open(opened), trace)
            }
            (None, None) => return Err(RunError::NothingRecorded { run: key.1 }),
        };
        let entry = services.awake.enter(key.clone(), myself.clone());
        let incarnation = Self {
            blobs: services.store.log().blobs_of(&key.0),
            myself,
            services,
            key,
            driver,
            trace,
            why,
            tasks: Tasks::default(),
            children: BTreeMap::new(),
            seen_ended: BTreeSet::new(),
            under_way: None,
            publishing: None,
            timer: None,
            begin: Some(begin),
            give_up,
            cancel,
            replacing: BTreeSet::new(),
            recorded,
            hashes: Vec::new(),
            folds: 0,
            only_doubts: false,
            _entry: entry,
        };
        incarnation.teach_faults();
        Ok(incarnation)
    }

    fn teach_faults(&self) {
        let Some(faults) = &self.services.faults else {
            return;
        };
        if let Some(opened) = self.driver.state().opened() {
            faults.learn_path(self.key.clone(), &opened.path);
        }
        for (_, obligation) in self.driver.state().owed() {
            if let Obligation::Send { intended } | Obligation::Reconcile { intended } = obligation {
                faults.learn_tool(intended.key, &intended.tool);
            }
        }
    }

    /// The first thing an actor does, under supervision.
    pub async fn begin(&mut self) -> Result<(), RunError> {
        self.only_doubts = self.driver.state().ended().is_some();
        let opening = match self.begin.take() {
            Some(Begin::Open(opened)) => Some(Command::Open(opened, None)),
            Some(Begin::Again) | None => None,
        };
        let give_up = self.give_up.clone().map(|why| Command::GiveUp { why });
        let cancel = self.cancel.take().map(Command::Cancel);
        let first = [opening, give_up, cancel].into_iter().flatten();
        let outputs = self
            .driver
            .begin_with(first, turn(&self.services, &self.blobs));
        self.carry_out(outputs).await
    }

    async fn told(&mut self, command: Command) -> Result<(), RunError> {
        self.feed(Input::Command(command)).await
    }

    pub(super) async fn feed(&mut self, input: Input) -> Result<(), RunError> {
        let outputs = self.driver.handle(input, turn(&self.services, &self.blobs));
        self.carry_out(outputs).await
    }

    /// Takes one message in.
    pub async fn take_in(&mut self, message: Message) -> Result<(), RunError> {
        match message {
            Message::Told(command) => {
                self.look_up_is_over(&command);
                if matches!(command, Command::ChildCrashed { .. }) {
                    self.shake();
                }
                self.told(command).await?;
            }
            Message::Spoken { hash, verdict } => self.spoken(hash, verdict).await?,
            Message::Unstored { why } => return Err(RunError::Refused { why }),
            Message::Broken { duty, why } => return Err(RunError::Broken { duty, why }),
            Message::ChildStarted {
                child,
                actor,
                found,
            } => self.child_started(child, actor, found),
            Message::Wake { child } => self.wake_child(&child),
            Message::ChildBlocked { child, why, lost } => {
                let key = (self.key.0.clone(), child.clone());
                self.services.blocked.add(key, why);
                if lost {
                    self.shake();
                    let end = ChildEnd { child, end: None };
                    self.told(Command::ChildEnded(Box::new(end))).await?;
                }
            }
            Message::Hash(reply) => self.hashes.push(reply),
        }
        if !self.driver.is_publishing() {
            self.tell_hashes();
        }
        self.stop_when_no_doubt_is_left();
        self.sleep_if_it_only_waits();
        Ok(())
    }

    /// A child may be settled without its end: when the tree has ended it is looked whether somebody below is still open.
    fn shake(&self) {
        let (tenant, tree) = (&self.key.0, self.driver.state().tree());
        self.services.shaken.add(tenant, tree);
    }

    /// An answer that is taken in for a doubt of an ended run is the last: what only a person can settle is not asked again by this incarnation.
    fn look_up_is_over(&mut self, command: &Command) {
        if let (true, Command::Effect { key, .. }) = (self.only_doubts, command) {
            self.tasks.drop_duty(&Duty::Effect(*key));
        }
    }

    fn stop_when_no_doubt_is_left(&self) {
        if self.only_doubts && self.tasks.is_empty() && !self.driver.is_publishing() {
            self.myself.stop(None);
        }
    }

    /// Nothing is under way, nobody below is awake, and nothing falls due soon: the run needs no actor.
    pub(super) fn sleep_if_it_only_waits(&mut self) {
        let state = self.driver.state();
        let open = state.opened().is_some() && state.ended().is_none();
        if !open || self.driver.is_publishing() || !self.children.is_empty() {
            return;
        }
        let sleepers = &self.services.sleepers;
        let waits = |duty: &Duty| match duty {
            Duty::Child(child) => sleepers.is_asleep(&(self.key.0.clone(), child.clone())),
            Duty::Model(_) | Duty::Effect(_) | Duty::Probe(_) | Duty::Check(..) | Duty::Receipt => {
                false
            }
        };
        let due = state.due(Room::Enough);
        if !sleepers.is_long(due, clock::now())
            || !self.driver.in_hand().keys().all(waits)
            || self.waits_for_room()
        {
            return;
        }
        let parent = state
            .opened()
            .and_then(|opened| opened.envelope.parent().cloned());
        let (tenant, run) = self.key.clone();
        self.services.fall_asleep(Sleeper {
            tenant,
            run,
            parent,
            due,
            head: state.head(),
        });
        self.myself.stop(Some(SLEEPS.to_owned()));
    }

    fn tell_hashes(&mut self) {
        if self.hashes.is_empty() {
            return;
        }
        let state = self.driver.state();
        let said = (state.head(), state.hash());
        for reply in std::mem::take(&mut self.hashes) {
            // Who asked may have stopped waiting.
            let _ = reply.send(said);
        }
    }

    async fn spoken(&mut self, hash: Digest, verdict: Verdict) -> Result<(), RunError> {
        match verdict {
            Verdict::Admitted { .. } => {
                self.strike_after().await;
                if let Some(recorded) = self.recorded.take() {
                    recorded.send_replace(true);
                }
                self.feed(Input::Admitted { hash }).await
            }
            Verdict::Refused(reason) => {
                let why = reason.to_string();
                self.feed(Input::Refused { hash, why }).await
            }
            // The store is closing or broken: the host is about to end, and the next one's log knows.
            Verdict::Unknown => {
                self.services.stop();
                self.myself.stop(Some("the store stopped".to_owned()));
                Ok(())
            }
        }
    }

    /// Carries out what the driver puts out, in order.
    async fn carry_out(&mut self, outputs: Vec<Output>) -> Result<(), RunError> {
        for output in outputs {
            match output {
                Output::Publish(prepared) => self.publish(prepared).await,
                Output::Do(duty, obligation) => self.carry(duty, obligation),
                Output::Drop(duty) => self.let_go(&duty),
                Output::Arm(at) => {
                    let actor = self.myself.clone();
                    // Replaces, and so disarms, the one before. An actor that is gone needs no tick.
                    self.timer = Some(self.services.timers.arm(at, move || {
                        let _ = actor.cast(Message::Told(Command::Tick));
                    }));
                }
                Output::Refuse(refusal) => {
                    tracing::debug!(run = %self.key.1, %refusal, "a command changes nothing");
                }
                Output::Ended if self.only_doubts => self.stop_when_no_doubt_is_left(),
                Output::Ended => {
                    self.tasks.clear();
                    self.timer = None;
                    self.myself.stop(None);
                }
                Output::Stop { why } => {
                    tracing::warn!(run = %self.key.1, why, "a commit was refused: folding again");
                    return Box::pin(self.fold_again(why)).await;
                }
            }
        }
        Ok(())
    }

    /// The recorder refused a commit: an earlier incarnation's came first, or somebody else owns the run. The state is folded anew; what was
    /// owed is owed again.
    async fn fold_again(&mut self, why: String) -> Result<(), RunError> {
        self.folds += 1;
        if self.folds > FOLDS_MAX {
            return Err(RunError::Refused { why });
        }
        self.tasks.clear();
        self.under_way = None;
        let folded = fold_chain(&self.services, &self.key).await?;
        let Some(folded) = folded else {
            return Err(RunError::Refused { why });
        };
        self.driver = again(&self.services, folded, ClaimReason::Restart);
        let closing = self.give_up.clone().map(|why| Command::GiveUp { why });
        let outputs = self
            .driver
            .begin_with(closing, turn(&self.services, &self.blobs));
        // Bounded by FOLDS_MAX.
        Box::pin(self.carry_out(outputs)).await
    }

    pub(super) fn turn(&self) -> Turn<'_> {
        turn(&self.services, &self.blobs)
    }

    /// Whether a step waits for room: it is taken at the next tick behind that, so the run must not sleep over it.
    fn waits_for_room(&self) -> bool {
        let turn = self.turn();
        turn.room == Room::Low && {
            let roomy = Turn::new(turn.now, Room::Enough, &self.blobs);
            !self.driver.state().advance(&roomy).is_empty()
        }
    }
}

fn turn<'a>(services: &Services, blobs: &'a TenantBlobs) -> Turn<'a> {
    let room = match services.store.storage() {
        Storage::Ok => Room::Enough,
        Storage::Low { .. } => Room::Low,
    };
    Turn::new(clock::now(), room, blobs).governed_by(services.policies.governor())
}

fn again(services: &Services, folded: Folded, why: ClaimReason) -> Driver {
    let identity = Identity {
        host: services.host.clone(),
        trace: folded.trace,
        parent: folded.parent,
    };
    Driver::new(folded.state, identity, Start::Again(why))
}

async fn fold_chain(services: &Arc<Services>, key: &Key) -> Result<Option<Folded>, RunError> {
    let (services, key) = (services.clone(), key.clone());
    let known = services.store.log().has_chain(&key.0, &key.1);
    if !known.map_err(FoldChainError::from)? {
        return Ok(None);
    }
    let work = move || {
        let folded = fold(services.store.log(), &services.releases, &key.0, &key.1)?;
        if let Some(folded) = &folded {
            services.broker.check(folded.state.plan())?;
            services.broker.reaches(folded.state.plan())?;
        }
        Ok::<_, FoldChainError>(folded)
    };
    let folded = tokio::task::spawn_blocking(work).await;
    Ok(folded.map_err(|_| RunError::CutOff)??)
}
