//! The children of a run: started, watched, their ends read from their chains. Level-triggered: whatever was missed, the chain says it.

use std::sync::Arc;

use coppice_kernel::{
    Command, Duty,
    command::{ChildEnd, ChildEndFacts},
};
use coppice_messages::{
    Commit, Digest, Event, ParentRef, event,
    event::{
        child::Delegated,
        run::{CancelRequested, ClaimReason, Ended, Reason},
    },
    ids::{RunId, TenantId},
};
use coppice_store::{LogReader, ReadError};
use ractor::{Actor as _, ActorCell, ActorStatus, SpawnErr, SupervisionEvent};

use super::{
    Arguments, Message, Opening, RunActor,
    awake::{Incarnation, RunError},
    tasks::Task,
};
use crate::{
    services::{Key, Services},
    sleep::SLEEPS,
};

/// What a child is told beside its envelope.
pub(super) struct Told {
    /// It is to be closed, not driven.
    pub give_up: Option<String>,
    /// It is to stop, and everything below it.
    pub cancel: Option<CancelRequested>,
}

impl Incarnation {
    /// Sees to it that a child runs, or that its end is taken in.
    pub(super) fn await_child(
        &mut self,
        delegated: Arc<Delegated>,
        (seq, commit): (u64, Digest),
        told: Told,
    ) {
        let child = delegated.envelope.run().clone();
        let Some(replaced) = self.tell_living(&child, &told) else {
            return;
        };
        let Told { give_up, cancel } = told;
        if self.sleeps_on(&child, give_up.is_some() || cancel.is_some()) {
            return;
        }
        let Some(opened) = self.driver.state().child_opened(&delegated) else {
            return;
        };
        let opening = Opening {
            opened: Box::new(opened),
            parent: Some(ParentRef {
                run: self.key.1.clone(),
                seq,
                commit,
            }),
            trace: child_trace(&self.trace, &child),
        };
        let arguments = Arguments {
            services: self.services.clone(),
            tenant: self.key.0.clone(),
            tree: self.driver.state().tree().clone(),
            run: child.clone(),
            opening: Some(opening),
            why: self.why_of_child(&child),
            give_up,
            cancel,
            recorded: None,
        };
        let me = self.myself.get_cell();
        self.watch(child, async move {
            match child_end(&arguments.services, &arguments.tenant, &delegated) {
                Ok(Some(end)) => Message::Told(Command::ChildEnded(Box::new(end))),
                Ok(None) => {
                    if let Some(replaced) = replaced {
                        // It is gone once its supervisor need not answer for it any more; a second one beside it would be fenced.
                        let _ = replaced.stop_and_wait(None, None).await;
                    }
                    start(arguments, me).await
                }
                Err(error) => blocked(delegated.envelope.run(), &RunError::Chain(error.into())),
            }
        });
    }

    /// Whether a child sleeps and is left to. One that is to be told something is woken first, and started by that.
    fn sleeps_on(&self, child: &RunId, is_told: bool) -> bool {
        let key = (self.key.0.clone(), child.clone());
        if !self.services.sleepers.is_asleep(&key) {
            return false;
        }
        if is_told {
            let services = self.services.clone();
            tokio::spawn(async move { services.wake(&key).await });
        }
        true
    }

    /// What is owed to a child is carried out anew: it is awake again, or about to be, or may not know of it.
    pub(super) fn wake_child(&mut self, child: &RunId) {
        let awaited = self
            .driver
            .in_hand()
            .get(&Duty::Child(child.clone()))
            .cloned();
        if let Some(obligation) = awaited {
            self.carry(Duty::Child(child.clone()), obligation);
        }
    }

