//! The laws of `spec/scenarios.md` 6, held against a world from outside: an account of its own of everything that was made, recorded,
//! told and done.

mod account;

use std::collections::{BTreeMap, BTreeSet};

use coppice_kernel::{Duty, Obligation, Prepared, State};
use coppice_messages::{
    Commit, Delegation, Digest,
    event::{
        effect::Intended,
        run::{Ended, Opened},
    },
    ids::{EffectKey, RunId},
};
use coppice_store::{Verdict, refill::Refill, wire};

use super::{
    host::Told,
    log::{Log, Recorded, Synced},
    step::ActorId,
    stream::Message,
    world::{Tree, World},
};

/// A law that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub law: &'static str,
    pub what: String,
}

/// The account.
#[derive(Default)]
pub(super) struct Laws {
    /// Each run as its recorded chain says, folded commit by commit.
    states: BTreeMap<RunId, State>,
    ends: BTreeMap<RunId, (Ended, Digest)>,
    roots: BTreeMap<RunId, RunId>,
    /// Who made a commit with these bytes.
    authors: BTreeMap<Digest, BTreeSet<ActorId>>,
    /// Who may have made all commits of an epoch.
    owners: BTreeMap<(RunId, u64), BTreeSet<ActorId>>,
    /// The chains as they were ever recorded.
    chains: BTreeMap<RunId, Vec<Digest>>,
    recorded: BTreeSet<Digest>,
    acknowledged: BTreeSet<Digest>,
    intents: BTreeSet<(RunId, u64, EffectKey, u32)>,
    outcomes: BTreeMap<EffectKey, Known>,
    /// Runs of which a cancel is recorded.
    cancelled: BTreeSet<RunId>,
    granted: BTreeMap<RunId, Delegation>,
    /// What of each run was compared with the log last.
    compared: BTreeMap<ActorId, Digest>,
}

/// What the log knows about a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Happened,
    DidNot,
    Unclear,
}

impl Laws {
    /// A run's tree, before anything of it is recorded.
    pub fn learn(&mut self, run: &RunId, opened: &Opened) {
        self.roots.insert(run.clone(), opened.lineage.clone());
    }

    pub fn published(&mut self, by: &ActorId, prepared: &Prepared) {
        self.made(by, prepared.hash);
    }

    pub fn made(&mut self, by: &ActorId, hash: Digest) {
        self.authors.entry(hash).or_default().insert(by.clone());
    }

    pub fn has_ended(&self, run: &RunId) -> bool {
        self.ends.contains_key(run)
    }

    pub fn end_of(&self, run: &RunId) -> Option<(&Ended, Digest)> {
        self.ends.get(run).map(|(ended, commit)| (ended, *commit))
    }

    /// Each run as the log has it.
    pub fn states(&self) -> impl Iterator<Item = (&RunId, &State)> {
        self.states.iter()
    }

    pub fn state(&self, run: &RunId) -> Option<&State> {
        self.states.get(run)
    }

    /// Whether the log shows this very intent, open, in the run's present epoch.
    pub fn is_open(&self, run: &RunId, epoch: u64, intended: &Intended) -> bool {
        let Some(state) = self.states.get(run) else {
            return false;
        };
        let owed = state.obligation(&Duty::Effect(intended.key));
        state.epoch() == epoch
            && matches!(owed, Some(Obligation::Send { intended: open }) if *open == *intended)
    }

    /// A run, its parent, and so on.
    pub fn and_above<'a>(&'a self, run: &'a RunId) -> impl Iterator<Item = &'a RunId> {
        std::iter::successors(Some(run), |run| self.granted.get(*run)?.parent())
    }

    /// The log is lost and is read again from the stream.
    pub fn forget_log(&mut self) {
        self.states.clear();
        self.ends.clear();
        self.recorded.clear();
        self.cancelled.clear();
    }
}

