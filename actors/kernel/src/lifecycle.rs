//! The life of a run: opened, claimed, closing, ended.

use coppice_messages::{
    Account, Event,
    event::{
        budget,
        node::Outcome,
        run::{self, ClaimReason, Claimed, Ended, Opened, Reason},
    },
    ids::{EffectKey, HostId},
};
use serde::Serialize;

use crate::{
    cancel::Cancelling,
    duty::Duty,
    effect::Status,
    state::{Meta, State, Turn},
};

/// Where the run as a whole stands.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Lifecycle {
    pub(crate) opened: Option<Box<Opened>>,
    pub(crate) closing: Option<Closing>,
    pub(crate) cancel: Option<Cancelling>,
    pub(crate) ended: Option<Ended>,
}

/// The run will end for this reason as soon as nothing of it is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Closing {
    /// Which of the seven.
    pub reason: Reason,
    /// The class.
    pub class: String,
    /// One sentence for people.
    pub message: String,
}

impl Closing {
    /// The reason that a failed node's class stands for.
    fn of_class(class: &str, message: &str) -> Self {
        let reason = match class {
            "deadline" | "wait_timeout" => Reason::TimedOut,
            "unsettled" | "key_conflict" => Reason::NeedsHuman,
            _ => Reason::Failed,
        };
        Self {
            reason,
            class: class.to_owned(),
            message: message.to_owned(),
        }
    }
}

impl State {
    pub(crate) fn evolve_run(&mut self, event: &run::Event, meta: Meta, touched: &mut Vec<Duty>) {
        match event {
            run::Event::Opened(opened) => {
                self.account = Account::open(opened.envelope.budget().clone());
                self.lifecycle.opened = Some(opened.clone());
            }
            run::Event::Claimed(_) => {}
            run::Event::CancelRequested(requested) => {
                self.evolve_cancel_requested(requested, meta, touched)
            }
            run::Event::CancelSettled(_) => {
                if let Some(cancel) = &mut self.lifecycle.cancel {
                    cancel.settled = true;
                }
            }
            run::Event::Ended(ended) => self.lifecycle.ended = Some(ended.clone()),
            run::Event::Late(late) => self.evolve_late(late, touched),
        }
    }

    pub(crate) fn evolve_budget(
        &mut self,
        event: &budget::Event,
        meta: Meta,
        touched: &mut Vec<Duty>,
    ) {
        let budget::Event::Exhausted(exhausted) = event;
        let message = format!(
            "{}: {} needed, {} left",
            exhausted.dimension, exhausted.asked, exhausted.left
        );
        let closing = Closing {
            reason: Reason::BudgetExhausted,
            class: exhausted.dimension.to_string(),
            message,
        };
        self.close(closing, meta, touched);
        self.touch_checks(touched);
    }

    /// A failed node closes the run, unless a join gathers its failure.
    pub(crate) fn close_for(&mut self, outcome: &Outcome, meta: Meta, touched: &mut Vec<Duty>) {
        if let Outcome::Failed { class, message } = outcome {
            self.close(Closing::of_class(class, message), meta, touched);
        }
    }

    /// The first reason stands. Nobody will join what is still at work below, so it is cancelled.
    fn close(&mut self, closing: Closing, meta: Meta, touched: &mut Vec<Duty>) {
        if self.lifecycle.closing.is_some() {
            return;
        }
        self.lifecycle.closing = Some(closing);
        self.children.close(meta.at);
        touched.extend(self.children.ids().map(Duty::Child));
        self.touch_probes(touched);
    }

    /// A cancel stands before every other reason: its result is always `cancelled`.
    pub(crate) fn close_cancelled(&mut self, message: String, touched: &mut Vec<Duty>) {
        let class = "requested".to_owned();
        self.lifecycle.closing = Some(Closing {
            reason: Reason::Cancelled,
            class,
            message,
        });
        self.touch_checks(touched);
        self.touch_probes(touched);
    }

    /// A closing run makes no check any more.
    fn touch_checks(&self, touched: &mut Vec<Duty>) {
        touched.extend(
            self.check_names()
                .into_iter()
                .map(|(node, check)| Duty::Check(node, check)),
        );
    }

    /// First events of a new incarnation: the claim, and what it makes of everything that was under way.
    #[must_use]
    pub fn claim(&self, owner: &HostId, why: ClaimReason) -> Vec<Event> {
        let claimed = Event::Run(run::Event::Claimed(Claimed {
            owner: owner.clone(),
            why,
        }));
        std::iter::once(claimed)
            .chain(self.claim_effects())
            .chain(self.claim_models())
            .collect()
    }

    /// The run's end, once it is closing and nothing is under way. What only reads is not waited for: nothing would follow from it.
    pub(crate) fn advance_end(&self, _: &Turn<'_>) -> Vec<Event> {
        let Some(closing) = &self.lifecycle.closing else {
            return Vec::new();
        };
        if self.is_cancelling() {
            return Vec::new();
        }
        let lost: Vec<Event> = self.claim_models().chain(self.give_up_reads()).collect();
        if !lost.is_empty() {
            return lost;
        }
        if !self.is_quiet() {
            return Vec::new();
        }
        let in_doubt = self.in_doubt();
        let reason = if in_doubt.is_empty() {
            closing.reason
        } else {
            Reason::NeedsHuman
        };
        vec![Event::Run(run::Event::Ended(Ended {
            reason,
            class: Some(closing.class.clone()),
            message: closing.message.clone(),
            answer: None,
            evidence: Vec::new(),
            usage: self.account.used.clone(),
            in_doubt,
        }))]
    }

    /// Effects whose outcome nobody knows.
    #[must_use]
    pub fn in_doubt(&self) -> Vec<EffectKey> {
        let doubtful =
            |status: &Status| matches!(status, Status::Unknown | Status::Escalated { .. });
        self.effects
            .iter()
            .filter(|(_, effect)| doubtful(&effect.status))
            .map(|(key, _)| *key)
            .collect()
    }
}
