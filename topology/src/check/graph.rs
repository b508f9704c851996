//! The graph of nodes: what each waits for, and that the run comes to an end.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::ids::{NodeName, SLOT_BYTES_MAX, SlotName};

use super::{ends, listed};
use crate::{
    document::Topology,
    load::{Diagnostic, Loaded, suggestion},
    node::{Branch, Join, Kind, Loop, Node, Order},
};

/// The children that an agent node delegates fill the slot `<node>-<call>`: the name leaves room for the number.
const AGENT_NODE_BYTES_MAX: usize = SLOT_BYTES_MAX - 11;

pub(super) type Nodes = BTreeMap<NodeName, Node>;

/// Whether the graph is sound, so that what is before what can be judged.
pub(super) fn check(topology: &Loaded<Topology>, faults: &mut Vec<Diagnostic>) -> bool {
    slots(topology, faults);
    let before = faults.len();
    bodies(topology, faults);
    edges(topology, faults);
    let nodes = &topology.value.nodes;
    let circular = circular(nodes);
    for name in &circular {
        let message = format!("{name} waits for itself: {}", listed(&circular));
        faults.push(
            topology
                .at_key(&["nodes", name.as_str()], message)
                .help("take one of them out of after; a node loop goes round"),
        );
    }
    let sound = faults.len() == before;
    if sound {
        ends::check(topology, faults);
    }
    sound
}

/// Everything that is over before each node, over any number of steps; of a node in a circle the node itself too.
pub(super) fn ancestors(nodes: &Nodes) -> BTreeMap<&NodeName, BTreeSet<&NodeName>> {
    let mut all = BTreeMap::new();
    for (name, node) in nodes {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&NodeName> = node.before().collect();
        while let Some(before) = open.pop() {
            if let Some((before, node)) = nodes.get_key_value(before)
                && seen.insert(before)
            {
                open.extend(node.before());
            }
        }
        all.insert(name, seen);
    }
    all
}

fn circular(nodes: &Nodes) -> Vec<&NodeName> {
    let ancestors = ancestors(nodes);
    let waits_for_itself = ancestors
        .into_iter()
        .filter(|(name, before)| before.contains(name));
    waits_for_itself.map(|(name, _)| name).collect()
}

/// Each node does exactly one thing, and its own numbers make sense.
fn bodies(topology: &Loaded<Topology>, faults: &mut Vec<Diagnostic>) {
    for (name, node) in &topology.value.nodes {
        let path = ["nodes", name.as_str()];
        match node.kind() {
            Err(invalid) => faults.push(topology.at_key(&path, invalid.to_string())),
            Ok(Kind::FanOut(..)) => fan_out(topology, name, node, faults),
            Ok(Kind::Join(join)) if join.of.is_empty() => {
                let message = "a join of its own gathers nothing";
                faults.push(
                    topology
                        .at_key(&["nodes", name.as_str(), "join"], message)
                        .help("name the nodes that it gathers: join: { of: [a, b] }"),
                );
            }
            Ok(Kind::Join(join)) => of_branches(topology, name, join, faults),
            Ok(Kind::Agent(_)) if name.as_str().len() > AGENT_NODE_BYTES_MAX => {
                let message = format!(
                    "the name of an agent node has at most {AGENT_NODE_BYTES_MAX} characters"
                );
                faults.push(
                    topology
                        .at_key(&path, message)
                        .help("the children that it delegates fill slots named after it"),
                );
            }
            Ok(Kind::Branch(branch)) => targets(topology, name, branch, faults),
            Ok(Kind::Loop(again)) => round(topology, name, again, faults),
            Ok(Kind::Call(_) | Kind::Agent(_) | Kind::Wait(_) | Kind::End(_)) => {}
        }
    }
}

/// Branches have names and do different work: what compares or reorders the members of a fan-out means nothing for them.
fn of_branches(
    topology: &Loaded<Topology>,
    name: &NodeName,
    join: &Join,
    faults: &mut Vec<Diagnostic>,
) {
    let mut refuse = |key, help| {
        let message = format!("a join of branches has no {key}");
        let path = ["nodes", name.as_str(), "join", key];
        faults.push(topology.at_key(&path, message).help(help));
    };
    if join.order == Order::Completion {
        refuse("order", "its results stand in the order of its list");
    }
    if join.conflict.is_some() {
        refuse(
            "conflict",
            "compare their results in a branch node behind it",
        );
    }
}

