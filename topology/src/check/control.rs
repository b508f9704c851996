//! The contract's word on each operation that the topology really uses: that it is allowed, and that whoever must be asked can be.

use std::collections::BTreeMap;

use coppice_messages::{Operation, contract::HumanControl, ids::ToolName};

use super::authority::too_much;
use crate::{
    bundle::{Parts, item},
    load::Diagnostic,
    node::Kind,
};

pub(super) fn check(parts: &Parts, faults: &mut Vec<Diagnostic>) {
    for (tool, at) in used(parts) {
        let Some((_, loaded)) = parts.tools.get(&tool) else {
            continue;
        };
        let operation = loaded.value.operation;
        if let Some((message, help)) = refused(parts, &tool, operation) {
            let mut fault = at;
            fault.message = message;
            faults.push(fault.help(help));
        }
    }
    evidence(parts, faults);
}

/// Every tool that a node or an agent uses, with the first place that says so.
fn used(parts: &Parts) -> BTreeMap<ToolName, Diagnostic> {
    let topology = &parts.topology;
    let mut used = BTreeMap::new();
    for (name, agent) in &topology.value.agents {
        for tool in &agent.tools {
            let at = item(topology, &["agents", name.as_str(), "tools"], tool.as_str());
            used.entry(tool.clone()).or_insert(at);
        }
    }
    for (name, node) in &topology.value.nodes {
        match node.kind() {
            Ok(Kind::Call(call)) => {
                let path = ["nodes", name.as_str(), "call", "tool"];
                used.entry(call.tool.clone())
                    .or_insert_with(|| topology.at_value(&path, ""));
            }
            Ok(Kind::End(end)) => {
                for (nth, evidence) in end.evidence.iter().enumerate() {
                    let nth = nth.to_string();
                    let path = ["nodes", name.as_str(), "end", "evidence", &nth, "check"];
                    used.entry(evidence.check.clone())
                        .or_insert_with(|| topology.at_value(&path, ""));
                }
            }
            Ok(
                Kind::Agent(_)
                | Kind::FanOut(..)
                | Kind::Join(_)
                | Kind::Wait(_)
                | Kind::Branch(_)
                | Kind::Loop(_),
            )
            | Err(_) => {}
        }
    }
    used
}

fn refused(parts: &Parts, tool: &ToolName, operation: Operation) -> Option<(String, String)> {
    let contract = &parts.contract.value;
    let name = &contract.contract;
    if contract
        .allowed_operations
        .get(&operation)
        .is_none_or(|most| *most == 0)
    {
        let message = format!("{tool} does {operation}, which the contract {name} does not allow");
        let help =
            format!("leave {tool} out, or add {operation} to allowed_operations of the contract");
        return Some((message, help));
    }
    if let Some(access) = too_much(contract, operation) {
        let message = format!(
            "{tool} needs {}, the contract {name} grants {access}",
            operation.access()
        );
        return Some((
            message,
            format!("leave {tool} out, or raise authority.access of the contract"),
        ));
    }
    let level = contract.human_control.get(&operation).copied();
    let (asks, help) = match level {
        None | Some(HumanControl::None) => return None,
        Some(HumanControl::Forbidden) => (
            format!("the contract {name} forbids {operation}, whoever approves"),
            format!("leave {tool} out"),
        ),
        Some(HumanControl::Preview | HumanControl::Approve | HumanControl::TwoPerson) => (
            format!(
                "the contract {name} wants people to be asked before {operation}, and nobody can be: approvals are not supported yet"
            ),
            format!(
                "leave {tool} out, or write human_control: {{ {operation}: none }} in a contract of your own"
            ),
        ),
    };
    Some((asks, help))
}

/// `succeeded` is proved: where the contract names a state of the world, something looks at it.
fn evidence(parts: &Parts, faults: &mut Vec<Diagnostic>) {
    let wanted = &parts.contract.value.success_evidence.world;
    let Some(first) = wanted.first() else { return };
    for (name, node) in &parts.topology.value.nodes {
        let Some(end) = &node.end else { continue };
        if end.reason == coppice_messages::event::run::Reason::Succeeded && end.evidence.is_empty()
        {
            let path = ["nodes", name.as_str(), "end"];
            let fault = parts.topology.at_key(
                &path,
                "succeeded without evidence: nothing looks at the outside world",
            );
            faults.push(fault.help(format!(
                "add evidence: [ {{ check: TOOL, arguments: …, expect: … }} ]; the contract wants: {first}"
            )));
        }
    }
}
