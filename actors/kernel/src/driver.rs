//! The run actor without I/O: the gate between "published" and "admitted", the epoch, and which obligations are in hand.
//!
//! One commit of a run is under way at a time; what comes in meanwhile gathers and is decided together. The state runs ahead of the log by
//! that one commit; nothing that it owes leaves this gate before the commit is admitted. The ractor actor, the simulator and the replayer
//! all drive this.

use std::collections::{BTreeMap, VecDeque};

use coppice_messages::{
    Cause, Commit, Digest, Entry, Event, ParentRef, Timestamp,
    commit::{COMMIT_BYTES_MAX, FORMAT},
    event::run::ClaimReason,
    ids::HostId,
};

use crate::{
    command::{Command, Refusal},
    duty::{Duty, Obligation},
    limits::{MAILBOX, TURN_BYTES, TURN_EVENTS},
    state::{Meta, Room, State, Turn},
};

/// Who drives, and how the commits of this run are headed.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The host.
    pub host: HostId,
    /// W3C traceparent of the run.
    pub trace: String,
    /// Of a child: the recorded delegation that its first commit cites.
    pub parent: Option<ParentRef>,
}

/// What kind of incarnation this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The first: the chain is empty.
    First,
    /// A later one: it records its claim before it acts.
    Again(ClaimReason),
}

/// What the driver is told.
#[derive(Debug)]
pub enum Input {
    /// Something that the run must take in.
    Command(Command),
    /// The commit under way is in the log.
    Admitted {
        /// SHA-256 of its bytes.
        hash: Digest,
    },
    /// The commit under way will never be in the log: another owner, or a fault.
    Refused {
        /// SHA-256 of its bytes.
        hash: Digest,
        /// Why.
        why: String,
    },
}

/// A commit, ready to be published.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// As decided.
    pub commit: Commit,
    /// As encoded.
    pub bytes: Vec<u8>,
    /// SHA-256 of the bytes.
    pub hash: Digest,
    /// Blobs that the commit cites and that must be stored before it.
    pub blobs: BTreeMap<Digest, Vec<u8>>,
}

/// What the shell must do.
#[derive(Debug)]
pub enum Output {
    /// Publish this commit and report what became of it.
    Publish(Prepared),
    /// Carry this out, once, and report the outcome as a command.
    Do(Duty, Obligation),
    /// It is no longer owed: stop it if it is still under way.
    Drop(Duty),
    /// Send a tick at this time; replaces an earlier one.
    Arm(Timestamp),
    /// A command changed nothing.
    Refuse(Refusal),
    /// The run is over and recorded. What is still in hand are doubts that outlive it.
    Ended,
    /// Stop driving: the state must be folded again.
    Stop {
        /// Why.
        why: String,
    },
}

/// The run actor without I/O.
pub struct Driver {
    state: State,
    identity: Identity,
    start: Start,
    claimed: bool,
    mailbox: VecDeque<Command>,
    under_way: Option<Digest>,
    touched: Vec<Duty>,
    in_hand: BTreeMap<Duty, Obligation>,
    armed: Option<Timestamp>,
    announced: bool,
    stopped: bool,
}

impl Driver {
    /// A driver for this state. Call [`Driver::begin`] next.
    #[must_use]
    pub fn new(state: State, identity: Identity, start: Start) -> Self {
        Self {
            claimed: start == Start::First,
            state,
            identity,
            start,
            mailbox: VecDeque::new(),
            under_way: None,
            touched: Vec::new(),
            in_hand: BTreeMap::new(),
            armed: None,
            announced: false,
            stopped: false,
        }
    }

    /// The state, ahead of the log by the commit under way.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether a commit is under way.
    #[must_use]
    pub fn is_publishing(&self) -> bool {
        self.under_way.is_some()
    }

    /// What has been handed out and is still owed.
    #[must_use]
    pub fn in_hand(&self) -> &BTreeMap<Duty, Obligation> {
        &self.in_hand
    }

