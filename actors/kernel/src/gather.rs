//! Joins of their own, which gather parallel branches of the graph (`spec/topology.md`): decided once, and never waiting for what cannot come.

use coppice_messages::{
    Event, Timestamp, Value,
    event::{
        effect::{self, LostCall},
        join::{self, Decided, SlotOutcome},
        node::Outcome,
        run::Reason,
    },
    ids::NodeName,
};
use coppice_topology::{
    Graph,
    node::{Join, Then},
    plan::Progress,
};

use crate::{
    limits::NODES_ENDED_AT_ONCE,
    state::{State, Turn},
};

/// Of a node whose branch failed before its turn came.
const UNREACHABLE: &str = "unreachable";
/// Of a node whose join was decided without it.
const CANCELLED: &str = "cancelled";

impl State {
    /// Fires the join once its branches, or its deadline, decide it.
    pub(crate) fn advance_join(&self, node: &NodeName, join: &Join, turn: &Turn<'_>) -> Vec<Event> {
        let late = self.is_overdue(join, turn.now);
        let progress = |of: &NodeName| self.nodes.progress(of);
        let verdict = self
            .graph()
            .and_then(|graph| graph.join_verdict(join, late, progress));
        let Some(met) = verdict else {
            return Vec::new();
        };
        let outcomes: Vec<_> = join.of.iter().map(|of| self.outcome(of, late)).collect();
        let end = if met {
            self.done(node, None)
        } else {
            self.failed(node, "join_failed", self.why_not_met(join, &outcomes))
        };
        let decided = Event::Join(join::Event::Decided(Decided {
            node: node.clone(),
            outcomes,
            rule: join.rule(),
            met,
        }));
        vec![decided, end]
    }

    fn outcome(&self, of: &NodeName, late: bool) -> SlotOutcome {
        match (self.nodes.progress(of), self.nodes.failure(of)) {
            (Progress::Done, _) => SlotOutcome::Ended(Reason::Succeeded),
            (Progress::Skipped, _) => SlotOutcome::Skipped,
            (_, Some((UNREACHABLE, _))) => SlotOutcome::Unreachable,
            (_, Some(("deadline" | "wait_timeout", _))) => SlotOutcome::Ended(Reason::TimedOut),
            (_, Some((CANCELLED, _))) => SlotOutcome::Ended(Reason::Cancelled),
            (_, Some(_)) => SlotOutcome::Ended(Reason::Failed),
            (_, None) if late => SlotOutcome::Ended(Reason::TimedOut),
            (_, None) => SlotOutcome::Open,
        }
    }

    fn why_not_met(&self, join: &Join, outcomes: &[SlotOutcome]) -> String {
        let counts = |outcome: &SlotOutcome| {
            !matches!(
                outcome,
                SlotOutcome::Ended(Reason::Succeeded) | SlotOutcome::Skipped | SlotOutcome::Open
            )
        };
        let lost = outcomes.iter().filter(|outcome| counts(outcome)).count();
        let first = join
            .of
            .iter()
            .zip(outcomes)
            .find(|(_, outcome)| counts(outcome));
        let first = first.map(|(of, outcome)| match self.nodes.failure(of) {
            Some((class, message)) => format!("; first {of}: {message} ({class})"),
            None => format!("; first {of}: {outcome}"),
        });
        format!(
            "{}: {lost} of {} branches failed{}",
            join.rule(),
            join.of.len(),
            first.unwrap_or_default()
        )
    }

    /// Ends what is left of the branches that a join was decided without, so many nodes at once as fit a commit.
    pub(crate) fn advance_decided_joins(&self, _: &Turn<'_>) -> Vec<Event> {
        let Some(graph) = self.graph().filter(|_| self.lifecycle.closing.is_none()) else {
            return Vec::new();
        };
        let decided = graph
            .joins()
            .filter(|(name, join)| join.then == Then::Cancel && self.nodes.joined(name).is_some());
        let branches = decided.flat_map(|(_, join)| graph.branches(join));
        let left = branches.filter(|node| self.is_unfinished(node));
        left.take(NODES_ENDED_AT_ONCE)
            .flat_map(|node| match self.nodes.progress(node) {
                Progress::Started => self.stop(node),
                Progress::Waiting | Progress::Done | Progress::Failed | Progress::Skipped => {
                    vec![self.node_ended(node, Outcome::Skipped, None)]
                }
            })
            .collect()
    }