/// A branch leads to nodes that stand directly behind it.
fn targets(
    topology: &Loaded<Topology>,
    name: &NodeName,
    branch: &Branch,
    faults: &mut Vec<Diagnostic>,
) {
    let nodes = &topology.value.nodes;
    let cases = branch.cases.iter().enumerate().map(|(nth, case)| {
        (
            vec!["cases".to_owned(), nth.to_string(), "to".to_owned()],
            &case.to,
        )
    });
    let all = cases.chain(std::iter::once((
        vec!["otherwise".to_owned()],
        &branch.otherwise,
    )));
    for (place, to) in all {
        let path: Vec<&str> = ["nodes", name.as_str(), "branch"]
            .into_iter()
            .chain(place.iter().map(String::as_str))
            .collect();
        for target in to {
            let behind = nodes
                .get(target)
                .is_some_and(|node| node.after.contains(name));
            if !behind {
                let message = format!("{target} does not stand directly behind {name}");
                let help = format!("give {target} after: [{name}]");
                faults.push(topology.at_value(&path, message).help(help));
            }
        }
    }
}

/// A loop goes back to a node before it and has at least one round.
fn round(topology: &Loaded<Topology>, name: &NodeName, again: &Loop, faults: &mut Vec<Diagnostic>) {
    let nodes = &topology.value.nodes;
    let before = ancestors(nodes).remove(name).unwrap_or_default();
    if !before.contains(&again.back_to) {
        let message = format!("{} is not before {name}", again.back_to);
        let help = format!(
            "a loop goes back to one of: {}",
            listed(before.into_iter().collect::<Vec<_>>())
        );
        faults.push(
            topology
                .at_value(&["nodes", name.as_str(), "loop", "back_to"], message)
                .help(help),
        );
    }
    if again.at_most == 0 {
        let message = "at_most is 0: the loop would fail before its first round ends";
        faults.push(topology.at_value(&["nodes", name.as_str(), "loop", "at_most"], message));
    }
}

fn fan_out(
    topology: &Loaded<Topology>,
    name: &NodeName,
    node: &Node,
    faults: &mut Vec<Diagnostic>,
) {
    let Some(fan_out) = &node.fan_out else { return };
    let path = ["nodes", name.as_str(), "fan_out"];
    let right = "give it one of them: a list in over, or a number in width";
    match (&fan_out.over, fan_out.width) {
        (None, None) => {
            let message = "a fan_out without over and without width has no children";
            faults.push(topology.at_key(&path, message).help(right));
        }
        (Some(_), Some(_)) => {
            let message = "a fan_out has over and width";
            faults.push(topology.at_key(&path, message).help(right));
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    for (key, number) in [
        ("width", fan_out.width.unwrap_or(1)),
        ("concurrency", fan_out.concurrency),
    ] {
        if number == 0 {
            let path = [path.as_slice(), &[key]].concat();
            faults.push(topology.at_value(&path, format!("{key} is 0: nothing would ever run")));
        }
    }
    if node.join.as_ref().is_some_and(|join| !join.of.is_empty()) {
        let path = ["nodes", name.as_str(), "join", "of"];
        faults.push(
            topology
                .at_key(&path, "the join of a fan_out gathers its own children")
                .help("leave of out, or make the join a node of its own"),
        );
    }
}

/// `after` and `of` name other nodes that are there, and no end.
fn edges(topology: &Loaded<Topology>, faults: &mut Vec<Diagnostic>) {
    let nodes = &topology.value.nodes;
    let known: Vec<&str> = nodes.keys().map(NodeName::as_str).collect();
    for (name, node) in nodes {
        let after = ["nodes", name.as_str(), "after"];
        let of = ["nodes", name.as_str(), "join", "of"];
        let gathered = node.join.as_ref().map_or(&[][..], own_members);
        let lists = [(&after[..], node.after.as_slice()), (&of[..], gathered)];
        for (path, list) in lists {
            let mut seen = BTreeSet::new();
            for (nth, before) in list.iter().enumerate() {
                let nth = nth.to_string();
                let at = |message: String| topology.at_value(&[path, &[&nth]].concat(), message);
                match nodes.get(before) {
                    None => faults.push(
                        at(format!(
                            "there is no node {before:?}",
                            before = before.as_str()
                        ))
                        .help(suggestion(before.as_str(), &known)),
                    ),
                    Some(node) if node.end.is_some() => faults.push(
                        at(format!("{name} can never come: {before} ends the run"))
                            .help("let it come before the end"),
                    ),
                    Some(_) if !seen.insert(before) => {
                        faults.push(at(format!("{before} stands twice")));
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

fn own_members(join: &Join) -> &[NodeName] {
    &join.of
}

/// A slot is filled by one node: children are named after it.
fn slots(topology: &Loaded<Topology>, faults: &mut Vec<Diagnostic>) {
    let mut filled: BTreeMap<&SlotName, &NodeName> = BTreeMap::new();
    for (name, node) in &topology.value.nodes {
        let Some(fan_out) = &node.fan_out else {
            continue;
        };
        let Some(other) = filled.insert(&fan_out.slot, name) else {
            continue;
        };
        let path = ["nodes", name.as_str(), "fan_out", "slot"];
        let message = format!("the slot {} is filled by {other} already", fan_out.slot);
        faults.push(
            topology
                .at_value(&path, message)
                .help("give each fan_out a slot of its own: children are named after it"),
        );
    }
}
