//! `decide`: the dispatcher. It matches and delegates; each concept decides for itself.

use coppice_messages::{Event, event::run};

use crate::{
    command::{Command, Refusal},
    state::{State, Turn},
};

impl State {
    /// What a command leads to. Changes nothing; the events are taken in by [`State::evolve`] and followed by [`State::advance`].
    ///
    /// # Errors
    /// [`Refusal`] says why the command changes nothing.
    pub fn decide(&self, command: Command, turn: &Turn<'_>) -> Result<Vec<Event>, Refusal> {
        if let Command::Open(opened, _) = command {
            return if self.opened().is_some() {
                Err(Refusal::AlreadyOpened)
            } else {
                Ok(vec![Event::Run(run::Event::Opened(opened))])
            };
        }
        if let (Some(_), Command::Effect { key, outcome, .. }) = (self.ended(), &command) {
            return self.decide_late(*key, outcome);
        }
        if let (Some(_), Command::Callback(received)) = (self.ended(), &command) {
            return self.decide_callback(received.clone());
        }
        if let Some(ended) = self.ended() {
            return Err(Refusal::AlreadyEnded(ended.reason));
        }
        if self.opened().is_none() {
            return Err(Refusal::NotOpened);
        }
        match command {
            Command::Open(..) => Err(Refusal::AlreadyOpened),
            Command::Model {
                node,
                call,
                outcome,
            } => self.decide_model(&node, call, outcome),
            Command::Effect {
                key,
                attempt,
                outcome,
            } => self.decide_effect(key, attempt, outcome),
            Command::Probed { key, seen } => self.decide_probed(key, seen),
            Command::Check { node, check, seen } => self.decide_check(&node, check, seen, turn),
            Command::ChildEnded(end) => self.decide_child_ended(*end),
            Command::ChildCrashed { child, why } => self.decide_crashed(&child, why, turn),
            Command::Cancel(requested) => Ok(self.decide_cancel(requested)),
            Command::Receipt(receipt) => self.decide_receipt(*receipt),
            Command::Signal(signal) => self.decide_signal(signal),
            Command::Callback(received) => self.decide_callback(received),
            Command::Tick => Ok(Vec::new()),
            Command::GiveUp { why } if self.lifecycle.closing.is_none() => {
                Ok(self.fail_all("crashed", &why))
            }
            Command::GiveUp { .. } => Ok(Vec::new()),
        }
    }
}