impl World {
    pub(super) fn tree_of(&self, run: &RunId) -> Option<&Tree> {
        self.trees.get(self.laws.roots.get(run)?)
    }

    /// Commits are in the log: each is held against its chain, by rules of this module's own.
    pub(super) fn recorded(&mut self, synced: &Synced) {
        for recorded in &synced.admitted {
            if let Err((law, what)) = self.check_recorded(recorded) {
                return self.broken(law, what);
            }
        }
    }

    fn check_recorded(&mut self, recorded: &Recorded) -> Result<(), (&'static str, String)> {
        let commit = Commit::decode(&recorded.bytes)
            .map_err(|error| ("what is recorded can be read", error.to_string()))?;
        let (run, hash) = (commit.run.clone(), recorded.hash);
        let place = format!("{run} seq {} epoch {} {hash:?}", commit.seq, commit.epoch);
        self.check_owner(&commit, hash, &place)?;
        let Some(tree) = self.trees.get(&commit.tree.root()) else {
            return Err(("what is recorded was asked for", place));
        };
        let laws = &mut self.laws;
        laws.roots.insert(run.clone(), tree.root.clone());
        let state = laws.states.entry(run.clone()).or_insert_with(|| {
            State::new(
                tree.plan.clone(),
                commit.tenant.clone(),
                commit.tree.clone(),
                run.clone(),
            )
        });
        if commit.prev != state.head() || commit.seq != state.next_seq() {
            return Err(("a chain has no gap and no fork", place));
        }
        let claims = commit
            .events
            .first()
            .is_some_and(|first| first.event.kind() == "run.claimed");
        let raised = commit.epoch - state.epoch().min(commit.epoch);
        if commit.epoch < state.epoch() || raised != u64::from(claims) {
            return Err((
                "one owner per epoch",
                format!("{place}, after epoch {}", state.epoch()),
            ));
        }
        let late = |kind: &str| matches!(kind, "run.claimed" | "result.late" | "callback.absorbed");
        let all_late = commit.events.iter().all(|entry| late(entry.event.kind()));
        if laws.ends.contains_key(&run) && !all_late {
            return Err(("first terminal wins", place));
        }
        state
            .fold(&commit, hash)
            .map_err(|error| ("child <= parent", error.to_string()))?;
        if !state.account().is_conserved() {
            return Err((
                "budget is conserved",
                format!("{place}: {:?}", state.account()),
            ));
        }
        laws.recorded.insert(hash);
        // Read again from the stream, a chain is what it was.
        let chain = laws.chains.entry(run.clone()).or_default();
        let length = self.log.chain(&commit.tenant, &run);
        let at = length
            .iter()
            .position(|known| known.hash == hash)
            .unwrap_or(0);
        match chain.get(at) {
            None => chain.push(hash),
            Some(known) if *known == hash => {}
            Some(known) => {
                return Err(("two rebuilds are equal", format!("{place}, was {known:?}")));
            }
        }
        for entry in &commit.events {
            laws.take(&run, commit.epoch, hash, &entry.event)?;
        }
        Ok(())
    }

    /// All commits of one epoch of a run can have been made by one incarnation.
    fn check_owner(
        &mut self,
        commit: &Commit,
        hash: Digest,
        place: &str,
    ) -> Result<(), (&'static str, String)> {
        let Some(authors) = self.laws.authors.get(&hash) else {
            return Err(("what is recorded was made", place.to_owned()));
        };
        let key = (commit.run.clone(), commit.epoch);
        let owners = self
            .laws
            .owners
            .entry(key)
            .or_insert_with(|| authors.clone());
        owners.retain(|owner| authors.contains(owner));
        if owners.is_empty() {
            return Err(("one owner per epoch", place.to_owned()));
        }
        Ok(())
    }