    /// Whether the mailbox takes further commands from outside.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.mailbox.len() < MAILBOX
    }

    /// Starts: hands out what only waits, and records a claim first when something is to be done.
    pub fn begin(&mut self, turn: Turn<'_>) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.state.ended().is_some() {
            // Only doubts outlive a run; their answers are recorded behind a claim when they come.
            for (duty, obligation) in self.state.owed() {
                self.hand_out(duty, obligation, &mut outputs);
            }
            self.announced = true;
            outputs.push(Output::Ended);
            return outputs;
        }
        if self.state.opened().is_none() && self.mailbox.is_empty() {
            return outputs;
        }
        let waits = self
            .state
            .owed()
            .into_iter()
            .filter(|(_, obligation)| !obligation.acts());
        let waits: Vec<_> = waits.collect();
        let room = turn.room;
        self.publish_turn(turn, &mut outputs);
        for (duty, obligation) in waits {
            self.hand_out(duty, obligation, &mut outputs);
        }
        self.arm(room, &mut outputs);
        outputs
    }

    /// Starts with something to take in at once, right after the claim and before any step: to be opened, closed, cancelled.
    pub fn begin_with(
        &mut self,
        first: impl IntoIterator<Item = Command>,
        turn: Turn<'_>,
    ) -> Vec<Output> {
        self.mailbox.extend(first);
        self.begin(turn)
    }

    /// Takes one input. When there is room again after a turn in which it was low, a [`Command::Tick`] makes the driver look.
    pub fn handle(&mut self, input: Input, turn: Turn<'_>) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.stopped {
            return outputs;
        }
        match input {
            Input::Command(command) => {
                if command == Command::Tick {
                    // The timer is spent. Should nothing be due by now, because the clock was set back meanwhile, it is armed again.
                    self.armed = None;
                }
                self.mailbox.push_back(command);
            }
            Input::Admitted { hash } => self.admitted(hash, &mut outputs),
            Input::Refused { hash, why } => {
                if self.under_way == Some(hash) {
                    self.stop(why, &mut outputs);
                }
                return outputs;
            }
        }
        let room = turn.room;
        if self.under_way.is_none() {
            self.publish_turn(turn, &mut outputs);
        }
        if self.under_way.is_none() {
            self.arm(room, &mut outputs);
        }
        outputs
    }

    fn admitted(&mut self, hash: Digest, outputs: &mut Vec<Output>) {
        if self.under_way != Some(hash) {
            return;
        }
        self.under_way = None;
        self.state.recorded(hash);
        let touched: std::collections::BTreeSet<Duty> =
            std::mem::take(&mut self.touched).into_iter().collect();
        for duty in touched {
            match self.state.obligation(&duty) {
                Some(obligation) => self.hand_out(duty, obligation, outputs),
                None => {
                    if self.in_hand.remove(&duty).is_some() {
                        outputs.push(Output::Drop(duty));
                    }
                }
            }
        }
        if self.state.ended().is_some() && !self.announced {
            self.announced = true;
            let state = &self.state;
            let over: Vec<Duty> = self
                .in_hand
                .keys()
                .filter(|duty| state.obligation(duty).is_none())
                .cloned()
                .collect();
            for duty in over {
                self.in_hand.remove(&duty);
                outputs.push(Output::Drop(duty));
            }
            outputs.push(Output::Ended);
        }
    }

    fn hand_out(&mut self, duty: Duty, obligation: Obligation, outputs: &mut Vec<Output>) {
        if self.in_hand.get(&duty) != Some(&obligation) {
            self.in_hand.insert(duty.clone(), obligation.clone());
            outputs.push(Output::Do(duty, obligation));
        }
    }

    fn arm(&mut self, room: Room, outputs: &mut Vec<Output>) {
        let due = self.state.due(room);
        if due != self.armed {
            self.armed = due;
            outputs.extend(due.map(Output::Arm));
        }
    }

    /// Decides everything that waits and publishes what comes of it as one commit.
    fn publish_turn(&mut self, turn: Turn<'_>, outputs: &mut Vec<Output>) {
        let first_seq = self.state.next_seq();
        let mut gathered = Gathered {
            entries: Vec::new(),
            bytes: 0,
            epoch: self.state.epoch(),
            now: turn.now,
        };
        if !self.claimed && self.has_to_act(&turn) {
            self.claim(&mut gathered);
        }
        while !gathered.is_full() {
            let Some(command) = self.mailbox.pop_front() else {
                break;
            };
            let cause = cause_of(&command);
            match self.state.decide(command, &turn) {
                Ok(events) => self.take_in(events, cause, &mut gathered),
                Err(refusal) => outputs.push(Output::Refuse(refusal)),
            }
        }
        self.advance(&mut gathered, &turn);
        if !gathered.entries.is_empty() {
            self.publish(first_seq, gathered, turn.into_kept(), outputs);
        }
    }

    /// Whether this incarnation is about to do more than wait. It records its claim before, so that what a dead one had under way is settled
    /// as lost or unknown first.
    fn has_to_act(&self, turn: &Turn<'_>) -> bool {
        let ended = self.state.ended().is_some();
        // Evidence that comes late moves nothing, so nobody has to own the run for it.
        let is_evidence = |command: &Command| ended && matches!(command, Command::Callback(_));
        let told = self
            .mailbox
            .iter()
            .any(|command| !matches!(command, Command::Tick) && !is_evidence(command));
        let owes = || {
            self.state
                .owed()
                .iter()
                .any(|(_, obligation)| obligation.acts())
        };
        told || (!ended && (owes() || !self.state.advance(turn).is_empty()))
    }

    fn advance(&mut self, gathered: &mut Gathered, turn: &Turn<'_>) {
        while !gathered.is_full() {
            let events = self.state.advance(turn);
            if events.is_empty() {
                return;
            }
            self.take_in(events, None, gathered);
        }
    }

    fn claim(&mut self, gathered: &mut Gathered) {
        let Start::Again(why) = self.start else {
            return;
        };
        self.claimed = true;
        // Nothing was handed out before the claim but what only waits, so everything owed is handed out behind it.
        self.touched
            .extend(self.state.owed().into_iter().map(|(duty, _)| duty));
        gathered.epoch = self.state.epoch() + 1;
        let events = self.state.claim(&self.identity.host, why);
        self.take_in(events, None, gathered);
    }

    fn take_in(&mut self, events: Vec<Event>, cause: Option<Cause>, gathered: &mut Gathered) {
        for event in events {
            let meta = Meta {
                seq: self.state.next_seq(),
                epoch: gathered.epoch,
                at: gathered.now,
            };
            self.state.evolve(&event, meta, &mut self.touched);
            let entry = Entry {
                cause: cause.clone(),
                event,
            };
            gathered.bytes += entry.encoded_len();
            gathered.entries.push(entry);
        }
    }

    fn publish(
        &mut self,
        first_seq: u64,
        gathered: Gathered,
        blobs: BTreeMap<Digest, Vec<u8>>,
        outputs: &mut Vec<Output>,
    ) {
        let commit = Commit {
            v: FORMAT,
            tenant: self.state.tenant().clone(),
            tree: self.state.tree().clone(),
            run: self.state.run().clone(),
            seq: first_seq,
            epoch: gathered.epoch,
            prev: self.state.head(),
            at: gathered.now,
            trace: self.identity.trace.clone(),
            parent: if first_seq == 1 {
                self.identity.parent.clone()
            } else {
                None
            },
            events: gathered.entries,
        };
        match commit.encode() {
            Ok(bytes) if bytes.len() <= COMMIT_BYTES_MAX => {
                let hash = Digest::of(&bytes);
                self.under_way = Some(hash);
                outputs.push(Output::Publish(Prepared {
                    commit,
                    bytes,
                    hash,
                    blobs,
                }));
            }
            Ok(bytes) => self.stop(
                format!(
                    "a commit of {} bytes; the bound is {COMMIT_BYTES_MAX}",
                    bytes.len()
                ),
                outputs,
            ),
            Err(error) => self.stop(format!("a commit that cannot be encoded: {error}"), outputs),
        }
    }

    fn stop(&mut self, why: String, outputs: &mut Vec<Output>) {
        self.stopped = true;
        outputs.push(Output::Stop { why });
    }
}

struct Gathered {
    entries: Vec<Entry>,
    bytes: usize,
    epoch: u64,
    now: Timestamp,
}

impl Gathered {
    /// Whether no further step is taken, so that the longest one still fits the commit.
    fn is_full(&self) -> bool {
        self.entries.len() >= TURN_EVENTS || self.bytes >= TURN_BYTES
    }
}

fn cause_of(command: &Command) -> Option<Cause> {
    match command {
        Command::Open(_, cause) => cause.clone(),
        Command::ChildEnded(end) => end.end.as_ref().map(|facts| Cause::Event {
            commit: facts.commit,
            index: 0,
        }),
        Command::Model { .. }
        | Command::Effect { .. }
        | Command::Probed { .. }
        | Command::Check { .. }
        | Command::ChildCrashed { .. }
        | Command::Signal(_)
        | Command::Callback(_)
        | Command::Cancel(_)
        | Command::Receipt(_)
        | Command::Tick
        | Command::GiveUp { .. } => None,
    }
}