    /// A child that lives is told what is new. None when nothing else is to be done; the actor to be replaced when it is to be closed.
    #[expect(
        clippy::option_option,
        reason = "nothing to do, nothing to replace, something to replace"
    )]
    fn tell_living(&mut self, child: &RunId, told: &Told) -> Option<Option<ActorCell>> {
        let Some(living) = self
            .children
            .get(child)
            .filter(|actor| is_alive(actor))
            .cloned()
        else {
            return Some(None);
        };
        if told.give_up.is_some() {
            self.children.remove(child);
            self.replacing.insert(child.clone());
            living.kill();
            return Some(Some(living));
        }
        if let Some(cancel) = &told.cancel {
            // An actor that is gone by now is seen to be, and started again with the same.
            let _ = living.send_message(Message::Told(Command::Cancel(cancel.clone())));
        }
        None
    }

    fn watch(&mut self, child: RunId, work: impl Future<Output = Message> + Send + 'static) {
        let duty = Duty::Child(child);
        let task = Task::spawn(self.myself.clone(), duty.clone(), work);
        self.tasks.put(duty, task);
    }

    /// A child whose actor this incarnation saw end is restarted; else it shares the fate of this run.
    fn why_of_child(&self, child: &RunId) -> ClaimReason {
        if self.seen_ended.contains(child) {
            ClaimReason::Restart
        } else {
            self.why
        }
    }

    /// A child's actor was started; it may be gone again already. One that was found alive is told what has come up since it was started.
    pub(super) fn child_started(&mut self, child: RunId, actor: ActorCell, found: bool) {
        if !is_alive(&actor) {
            return;
        }
        self.children.insert(child.clone(), actor);
        if found {
            self.wake_child(&child);
        }
    }

    /// A child's actor is gone: its chain says whether it had ended.
    pub(super) fn child_ended(&mut self, event: SupervisionEvent) {
        let Some((child, actor)) = child_of_event(&event) else {
            return;
        };
        let is_current = self
            .children
            .get(&child)
            .is_none_or(|known| known.get_id() == actor.get_id());
        if !is_current {
            return;
        }
        if self.replacing.remove(&child) {
            return;
        }
        self.children.remove(&child);
        let why = why_ended(&event);
        if why == SLEEPS {
            let asleep = self
                .services
                .sleepers
                .is_asleep(&(self.key.0.clone(), child.clone()));
            // Woken again before it was seen to end: it is started once more.
            return if asleep {
                self.sleep_if_it_only_waits()
            } else {
                self.wake_child(&child)
            };
        }
        self.seen_ended.insert(child.clone());
        let awaited = self.driver.in_hand().get(&Duty::Child(child.clone()));
        let Some(coppice_kernel::Obligation::Await { delegated, .. }) = awaited else {
            return;
        };
        let (services, delegated) = (self.services.clone(), delegated.clone());
        let tenant = self.key.0.clone();
        self.watch(child.clone(), async move {
            match child_end(&services, &tenant, &delegated) {
                Ok(Some(end)) => Message::Told(Command::ChildEnded(Box::new(end))),
                Ok(None) => Message::Told(Command::ChildCrashed { child, why }),
                Err(error) => blocked(&child, &RunError::Chain(error.into())),
            }
        });
    }

    /// Something is no longer owed: what is under way for it stops.
    pub(super) fn let_go(&mut self, duty: &Duty) {
        self.tasks.drop_duty(duty);
        if let Duty::Child(child) = duty
            && let Some(actor) = self.children.remove(child)
        {
            actor.kill();
        }
    }
}

fn is_alive(actor: &ActorCell) -> bool {
    actor.get_status() < ActorStatus::Draining
}

async fn start(arguments: Arguments, supervisor: ActorCell) -> Message {
    let child = arguments.run.clone();
    let key = (arguments.tenant.clone(), child.clone());
    if let Some(actor) = arguments
        .services
        .awake
        .get(&key)
        .map(|actor| actor.get_cell())
        && is_alive(&actor)
        && actor.try_get_supervisor().map(|known| known.get_id()) == Some(supervisor.get_id())
    {
        // Started before this run was folded anew, or for an obligation that has changed while it was.
        return Message::ChildStarted {
            child,
            actor,
            found: true,
        };
    }
    let name = actor_name(&arguments.services, &key);
    match RunActor::spawn_linked(Some(name), RunActor, arguments, supervisor).await {
        Ok((actor, _)) => Message::ChildStarted {
            child,
            actor: actor.get_cell(),
            found: false,
        },
        Err(SpawnErr::StartupFailed(error)) => match error.downcast::<RunError>() {
            Ok(error) if error.blocks() => blocked(&child, &error),
            Ok(error) => crashed(child, error.to_string()),
            Err(error) => crashed(child, error.to_string()),
        },
        Err(error) => crashed(child, error.to_string()),
    }
}

fn crashed(child: RunId, why: String) -> Message {
    Message::Told(Command::ChildCrashed { child, why })
}

fn blocked(child: &RunId, error: &RunError) -> Message {
    Message::ChildBlocked {
        child: child.clone(),
        why: crate::inspect::with_causes(error),
        lost: matches!(error, RunError::Chain(chain) if chain.is_damage()),
    }
}

/// The name of a run's actor: unlike any other of this process, and it says which run it is.
pub(crate) fn actor_name(services: &Services, key: &Key) -> String {
    let nth = services.awake.incarnation();
    format!("{}/{}/{}/{nth}", services.host, key.0, key.1)
}

