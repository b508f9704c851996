//! Branches and loops: control over typed state, each with a limit.

use coppice_messages::{Event, event::node::Outcome, ids::NodeName};
use coppice_topology::{
    node::{Branch, Loop},
    plan::Progress,
};

use crate::{
    limits::NODES_ENDED_AT_ONCE,
    state::{State, Turn},
};

impl State {
    /// Takes the first case that holds; what stands directly behind and is not taken is skipped.
    pub(crate) fn advance_branch(
        &self,
        node: &NodeName,
        branch: &Branch,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        let scope = self.scope(turn);
        let taken = branch
            .cases
            .iter()
            .find(|case| case.when.holds(&scope))
            .map_or(&branch.otherwise, |case| &case.to);
        let Some(graph) = self.graph() else {
            return Vec::new();
        };
        let waiting = |behind: &&NodeName| self.nodes.progress(behind) == Progress::Waiting;
        let left = graph
            .behind(node)
            .filter(|behind| !taken.contains(behind))
            .filter(waiting);
        let skip = |behind: &NodeName| self.node_ended(behind, Outcome::Skipped, None);
        let mut skipped: Vec<Event> = left.take(NODES_ENDED_AT_ONCE + 1).map(skip).collect();
        // Of more than fit a commit the rest follows while the branch is still at work; it is decided alike, since what it looks at is done.
        if skipped.len() <= NODES_ENDED_AT_ONCE {
            skipped.insert(0, self.done(node, None));
        } else {
            skipped.truncate(NODES_ENDED_AT_ONCE);
        }
        skipped
    }

    /// Done once its condition holds; else one more round, within its limit.
    pub(crate) fn advance_loop(
        &self,
        node: &NodeName,
        again: &Loop,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        if again.until.holds(&self.scope(turn)) {
            return vec![self.done(node, None)];
        }
        if self.nodes.visit(node) >= again.at_most {
            let message = format!("the condition does not hold after {} rounds", again.at_most);
            return vec![self.failed(node, "loop_limit", message)];
        }
        vec![self.node_ended(node, Outcome::Repeated, None)]
    }
}