    /// A waiter is told: what is acknowledged must be in the log, under the very hash that it waits for.
    pub(super) fn check_told(&mut self, told: &Told) {
        if !matches!(told.verdict, Verdict::Admitted { .. }) {
            return;
        }
        self.laws.acknowledged.insert(told.hash);
        if !self.laws.recorded.contains(&told.hash) {
            let what = format!("{:?} of {}", told.hash, told.actor.0);
            self.broken("acknowledged is recorded", what);
        }
    }

    /// After a crash: nothing that was acknowledged is missing.
    pub(super) fn check_recovered(&mut self) {
        let lost = self
            .laws
            .acknowledged
            .difference(&self.laws.recorded)
            .next();
        if let Some(lost) = lost.copied() {
            self.broken(
                "acknowledged is recovered",
                format!("{lost:?} is not in the log"),
            );
        }
    }

    /// An actor wants an effect sent: its intent is recorded, in the epoch in which it is to be sent.
    pub(super) fn check_send(&mut self, run: &RunId, epoch: u64, intended: &Intended) {
        let intent = (run.clone(), epoch, intended.key, intended.attempt);
        if !self.laws.intents.contains(&intent) {
            let what = format!(
                "{run} epoch {epoch}: {:?} attempt {}",
                intended.key, intended.attempt
            );
            self.broken("no send without a recorded intent of the epoch", what);
        }
    }

    /// The first byte of an effect is about to leave.
    pub(super) fn check_passes(&mut self, run: &RunId, intended: &Intended) {
        let cancelled = &self.laws.cancelled;
        let above = self
            .laws
            .and_above(run)
            .find(|run| cancelled.contains(*run));
        if let Some(above) = above.cloned() {
            let what = format!("{run}: {:?}, although {above} is cancelled", intended.key);
            self.broken("no send after a cancel above it is recorded", what);
        }
    }

    /// The desk did something.
    pub(super) fn check_desk(&mut self, intended: &Intended) {
        let times = self
            .desk
            .counts()
            .find(|(key, _)| **key == intended.key)
            .map_or(0, |(_, times)| times);
        if times > 1 {
            let what = format!("{:?} was done {times} times", intended.key);
            self.broken("at most one effect per key", what);
        }
    }

    /// An actor has taken a message: what it owes is in its hand, and what it knows is what the log says.
    pub(super) fn check_actor(&mut self, id: &ActorId) {
        let Some(actor) = self.host.actor(&id.0).filter(|actor| actor.nth == id.1) else {
            return;
        };
        if actor.driver.is_publishing() || actor.driver.state().opened().is_none() {
            return;
        }
        let state = actor.driver.state();
        let owed: BTreeMap<_, _> = state.owed().into_iter().collect();
        if owed != *actor.driver.in_hand() {
            let what = format!(
                "{}: owed {owed:?}, in hand {:?}",
                id.0,
                actor.driver.in_hand()
            );
            return self.broken("owed is in hand", what);
        }
        let head = state.head();
        if self.laws.compared.get(id) == Some(&head) {
            return;
        }
        // The log may be ahead, by an earlier incarnation or another host; then the next commit is refused and the run is folded again.
        let Some(recorded) = self.laws.states.get(&id.0) else {
            return self.broken("an actor knows what is recorded", id.0.to_string());
        };
        let what = if recorded.head() == head {
            (recorded.hash() != state.hash()).then_some("the rebuild differs from the live state")
        } else {
            (!self.laws.recorded.contains(&head))
                .then_some("the actor's last commit is not in the log")
        };
        match what {
            Some(what) => self.broken(
                "the rebuild equals the live state",
                format!("{}: {what}", id.0),
            ),
            None => {
                self.laws.compared.insert(id.clone(), head);
            }
        }
    }

    /// What is checked now and then, however it came about.
    pub(super) fn check_steadily(&mut self) {
        if !self.steps.is_multiple_of(32) || self.violation.is_some() {
            return;
        }
        let stuck = self
            .host
            .actors()
            .find(|(_, actor)| !actor.has_waker(self))
            .map(|(run, actor)| format!("{run}: {}", actor.describe()));
        if let Some(what) = stuck {
            self.broken("every waiting run has a waker", what);
        }
    }

