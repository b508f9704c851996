//! Which faults strike now, and the striking.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use coppice_messages::{
    Commit, Event, Millis,
    event::{
        effect::{self, LostCall},
        run,
        system::{self, FaultInjected},
    },
    ids::{EffectKey, RunId, TenantId, ToolName},
};
use coppice_store::{FaultHooks, LogReader, ReadError, Store, SystemEventError, clock};
use tokio::sync::Notify;

use super::{
    address::{Action, Fault, When},
    book::{Book, BookError, Note},
    recall::recall,
};
use crate::services::{Awake, Key};

/// Who is at work where an event passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtWork {
    /// The run's actor.
    Actor,
    /// The recorder, beside an actor of the run.
    BesideAnActor,
    /// Nobody who could panic or be killed but the host.
    HostAlone,
}

impl AtWork {
    fn can(self, action: Action) -> bool {
        match action {
            Action::KillHost | Action::Delay(_) => true,
            Action::KillActor => self != Self::HostAlone,
            Action::Panic => self == Self::Actor,
            // Of the outside world's callbacks, which are no events.
            Action::Duplicate | Action::Drop => false,
        }
    }
}

/// The faults of a host, with what they need to know about the events that pass.
pub(crate) struct Faults {
    known: Mutex<Known>,
    awake: Arc<Awake>,
    runtime: tokio::runtime::Handle,
    noted: Notify,
}

pub(super) struct Known {
    pub armed: Vec<Armed>,
    pub book: Book,
    paths: HashMap<Key, String>,
    tools: HashMap<EffectKey, ToolName>,
}

pub(super) struct Armed {
    fault: Fault,
    pub address: String,
    seen: u32,
    struck: u32,
}

impl Armed {
    /// Counts an event that the fault means; whether it strikes.
    fn count(&mut self) -> bool {
        self.seen = self.seen.saturating_add(1);
        let strikes = self.seen >= self.fault.nth() && self.struck < self.fault.times();
        if strikes {
            self.struck += 1;
        }
        strikes
    }
}

