//! A wait for a callback: about an operation that was made before it, and whose key the outside knows.

use std::collections::BTreeSet;

use coppice_messages::ids::NodeName;

use super::{graph, listed};
use crate::{
    bundle::Parts,
    load::Diagnostic,
    node::{Kind, Node, WaitFor},
    tool::{Tool, Transport},
};

pub(super) fn check(parts: &Parts, faults: &mut Vec<Diagnostic>) {
    let nodes = &parts.topology.value.nodes;
    let mut ancestors = graph::ancestors(nodes);
    for (name, node) in nodes {
        let Ok(Kind::Wait(WaitFor::Callback(callback))) = node.kind() else {
            continue;
        };
        let before = ancestors.remove(name).unwrap_or_default();
        let at = |message: String| {
            let path = ["nodes", name.as_str(), "wait", "callback", "of"];
            parts.topology.at_value(&path, message)
        };
        let of = &callback.of;
        let Some(tool) = before
            .contains(of)
            .then(|| called(parts, nodes.get(of)))
            .flatten()
        else {
            let message = format!("{of} is no call before {name}: nobody calls back about it");
            faults.push(at(message).help(waitable(parts, &before)));
            continue;
        };
        if let Some(why) = unknown_outside(tool) {
            faults.push(at(why.0).help(why.1));
        }
    }
}

/// The tool of a call node.
fn called<'a>(parts: &'a Parts, node: Option<&Node>) -> Option<&'a Tool> {
    let call = node?.call.as_ref()?;
    parts.tools.get(&call.tool).map(|(_, tool)| &tool.value)
}

/// Why nobody outside could name the operation in a callback, and what would be right.
fn unknown_outside(tool: &Tool) -> Option<(String, String)> {
    let name = &tool.tool;
    if tool.is_read() {
        let message = format!("{name} only reads: a callback is about a write");
        return Some((message, "name a call of a tool that writes".to_owned()));
    }
    let is_told = match &tool.transport {
        Transport::Http(http) => http.request.key_header.is_some(),
        Transport::InProcess(_) => true,
    };
    if !is_told {
        let message = format!("{name} is not told the operation's key, which a callback must name");
        let help = "give its request a key_header, such as Idempotency-Key".to_owned();
        return Some((message, help));
    }
    None
}

fn waitable(parts: &Parts, before: &BTreeSet<&NodeName>) -> String {
    let nodes = &parts.topology.value.nodes;
    let usable = before.iter().filter(|name| {
        called(parts, nodes.get(**name)).is_some_and(|tool| unknown_outside(tool).is_none())
    });
    match listed(usable.copied().collect::<Vec<_>>()).as_str() {
        "nothing" => "put a call that writes before it, and name that".to_owned(),
        usable => format!("of is one of: {usable}"),
    }
}