    /// A state made anew from the bytes of the log; checked against the one that was folded as they came.
    pub(super) fn rebuild(&mut self, run: &RunId) -> Option<Option<State>> {
        let Some(known) = self.laws.states.get(run).cloned() else {
            return Some(None);
        };
        if !self.seed.one_in(4) {
            return Some(Some(known));
        }
        match self.rebuilt(run) {
            Ok(state) if state.hash() == known.hash() => Some(Some(state)),
            Ok(_) => {
                self.broken("two rebuilds are equal", run.to_string());
                None
            }
            Err(what) => {
                self.broken("two rebuilds are equal", format!("{run}: {what}"));
                None
            }
        }
    }

    fn rebuilt(&self, run: &RunId) -> Result<State, String> {
        let tree = self.tree_of(run).ok_or("it is of no tree")?;
        let tenant = self.tenant.clone();
        let mut state = State::new(tree.plan.clone(), tenant, tree.tree.clone(), run.clone());
        for recorded in self.log.chain(&self.tenant, run) {
            let commit = Commit::decode(&recorded.bytes).map_err(|error| error.to_string())?;
            state
                .fold(&commit, recorded.hash)
                .map_err(|error| error.to_string())?;
        }
        Ok(state)
    }

    /// At rest: the log, rebuilt from the stream and from its own bytes, is one; and the desk agrees with it.
    pub(super) fn check_at_rest(&mut self) {
        self.check_recovered();
        let runs: Vec<RunId> = self.laws.states().map(|(run, _)| run.clone()).collect();
        for run in &runs {
            let equal = self.rebuilt(run).map(|state| Some(state.hash()));
            if equal != Ok(self.laws.state(run).map(State::hash)) {
                return self.broken("two rebuilds are equal", format!("{run}: {equal:?}"));
            }
        }
        if let Some(what) = self.difference_from_stream() {
            return self.broken("the stream has what the log has", what);
        }
        let differing = self.laws.outcomes.iter().find_map(|(key, known)| {
            let done = self.desk.has(key);
            let agrees = match known {
                Known::Happened => done,
                Known::DidNot => !done,
                Known::Unclear => true,
            };
            (!agrees).then(|| format!("{key:?}: log {known:?}, desk {done}"))
        });
        let unheard = self
            .desk
            .counts()
            .find(|(key, _)| !self.laws.outcomes.contains_key(key));
        let what =
            differing.or_else(|| unheard.map(|(key, _)| format!("{key:?} was never intended")));
        if let Some(what) = what {
            self.broken("the desk agrees with the log", what);
        }
    }

    /// Whether everything that was acknowledged is in the log now.
    pub(super) fn is_recovered(&self) -> bool {
        self.laws.acknowledged.is_subset(&self.laws.recorded)
    }

    pub(super) fn difference_from_stream(&self) -> Option<String> {
        let (mut again, mut refill) = (Log::default(), Refill::default());
        for (seq, message) in self.server.stream.from(1) {
            let mut batch = again.batch();
            batch.take(&again, &mut refill, (seq, 1), message);
            again.sync(batch);
        }
        let missing = self.log.all().find(|recorded| {
            let chain = again.chain(&self.tenant, recorded.run());
            !chain.iter().any(|known| known.hash == recorded.hash)
        });
        missing.map(|recorded| {
            let carries = |message: &Message| {
                wire::decode_commits(&message.payload)
                    .is_ok_and(|commits| commits.contains(&recorded.bytes))
            };
            let carriers: Vec<u64> = self
                .server
                .stream
                .from(1)
                .filter(|(_, stored)| carries(&stored.message))
                .map(|(seq, _)| seq)
                .collect();
            format!(
                "{:?} of {} at position {}, in messages {carriers:?}",
                recorded.hash,
                recorded.run(),
                recorded.pos
            )
        })
    }
}
