//! Cancel: recorded, handed down, bounded by a grace time, and settled with a receipt where it began (`spec/delegation.md` 6).

use coppice_messages::{
    Event, Millis, Spent, Timestamp,
    event::{
        child::{self, GivenUp, Settled},
        effect,
        run::{self, CancelRequested, CancelSettled, Ended, Reason},
    },
    ids::RunId,
};
use serde::Serialize;

use crate::{
    child::Child,
    command::Refusal,
    duty::Duty,
    limits::{CANCEL_GRACE_MS, SLICE_CHILDREN},
    state::{Meta, State, Turn},
};

/// The cancel that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cancelling {
    pub(crate) requested: CancelRequested,
    pub(crate) at: Timestamp,
    pub(crate) settled: bool,
}

impl Cancelling {
    /// When requests under way are given up.
    fn grace_ends(&self) -> Timestamp {
        self.at.plus(Millis(CANCEL_GRACE_MS))
    }
}

impl State {
    pub(crate) fn decide_cancel(&self, requested: CancelRequested) -> Vec<Event> {
        if self.lifecycle.cancel.is_some() {
            return Vec::new();
        }
        vec![Event::Run(run::Event::CancelRequested(requested))]
    }

    pub(crate) fn decide_receipt(&self, receipt: CancelSettled) -> Result<Vec<Event>, Refusal> {
        if self.receipt_is_due() {
            Ok(vec![Event::Run(run::Event::CancelSettled(receipt))])
        } else {
            Err(Refusal::NotOpen("a cancel receipt".to_owned()))
        }
    }

    pub(crate) fn evolve_cancel_requested(
        &mut self,
        requested: &CancelRequested,
        meta: Meta,
        touched: &mut Vec<Duty>,
    ) {
        let message = format!("{}: {}", requested.by, requested.why);
        self.lifecycle.cancel = Some(Cancelling {
            requested: requested.clone(),
            at: meta.at,
            settled: false,
        });
        self.close_cancelled(message, touched);
        touched.extend(self.children.ids().map(Duty::Child));
    }

    pub(crate) fn is_cancelling(&self) -> bool {
        self.lifecycle.cancel.is_some()
    }

    /// Whether everything is quiet but for the receipt. The cancel's root alone gives one.
    pub(crate) fn receipt_is_due(&self) -> bool {
        let here = |cancel: &Cancelling| cancel.requested.from.is_none() && !cancel.settled;
        self.lifecycle.cancel.as_ref().is_some_and(here) && self.is_quiet_for_cancel()
    }

    /// Doubts outlive a cancelled run; everything else is over.
    fn is_quiet_for_cancel(&self) -> bool {
        self.agents.none_asking() && self.effects.none_sent() && self.children.all_settled()
    }

    fn cancelled_at(&self) -> Option<Timestamp> {
        self.lifecycle.cancel.as_ref().map(|cancel| cancel.at)
    }

    /// When something of a cancel falls due: a request that does not come back, a child that does not end.
    pub(crate) fn cancel_due(&self) -> Option<Timestamp> {
        let waits = |cancel: &&Cancelling| !cancel.settled && !self.effects.none_sent();
        let sent = self
            .lifecycle
            .cancel
            .as_ref()
            .filter(waits)
            .map(Cancelling::grace_ends);
        let groups = self
            .children
            .cancelled(self.cancelled_at())
            .filter(|(group, _)| group.has_live());
        groups
            .map(|(_, since)| self.children_must_be_over(since))
            .chain(sent)
            .min()
    }

    /// Each level below has the grace time once.
    fn children_must_be_over(&self, since: Timestamp) -> Timestamp {
        let levels = self
            .opened()
            .map_or(1, |opened| u64::from(opened.envelope.held().depth_left) + 1);
        since.plus(Millis(CANCEL_GRACE_MS.saturating_mul(levels + 1)))
    }

    /// Cancelled children: those that never started are withdrawn, those that do not end are given up.
    pub(crate) fn advance_cancelled_children(&self, turn: &Turn<'_>) -> Vec<Event> {
        let groups = || self.children.cancelled(self.cancelled_at());
        let queued = groups().flat_map(|(group, _)| self.children.queued(group));
        let withdrawn: Vec<Event> = queued
            .take(SLICE_CHILDREN as usize)
            .map(|(id, child)| withdrawn(id, child))
            .collect();
        if !withdrawn.is_empty() {
            return withdrawn;
        }
        let overdue = groups().filter(|(group, since)| {
            group.has_live() && turn.now >= self.children_must_be_over(*since)
        });
        let live = overdue.flat_map(|(group, _)| self.children.live(group));
        let why = "it did not end within the grace time of its cancel";
        let given_up = |id: &RunId| {
            Event::Child(child::Event::GivenUp(GivenUp {
                child: id.clone(),
                why: why.to_owned(),
            }))
        };
        live.take(SLICE_CHILDREN as usize)
            .map(|(id, _)| given_up(id))
            .collect()
    }

    pub(crate) fn advance_cancel(&self, turn: &Turn<'_>) -> Vec<Event> {
        let Some(cancel) = &self.lifecycle.cancel else {
            return Vec::new();
        };
        let lost: Vec<Event> = self.claim_models().chain(self.give_up_reads()).collect();
        if !lost.is_empty() {
            return lost;
        }
        if turn.now >= cancel.grace_ends() && !self.effects.none_sent() {
            return self.claim_effects().collect();
        }
        if self.is_quiet_for_cancel() && (cancel.requested.from.is_some() || cancel.settled) {
            return vec![self.end_cancelled()];
        }
        Vec::new()
    }

    /// Reads under way that nobody waits for any more.
    pub(crate) fn give_up_reads(&self) -> impl Iterator<Item = Event> {
        self.claim_effects()
            .filter(|event| matches!(event, Event::Effect(effect::Event::Lost(_))))
    }

    fn end_cancelled(&self) -> Event {
        let closing = self.lifecycle.closing.as_ref();
        Event::Run(run::Event::Ended(Ended {
            reason: Reason::Cancelled,
            class: None,
            message: closing
                .map(|closing| closing.message.clone())
                .unwrap_or_default(),
            answer: None,
            evidence: Vec::new(),
            usage: self.account.used.clone(),
            in_doubt: self.in_doubt(),
        }))
    }
}

/// The grant of a child that never started comes back whole.
fn withdrawn(id: &RunId, child: &Child) -> Event {
    let (charged, returned) = (Spent::default(), child.delegated.envelope.budget().clone());
    Event::Child(child::Event::Settled(Settled {
        child: id.clone(),
        charged,
        returned,
    }))
}
