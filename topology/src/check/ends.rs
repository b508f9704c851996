//! Ends: one, or one for each way that a branch can take; every node leads to each end that can come with it.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::ids::NodeName;

use super::{
    graph::{Nodes, ancestors},
    listed,
};
use crate::{
    document::Topology,
    load::{Diagnostic, Loaded},
    node::{Branch, Node},
};

pub(super) fn check(topology: &Loaded<Topology>, faults: &mut Vec<Diagnostic>) {
    let nodes = &topology.value.nodes;
    let is_end = |(_, node): &(&NodeName, &Node)| node.end.is_some();
    let ends: Vec<&NodeName> = nodes.iter().filter(is_end).map(|(name, _)| name).collect();
    if ends.is_empty() {
        let help = "add a node with end: { reason: succeeded, … } after the last one";
        let fault = topology.at_key(&["nodes"], "no node ends the run");
        faults.push(fault.help(help));
        return;
    }
    let shape = Shape {
        nodes,
        before: ancestors(nodes),
    };
    for (at, end) in ends.iter().enumerate() {
        let other = ends[..at].iter().find(|other| !shape.excludes(end, other));
        if let Some(other) = other {
            let message = format!("a second end beside {other}: whichever comes first would win");
            let help = "keep one, or let them stand behind different cases of one branch; a failing node ends the run by itself";
            faults.push(
                topology
                    .at_key(&["nodes", end.as_str()], message)
                    .help(help),
            );
        }
    }
    let leads_on =
        |name: &NodeName, end: &NodeName| shape.is_before(name, end) || shape.excludes(name, end);
    for (name, _) in nodes.iter().filter(|(_, node)| node.end.is_none()) {
        let misses: Vec<&NodeName> = ends
            .iter()
            .copied()
            .filter(|end| !leads_on(name, end))
            .collect();
        if !misses.is_empty() {
            let message = format!("nothing waits for {name}: the run could end before it is done");
            let help = format!("put {name} into after of {}", listed(&misses));
            let fault = topology.at_key(&["nodes", name.as_str()], message);
            faults.push(fault.help(help));
        }
    }
}

fn arms(branch: &Branch) -> impl Iterator<Item = &[NodeName]> {
    let cases = branch.cases.iter().map(|case| case.to.as_slice());
    cases.chain(std::iter::once(branch.otherwise.as_slice()))
}

/// Nodes, and what is over before each.
struct Shape<'a> {
    nodes: &'a Nodes,
    before: BTreeMap<&'a NodeName, BTreeSet<&'a NodeName>>,
}

impl Shape<'_> {
    /// Whether some branch takes at most one of the two, and skips the other with everything before it.
    fn excludes(&self, one: &NodeName, other: &NodeName) -> bool {
        let mut branches = self
            .nodes
            .iter()
            .filter_map(|(name, node)| Some((name, node.branch.as_ref()?)));
        branches.any(|(name, branch)| {
            let (first, second) = (self.targets(name, one), self.targets(name, other));
            self.comes_through(one, &first)
                && self.comes_through(other, &second)
                && arms(branch).all(|arm| {
                    let has = |targets: &BTreeSet<_>| arm.iter().any(|to| targets.contains(to));
                    !(has(&first) && has(&second))
                })
        })
    }

    /// The nodes directly behind a branch over which `of` is reached.
    fn targets(&self, branch: &NodeName, of: &NodeName) -> BTreeSet<&NodeName> {
        let behind = self
            .nodes
            .iter()
            .filter(|(_, node)| node.after.contains(branch));
        behind
            .map(|(target, _)| target)
            .filter(|target| *target == of || self.is_before(target, of))
            .collect()
    }

    fn is_before(&self, earlier: &NodeName, later: &NodeName) -> bool {
        let before = self.before.get(later);
        before.is_some_and(|before| before.contains(earlier))
    }

    /// Whether every way to the node leads through one of these, so that it is skipped when all of them are.
    fn comes_through(&self, node: &NodeName, targets: &BTreeSet<&NodeName>) -> bool {
        let mut open = vec![node];
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop() {
            if targets.contains(name) || !seen.insert(name) {
                continue;
            }
            let known = open.len();
            open.extend(self.nodes.get(name).into_iter().flat_map(Node::before));
            if open.len() == known {
                return false;
            }
        }
        !targets.is_empty()
    }
}
