//! What recorded events say about effects, children, cancels and ends, kept apart from every state.

use coppice_messages::{
    Digest, Event, Operation,
    event::{
        self, child,
        effect::{self, ReconciledOutcome},
    },
    ids::RunId,
};

use super::{Known, Laws};

impl Laws {
    /// What one recorded event says about effects, children and ends.
    pub(super) fn take(
        &mut self,
        run: &RunId,
        epoch: u64,
        hash: Digest,
        event: &Event,
    ) -> Result<(), (&'static str, String)> {
        match event {
            Event::Run(event::run::Event::CancelRequested(_)) => {
                self.cancelled.insert(run.clone());
            }
            Event::Run(event::run::Event::Ended(ended)) => {
                self.ends.insert(run.clone(), (ended.clone(), hash));
            }
            Event::Run(event::run::Event::Opened(opened))
                if opened.envelope.parent().is_some()
                    && self.granted.get(run) != Some(&opened.envelope) =>
            {
                let what = format!("{run} was opened with another envelope than it was granted");
                return Err(("child <= parent", what));
            }
            Event::Run(event::run::Event::Late(late)) => {
                let known = if late.happened {
                    Known::Happened
                } else {
                    Known::DidNot
                };
                self.outcomes.insert(late.key, known);
            }
            Event::Child(child::Event::Delegated(delegated)) => {
                self.granted
                    .insert(delegated.envelope.run().clone(), delegated.envelope.clone());
            }
            Event::Effect(event) => self.take_effect(run, epoch, event),
            _ => {}
        }
        Ok(())
    }

    fn take_effect(&mut self, run: &RunId, epoch: u64, event: &effect::Event) {
        let (key, known) = match event {
            effect::Event::Intended(intended) => {
                let intent = (run.clone(), epoch, intended.key, intended.attempt);
                self.intents.insert(intent);
                if intended.operation != Operation::Read {
                    self.outcomes.insert(intended.key, Known::Unclear);
                }
                return;
            }
            effect::Event::Landed(landed) => (landed.key, Known::Happened),
            effect::Event::Declined(declined) => (declined.key, Known::DidNot),
            effect::Event::Retryable(retryable) => (retryable.key, Known::DidNot),
            effect::Event::NotSent(not_sent) => (not_sent.key, Known::DidNot),
            effect::Event::Withdrawn(withdrawn) => (withdrawn.key, Known::DidNot),
            effect::Event::Reconciled(reconciled) => match reconciled.outcome {
                ReconciledOutcome::Landed { .. } => (reconciled.key, Known::Happened),
                ReconciledOutcome::NotHappened => (reconciled.key, Known::DidNot),
            },
            effect::Event::Unknown(_)
            | effect::Event::Escalated(_)
            | effect::Event::Lost(_)
            | effect::Event::Conflicted(_)
            | effect::Event::Contradicted(_) => return,
        };
        // Reads are not among them.
        if let Some(outcome) = self.outcomes.get_mut(&key) {
            *outcome = known;
        }
    }
}