    /// Whether a node has neither ended nor been left out; one that goes round once more has ended its visit.
    fn is_unfinished(&self, node: &NodeName) -> bool {
        matches!(
            self.nodes.progress(node),
            Progress::Waiting | Progress::Started
        )
    }

    /// A write that has left is heard to its end; what only reads is not waited for.
    fn stop(&self, node: &NodeName) -> Vec<Event> {
        let of_node = |event: &Event| {
            let Event::Effect(effect::Event::Lost(lost)) = event else {
                return false;
            };
            match &lost.what {
                LostCall::Model { node: of, .. } => of == node,
                LostCall::Read { key, .. } => {
                    let effect = self.effects.get(key);
                    effect.is_some_and(|effect| effect.intended.node == *node)
                }
            }
        };
        let lost = self.claim_models().chain(self.give_up_reads());
        let end = self.failed(node, CANCELLED, "its join was decided without it");
        lost.filter(of_node).chain(std::iter::once(end)).collect()
    }

    /// The ends of nodes that cannot come any more: of a branch as a failure that its join gathers, of others as skipped.
    pub(crate) fn cut_off(&self, graph: &Graph) -> Vec<Event> {
        let unreachable = graph.unreachable(|node| self.nodes.progress(node));
        let end = |(node, before): (&NodeName, &NodeName)| {
            if !graph.failure_is_gathered(node) {
                return self.node_ended(node, Outcome::Skipped, None);
            }
            let why = match self.nodes.failure(before) {
                // Where the branch failed, and not every node since.
                Some((UNREACHABLE, first)) => first.to_owned(),
                Some((class, message)) => format!("{before} failed before it: {message} ({class})"),
                None => format!("{before} failed before it"),
            };
            self.failed(node, UNREACHABLE, why)
        };
        unreachable
            .into_iter()
            .take(NODES_ENDED_AT_ONCE)
            .map(end)
            .collect()
    }

    /// Whether the time of this join is over, counted from the start of the first node of its branches.
    pub(crate) fn is_overdue(&self, join: &Join, now: Timestamp) -> bool {
        self.join_due(join).is_some_and(|due| due <= now)
    }

    fn join_due(&self, join: &Join) -> Option<Timestamp> {
        let span = join.deadline?;
        let nodes = self.graph()?.branches(join).into_iter();
        let begun = nodes.filter_map(|node| self.nodes.started_at(node)).min()?;
        Some(begun.plus(span))
    }

    /// When the next join of its own is decided by its deadline.
    pub(crate) fn joins_due(&self) -> Option<Timestamp> {
        let waits = |node: &NodeName| self.nodes.progress(node) == Progress::Waiting;
        let joins = self.graph()?.joins().filter(|(name, _)| waits(name));
        joins.filter_map(|(_, join)| self.join_due(join)).min()
    }

    /// The value of a decided join: what counted, in the order of its list.
    pub(crate) fn gathered_value(&self, node: &NodeName, join: &Join, turn: &Turn<'_>) -> Value {
        let recorded = self.nodes.joined(node).map(<[SlotOutcome]>::to_vec);
        // Logs hold joins of their own that were decided before their decisions were recorded.
        let outcomes =
            recorded.unwrap_or_else(|| join.of.iter().map(|of| self.outcome(of, false)).collect());
        let result = |(of, outcome): (&NodeName, &SlotOutcome)| {
            let counts = *outcome == SlotOutcome::Ended(Reason::Succeeded);
            let value = counts.then(|| self.node_value(of, turn));
            value.flatten().unwrap_or_default()
        };
        let word = |outcome: &SlotOutcome| Value::Text(outcome.to_string());
        Value::map([
            (
                "results",
                Value::List(join.of.iter().zip(&outcomes).map(result).collect()),
            ),
            ("outcomes", Value::List(outcomes.iter().map(word).collect())),
        ])
    }
}
