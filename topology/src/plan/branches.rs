//! Parallel branches and the joins that gather them.
//!
//! A branch is named by its last node, which the join lists in `of`. To it belongs every node from which all ways on lead through that last
//! one: what stands before a fork belongs to no branch, and its failure ends the run.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::ids::NodeName;

use super::{Graph, Progress};
use crate::node::{Join, Node};

impl Graph {
    /// Whether the branches decide this join, and if so, whether it is met; `late` counts those that have not come as failed.
    #[must_use]
    pub fn join_verdict(
        &self,
        join: &Join,
        late: bool,
        progress: impl Fn(&NodeName) -> Progress,
    ) -> Option<bool> {
        let seen = |node: &NodeName| match progress(node) {
            Progress::Waiting | Progress::Started if late => Progress::Failed,
            seen @ (Progress::Waiting
            | Progress::Started
            | Progress::Done
            | Progress::Failed
            | Progress::Skipped) => seen,
        };
        let count = |wanted: Progress| {
            let matching = join.of.iter().filter(|of| seen(of) == wanted).count();
            u32::try_from(matching).unwrap_or(u32::MAX)
        };
        let members = u32::try_from(join.of.len()).unwrap_or(u32::MAX);
        let total = members.saturating_sub(count(Progress::Skipped));
        join.verdict(count(Progress::Done), count(Progress::Failed), total)
    }

    /// The nodes of all branches of a join, their last ones included.
    #[must_use]
    pub fn branches<'a>(&'a self, join: &Join) -> Vec<&'a NodeName> {
        let after = self.waiting_for();
        let belongs = |name: &&NodeName| is_within(&after, join, name);
        self.nodes.keys().filter(belongs).collect()
    }

    /// Whether a failure of this node is taken by a join of its own instead of ending the run.
    #[must_use]
    pub fn failure_is_gathered(&self, failed: &NodeName) -> bool {
        let after = self.waiting_for();
        self.joins()
            .any(|(_, join)| is_within(&after, join, failed))
    }

    /// The joins of their own.
    pub fn joins(&self) -> impl Iterator<Item = (&NodeName, &Join)> {
        let join = |(name, node)| Some((name, Node::gathers(node)?));
        self.nodes.iter().filter_map(join)
    }

    /// Waiting nodes that cannot come any more, each with the failed node before it.
    #[must_use]
    pub fn unreachable(
        &self,
        progress: impl Fn(&NodeName) -> Progress,
    ) -> Vec<(&NodeName, &NodeName)> {
        let failed = |before: &&NodeName| progress(before) == Progress::Failed;
        let waiting = |(name, _): &(&NodeName, &Node)| progress(name) == Progress::Waiting;
        self.nodes
            .iter()
            .filter(waiting)
            .filter_map(|(name, node)| Some((name, node.after.iter().find(failed)?)))
            .collect()
    }

    /// The nodes that wait for each.
    fn waiting_for(&self) -> Next<'_> {
        let mut after = Next::new();
        for (name, node) in &self.nodes {
            for before in node.before() {
                after.entry(before).or_default().push(name);
            }
        }
        after
    }
}

type Next<'a> = BTreeMap<&'a NodeName, Vec<&'a NodeName>>;

/// Whether a node belongs to one of the branches of a join.
fn is_within(after: &Next<'_>, join: &Join, node: &NodeName) -> bool {
    let mut lasts = join.of.iter();
    lasts.any(|last| last == node || leads_only_to(after, node, last))
}

/// Whether every way on from `node` leads through `last`.
fn leads_only_to(after: &Next<'_>, node: &NodeName, last: &NodeName) -> bool {
    let mut open = vec![node];
    let mut seen = BTreeSet::new();
    let mut arrived = false;
    while let Some(name) = open.pop() {
        let Some(next) = after.get(name) else {
            return false;
        };
        for next in next {
            arrived |= *next == last;
            if *next != last && seen.insert(*next) {
                open.push(next);
            }
        }
    }
    arrived
}