impl Faults {
    /// Arms faults; those that struck in an earlier life of the host are spent, and the events that came in one are counted.
    ///
    /// Must be called within the runtime.
    ///
    /// # Errors
    /// [`BookError`].
    pub fn arm(faults: &[Fault], data: &Path, awake: Arc<Awake>) -> Result<Self, BookError> {
        let book = Book::open(data)?;
        let arm = |fault: &Fault| {
            let address = fault.to_string();
            let struck = book.struck(&address);
            Armed {
                fault: fault.clone(),
                address,
                // Its nth time came in that earlier life.
                seen: if struck > 0 { fault.nth() } else { 0 },
                struck,
            }
        };
        let mut known = Known {
            armed: faults.iter().map(arm).collect(),
            book,
            paths: HashMap::new(),
            tools: HashMap::new(),
        };
        recall(&mut known, data)?;
        Ok(Self {
            known: Mutex::new(known),
            awake,
            runtime: tokio::runtime::Handle::current(),
            noted: Notify::new(),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says where a run stands in its tree; a run that was opened in this life says it itself.
    pub fn learn_path(&self, key: Key, path: &str) {
        self.known().paths.insert(key, path.to_owned());
    }

    /// Says which tool an effect uses; an effect that was intended in this life says it itself.
    pub fn learn_tool(&self, key: EffectKey, tool: &ToolName) {
        self.known().tools.insert(key, tool.clone());
    }

    /// What strikes at this moment of a commit, noted.
    pub fn strikes(&self, when: When, commit: &Commit, at_work: AtWork) -> Vec<Action> {
        let mut known = self.known();
        let mut actions = Vec::new();
        for entry in &commit.events {
            let due = known.due(when, commit, &entry.event, at_work);
            for (address, action) in due {
                let note = Note {
                    address,
                    tenant: commit.tenant.clone(),
                    run: commit.run.clone(),
                    noted_at: clock::now(),
                };
                tracing::warn!(address = note.address, run = %note.run, "a fault strikes");
                match known.book.note(note) {
                    Ok(()) => actions.push(action),
                    Err(error) => {
                        tracing::error!(%error, "a fault that cannot be noted does not strike")
                    }
                }
            }
        }
        drop(known);
        if !actions.is_empty() {
            self.noted.notify_one();
        }
        actions
    }

    /// Appends what was noted to the system chains of the tenants, now and whenever something new is noted.
    pub async fn append_noted(&self, store: &Store) -> Result<(), AppendError> {
        loop {
            let notes = self.known().book.to_append();
            for note in notes {
                let fact = FaultInjected {
                    address: note.address,
                    run: Some(note.run),
                    noted_at: note.noted_at,
                };
                // The host may have died between the chain and the book.
                if !has(store.log(), &note.tenant, &fact)? {
                    let fact = system::Event::FaultInjected(fact);
                    store.system_event(note.tenant, fact).await?;
                }
                self.known().book.appended(1)?;
            }
            self.noted.notified().await;
        }
    }

    fn strike_in_recorder(&self, when: When, commits: &[Commit]) {
        for commit in commits {
            let key = (commit.tenant.clone(), commit.run.clone());
            let actor = self.awake.get(&key);
            let at_work = match actor {
                Some(_) => AtWork::BesideAnActor,
                None => AtWork::HostAlone,
            };
            for action in self.strikes(when, commit, at_work) {
                match action {
                    Action::KillHost => kill_host(),
                    Action::KillActor => {
                        if let Some(actor) = &actor {
                            actor.kill();
                        }
                    }
                    Action::Delay(span) => self.runtime.block_on(clock::pause(duration(span))),
                    // Refused where the fault is read: there is no actor here that could panic, and no callback.
                    Action::Panic | Action::Duplicate | Action::Drop => {}
                }
            }
        }
    }
}

impl Known {
    fn due(
        &mut self,
        when: When,
        commit: &Commit,
        event: &Event,
        at_work: AtWork,
    ) -> Vec<(String, Action)> {
        let (path, tool) = self.place(commit, event);
        let mut due = Vec::new();
        for armed in &mut self.armed {
            let action = armed.fault.action();
            if at_work.can(action)
                && armed.fault.means(&path, event.kind(), tool.as_ref())
                && armed.fault.when() == when
                && armed.count()
            {
                due.push((armed.address.clone(), action));
            }
        }
        due
    }

    /// Where an event came, and which tool it concerns.
    fn place(&mut self, commit: &Commit, event: &Event) -> (String, Option<ToolName>) {
        let key = (commit.tenant.clone(), commit.run.clone());
        if let Event::Run(run::Event::Opened(opened)) = event {
            self.paths.insert(key.clone(), opened.path.clone());
        }
        if let Event::Effect(effect::Event::Intended(intended)) = event {
            self.tools.insert(intended.key, intended.tool.clone());
        }
        let tool = concerns(event).and_then(|key| self.tools.get(&key).cloned());
        (self.paths.get(&key).cloned().unwrap_or_default(), tool)
    }

    /// A commit of an earlier life: its events are where they are, and those that `count` have come.
    pub fn recall(&mut self, commit: &Commit, count: bool) {
        for entry in &commit.events {
            let (path, tool) = self.place(commit, &entry.event);
            let meant =
                |armed: &&mut Armed| armed.fault.means(&path, entry.event.kind(), tool.as_ref());
            for armed in self.armed.iter_mut().filter(meant).filter(|_| count) {
                armed.seen = armed.seen.saturating_add(1);
            }
        }
    }
}

impl FaultHooks for Faults {
    fn wants_events(&self) -> bool {
        let in_recorder = |armed: &Armed| matches!(armed.fault.when(), When::Acked | When::Synced);
        self.known().armed.iter().any(in_recorder)
    }

    fn acked(&self, commits: &[Commit]) {
        self.strike_in_recorder(When::Acked, commits);
    }

    fn synced(&self, commits: &[Commit]) {
        self.strike_in_recorder(When::Synced, commits);
    }
}

/// Whether a tenant's system chain has this fact.
fn has(log: &LogReader, tenant: &TenantId, fact: &FaultInjected) -> Result<bool, ReadError> {
    for recorded in log.chain(tenant, &RunId::system()) {
        let commit = Commit::decode(&recorded?.bytes);
        let events = commit.into_iter().flat_map(|commit| commit.events);
        let mut facts = events.filter_map(|entry| match entry.event {
            Event::System(system::Event::FaultInjected(found)) => Some(found),
            _ => None,
        });
        if facts.any(|found| found == *fact) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Why a noted fault was not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The chain cannot be read.
    #[error("the system chain cannot be read")]
    Read(
        #[from]
        #[source]
        ReadError,
    ),
    /// To the chain.
    #[error("a noted fault was not appended to the system chain")]
    Chain(
        #[from]
        #[source]
        SystemEventError,
    ),
    /// In the book.
    #[error(transparent)]
    Book(#[from] BookError),
}

/// The effect that an event is about.
pub(super) fn concerns(event: &Event) -> Option<EffectKey> {
    let Event::Effect(event) = event else {
        return None;
    };
    Some(match event {
        effect::Event::Intended(e) => e.key,
        effect::Event::NotSent(e) => e.key,
        effect::Event::Lost(e) => match &e.what {
            LostCall::Read { key, .. } => *key,
            LostCall::Model { .. } => return None,
        },
        effect::Event::Landed(e) => e.key,
        effect::Event::Declined(e) => e.key,
        effect::Event::Retryable(e) => e.key,
        effect::Event::Unknown(e) => e.key,
        effect::Event::Reconciled(e) => e.key,
        effect::Event::Escalated(e) => e.key,
        effect::Event::Withdrawn(e) => e.key,
        effect::Event::Conflicted(e) => e.key,
        effect::Event::Contradicted(e) => e.key,
    })
}

/// A span of the log as one of the clock.
pub(crate) fn duration(span: Millis) -> Duration {
    Duration::from_millis(span.0)
}

/// Ends this process as a power cut would: nothing is flushed, nobody is told.
pub(crate) fn kill_host() -> ! {
    use rustix::process::{Signal, getpid, kill_process};
    if let Err(error) = kill_process(getpid(), Signal::KILL) {
        tracing::error!(%error, "the host cannot kill itself; it aborts");
    }
    std::process::abort()
}
