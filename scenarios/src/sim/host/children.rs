//! Supervision between actors: children are started, watched, and their ends read from their chains.

use coppice_kernel::{
    Command, Duty, Obligation,
    command::{ChildEnd, ChildEndFacts},
};
use coppice_messages::{ParentRef, event::run::ClaimReason, ids::RunId};

use super::actors::{Message, Starting};
use crate::sim::{
    step::{ActorId, Step},
    world::{MS, World},
};

impl World {
    /// Sees to it that a child runs, or that its end is taken in.
    pub(in crate::sim) fn await_child(&mut self, id: &ActorId, duty: &Duty) {
        if !self.is_alive(id) {
            return;
        }
        let Some(actor) = self.host.actors.get_mut(&id.0) else {
            return;
        };
        actor.tasks.remove(duty);
        let Some(Obligation::Await {
            delegated,
            seq,
            commit,
            give_up,
            cancel,
            ..
        }) = actor.driver.in_hand().get(duty).cloned()
        else {
            return;
        };
        let child = delegated.envelope.run().clone();
        let why = if actor.seen_ended.contains(&child) {
            ClaimReason::Restart
        } else {
            actor.why
        };
        let opened = actor.driver.state().child_opened(&delegated);
        if let Some(end) = self.child_end(&child) {
            return self.report(id, duty, Command::ChildEnded(Box::new(end)));
        }
        if let Some(living) = self.host.actors.get(&child).map(|known| known.id(&child)) {
            if give_up.is_none() {
                // Perhaps started before the parent folded anew. It is told what is new.
                if let Some(cancel) = cancel {
                    self.mail(&living, Message::Told(Command::Cancel(cancel)));
                }
                return;
            }
            // It makes way for one that closes the run; nobody need answer for it.
            self.let_actor_go(&child, "it is replaced");
        }
        let Some(opened) = opened else {
            return;
        };
        self.spawn(Starting {
            run: child,
            opened: Box::new(opened),
            parent: Some(ParentRef {
                run: id.0.clone(),
                seq,
                commit,
            }),
            why,
            give_up,
            cancel,
            supervisor: Some(id.clone()),
        });
    }

    /// How a child ended, as its chain says; none while it has not.
    fn child_end(&mut self, child: &RunId) -> Option<ChildEnd> {
        let (ended, commit) = self.laws.end_of(child)?;
        let (ended, commit) = (ended.clone(), commit);
        self.hand_over_doubts(child);
        Some(ChildEnd {
            child: child.clone(),
            end: Some(ChildEndFacts {
                reason: ended.reason,
                class: ended.class,
                answer: ended.answer,
                usage: ended.usage,
                commit,
                answer_valid: Ok(()),
            }),
        })
    }

    /// A child's actor is gone: its chain says whether it had ended.
    pub(super) fn child_gone(&mut self, id: &ActorId, child: &RunId, why: String) {
        let duty = Duty::Child(child.clone());
        let Some(actor) = self.host.actors.get_mut(&id.0) else {
            return;
        };
        actor.seen_ended.insert(child.clone());
        let is_awaited = actor.driver.in_hand().contains_key(&duty);
        let is_replaced = || {
            let living = self.host.actors.get(child);
            living.is_some_and(|living| living.supervisor.as_ref() == Some(id))
        };
        if !is_awaited || is_replaced() {
            return;
        }
        let command = match self.child_end(child) {
            Some(end) => Command::ChildEnded(Box::new(end)),
            None => Command::ChildCrashed {
                child: child.clone(),
                why,
            },
        };
        self.report_later(id, duty, 1, command);
    }

    /// An actor stops; those that it supervises stop with it, and its supervisor is told.
    pub(super) fn stop_actor(&mut self, run: &RunId, why: &str) {
        let Some(supervisor) = self.let_actor_go(run, why) else {
            return;
        };
        match supervisor {
            Some(supervisor) => {
                let message = Message::ChildGone(run.clone(), why.to_owned());
                self.mail(&supervisor, message);
            }
            None => self.root_gone(run, why),
        }
    }

    /// The same without a word to its supervisor, which is returned.
    #[expect(
        clippy::option_option,
        reason = "no actor, an actor without a supervisor, one with"
    )]
    fn let_actor_go(&mut self, run: &RunId, why: &str) -> Option<Option<ActorId>> {
        let actor = self.host.actors.get(run)?;
        let (id, supervisor) = (actor.id(run), actor.supervisor.clone());
        self.note(format_args!("{}#{} stops: {why}", id.0, id.1));
        self.clear_tasks(&id);
        self.host.actors.remove(run);
        let children: Vec<RunId> = self
            .host
            .actors
            .iter()
            .filter(|(_, actor)| actor.supervisor.as_ref() == Some(&id))
            .map(|(run, _)| run.clone())
            .collect();
        for child in children {
            self.let_actor_go(&child, "its supervisor stopped");
        }
        Some(supervisor)
    }

    /// An actor dies of a fault.
    pub(in crate::sim) fn actor_died(&mut self, run: &RunId, why: &str) {
        self.stop_actor(run, why);
    }

    pub(super) fn root_later(&mut self, root: &RunId, after_ms: u64) {
        self.put(after_ms * MS, Step::Root(root.clone()));
    }
}