/// The tenant and run that an actor's name says.
pub(crate) fn child_of_name(actor: &ActorCell) -> Option<Key> {
    let name = actor.get_name()?;
    let mut parts = name.split('/').skip(1);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn child_of_event(event: &SupervisionEvent) -> Option<(RunId, ActorCell)> {
    match event {
        SupervisionEvent::ActorTerminated(actor, ..) | SupervisionEvent::ActorFailed(actor, _) => {
            Some((child_of_name(actor)?.1, actor.clone()))
        }
        SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => None,
    }
}

/// Why an actor is gone, in its own words.
pub(crate) fn why_ended(event: &SupervisionEvent) -> String {
    match event {
        SupervisionEvent::ActorFailed(_, error) => error.to_string(),
        SupervisionEvent::ActorTerminated(_, _, Some(reason)) => reason.clone(),
        SupervisionEvent::ActorTerminated(_, _, None)
        | SupervisionEvent::ActorStarted(_)
        | SupervisionEvent::ProcessGroupChanged(_) => {
            "it stopped before its run had ended".to_owned()
        }
    }
}

/// How a child ended, as its chain says; none while it has not.
fn child_end(
    services: &Services,
    tenant: &TenantId,
    delegated: &Delegated,
) -> Result<Option<ChildEnd>, ReadError> {
    let child = delegated.envelope.run();
    let Some((ended, commit)) = how_it_ended(services, tenant, child)? else {
        return Ok(None);
    };
    let log = services.store.log();
    let answer_valid = match (ended.reason, delegated.envelope.result_schema()) {
        (Reason::Succeeded, Some(schema)) => {
            let blobs = log.blobs_of(tenant);
            let answer = ended
                .answer
                .as_ref()
                .and_then(|answer| answer.resolve(&blobs));
            answer
                .ok_or_else(|| "it succeeded without an answer".to_owned())
                .and_then(|answer| services.meets(tenant, &schema.digest, &answer))
                .map_err(|why| (schema.name.clone(), why))
        }
        _ => Ok(()),
    };
    let facts = ChildEndFacts {
        reason: ended.reason,
        class: ended.class,
        answer: ended.answer,
        usage: ended.usage,
        commit,
        answer_valid,
    };
    Ok(Some(ChildEnd {
        child: child.clone(),
        end: Some(facts),
    }))
}

/// The end of a run, as it was recorded a moment ago or as the log says; its doubts are handed over.
fn how_it_ended(
    services: &Services,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<(Ended, Digest)>, ReadError> {
    if let Some(recent) = services.store.take_recent_end(tenant, run)
        && let Some(ended) = ended(&recent.commit)
        && ended.in_doubt.is_empty()
    {
        return Ok(Some((ended.clone(), recent.hash)));
    }
    let log = services.store.log();
    let Some(row) = log.row(tenant, run)?.filter(|row| row.ended.is_some()) else {
        return Ok(None);
    };
    services.hand_over(&row);
    end_of(log, tenant, run)
}

/// The end that a commit holds.
fn ended(commit: &Commit) -> Option<&Ended> {
    commit.events.iter().find_map(|entry| match &entry.event {
        Event::Run(event::run::Event::Ended(ended)) => Some(ended),
        _ => None,
    })
}

/// The end of a run, and the hash of the commit that holds it: the last one, or behind it is only what came late.
fn end_of(
    log: &LogReader,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<(Ended, Digest)>, ReadError> {
    let unreadable = || ReadError::Unreadable {
        what: "the commits of an ended run",
    };
    let mut before = u64::MAX;
    while let Some(recorded) = log.commit_at(tenant, run, before)? {
        let commit = Commit::decode(&recorded.bytes).map_err(|_| unreadable())?;
        before = commit.seq.checked_sub(1).ok_or_else(unreadable)?;
        if let Some(ended) = ended(&commit) {
            return Ok(Some((ended.clone(), Digest::of(&recorded.bytes))));
        }
    }
    Err(unreadable())
}

/// W3C traceparent of a child: the trace of its parent, a span of its own.
fn child_trace(parent: &str, child: &RunId) -> String {
    let trace = parent.split('-').nth(1).unwrap_or_default();
    format!("00-{trace}-{}-01", span(child))
}

/// W3C traceparent of a root. Derived, so that the same tree has the same trace after every restart.
pub(crate) fn root_trace(run: &RunId) -> String {
    let trace = Digest::of(format!("trace {run}").as_bytes());
    format!("00-{}-{}-01", trace.hex_prefix(32), span(run))
}

fn span(run: &RunId) -> String {
    Digest::of(format!("span {run}").as_bytes()).hex_prefix(16)
}
