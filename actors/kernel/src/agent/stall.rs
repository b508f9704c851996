//! Whether a loop gets anywhere: an action that was done before, with the outcome that it had before, is no progress; nor are words alone.
//!
//! The outcome belongs to it, so nine different look-ups with equal empty answers are nine steps, and a poll whose answer changes goes on. A
//! refusal or failure of a tool is held against an earlier one by its class: another text or other arguments each time are no other outcome. That
//! the window is the whole loop and not the call before catches the model that alternates two calls.

use coppice_messages::{
    Event, Payload, Value,
    event::{
        model::Proposal,
        progress::{self, Stalled},
    },
    ids::NodeName,
};

use super::{FAILURE_CLASS, Turned};
use crate::state::State;

impl State {
    /// The end of a loop whose last calls brought nothing new, once they are as many as the contract allows.
    pub(super) fn stalled(&self, node: &NodeName, turns: &[Turned]) -> Option<Vec<Event>> {
        let limit = self.plan.contract.termination.no_progress.max(1);
        let nothing_new = |at: &usize| self.brings_nothing(&turns[..*at], &turns[*at]);
        // A call of the model that failed, or whose answer was refused, is counted elsewhere: here it neither is progress nor ends a row without it.
        let counts = |at: &usize| !matches!(turns[*at].proposal, Some(Proposal::Answer(_)) | None);
        let trailing = (0..turns.len()).rev().filter(counts).take(limit as usize);
        let repeats = u32::try_from(trailing.take_while(nothing_new).count()).unwrap_or(limit);
        if repeats < limit {
            return None;
        }
        let call = turns.last()?.call;
        let stalled = Stalled {
            node: node.clone(),
            call,
            repeats,
            limit,
        };
        let message = format!(
            "{repeats} calls in a row brought nothing new: the same actions with the same outcomes as before, or words alone"
        );
        Some(vec![
            Event::Progress(progress::Event::Stalled(stalled)),
            self.failed(node, "no_progress", message),
        ])
    }

    fn brings_nothing(&self, before: &[Turned], turned: &Turned) -> bool {
        match &turned.proposal {
            Some(Proposal::Say(_)) => true,
            Some(Proposal::Call { .. } | Proposal::Delegate { .. }) => {
                before.iter().any(|earlier| self.same_step(earlier, turned))
            }
            Some(Proposal::Answer(_)) | None => false,
        }
    }

    /// The same action with an equal result; or the same tool, or a delegation, with a failure of the same class, whatever its arguments were.
    fn same_step(&self, one: &Turned, other: &Turned) -> bool {
        match (class_of(one), class_of(other)) {
            (Some(class), Some(again)) => class == again && same_kind(one, other),
            (None, None) => one.result == other.result && self.same_action(one, other),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn same_action(&self, one: &Turned, other: &Turned) -> bool {
        match (&one.proposal, &other.proposal) {
            (
                Some(Proposal::Call { tool, arguments }),
                Some(Proposal::Call {
                    tool: other,
                    arguments: others,
                }),
            ) => {
                let annotations = self.tool(tool).map(|tool| &tool.contract.annotations);
                let bare = |payload: &Payload| match (payload, annotations) {
                    (Payload::Inline(Value::Map(map)), Some(annotations)) => {
                        let mut map = map.clone();
                        map.retain(|name, _| !annotations.contains(name));
                        Payload::Inline(Value::Map(map))
                    }
                    (Payload::Inline(_) | Payload::Blob { .. }, _) => payload.clone(),
                };
                tool == other && (arguments == others || bare(arguments) == bare(others))
            }
            (one, other) => one == other,
        }
    }
}

fn same_kind(one: &Turned, other: &Turned) -> bool {
    match (&one.proposal, &other.proposal) {
        (Some(Proposal::Call { tool: one, .. }), Some(Proposal::Call { tool: other, .. })) => {
            one == other
        }
        (Some(Proposal::Delegate { .. }), Some(Proposal::Delegate { .. })) => true,
        (_, _) => false,
    }
}

fn class_of(turned: &Turned) -> Option<&Value> {
    let Some(Payload::Inline(Value::Map(shown))) = &turned.result else {
        return None;
    };
    shown.get(FAILURE_CLASS)
}
