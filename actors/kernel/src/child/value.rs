//! The value of a decided group: results, outcomes and the one answer that they agree on.

use coppice_messages::{
    Payload, Value,
    event::{join::SlotOutcome, run::Reason},
    ids::{RunId, SlotName},
};
use coppice_topology::node::Order;

use super::{Child, Children};
use crate::state::Turn;

impl Children {
    /// The results and outcomes of a decided group, answers looked up.
    pub(crate) fn group_value(&self, slot: &SlotName, turn: &Turn<'_>) -> Option<Value> {
        self.group_with(slot, |answer| turn.resolve(answer).unwrap_or_default())
    }

    /// The same with large answers by digest, which needs no look-up.
    pub(crate) fn group_payload(&self, slot: &SlotName) -> Payload {
        let value = self.group_with(slot, |answer| match answer {
            Payload::Inline(value) => value.clone(),
            Payload::Blob { digest, .. } => Value::map([("blob", Value::Text(digest.to_string()))]),
        });
        Payload::Inline(value.unwrap_or_default())
    }

    fn group_with(&self, slot: &SlotName, show: impl Fn(&Payload) -> Value) -> Option<Value> {
        let group = self.groups.get(slot)?;
        let outcomes = group.outcomes.as_ref()?;
        let succeeded =
            |child: &&Child| child.outcome == Some(SlotOutcome::Ended(Reason::Succeeded));
        let result = |id: &RunId| {
            let answer = self
                .all
                .get(id)
                .filter(succeeded)
                .and_then(|child| child.answer.as_ref());
            answer.map(&show).unwrap_or_default()
        };
        let results = match group.order {
            Order::Declared => group.members.iter().map(result).collect(),
            Order::Completion => group.came.iter().map(result).collect(),
        };
        let outcomes = outcomes
            .iter()
            .map(|outcome| Value::Text(outcome.to_string()))
            .collect();
        let agreed = self.agreed(group).map(|answer| ("answer", show(answer)));
        let all = [
            ("results", Value::List(results)),
            ("outcomes", Value::List(outcomes)),
        ];
        Some(Value::map(all.into_iter().chain(agreed)))
    }
}
