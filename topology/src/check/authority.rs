//! Authority and budgets: nothing is declared that the contract does not grant, and no child asks for more than its parent can have.

use coppice_messages::{
    Access, Contract, Operation,
    budget::Spent,
    ids::{AgentName, NodeName, ToolName},
};

use super::{
    child::{Child, granted},
    listed,
};
use crate::{
    bundle::{Parts, item},
    load::{Diagnostic, suggestion},
    node::{Kind, WaitFor},
};

pub(super) fn check(parts: &Parts, faults: &mut Vec<Diagnostic>) {
    let mut all = Spent::default();
    for (name, node) in &parts.topology.value.nodes {
        match node.kind() {
            Ok(Kind::Call(call)) => {
                let path = ["nodes", name.as_str(), "call", "tool"];
                root_calls(parts, &path, &call.tool, faults);
            }
            Ok(Kind::Agent(agent)) => {
                let path = ["nodes", name.as_str(), "agent", "agent"];
                if known_agent(parts, &path, &agent.agent, faults) {
                    root_agent(parts, &agent.agent, faults);
                }
            }
            Ok(Kind::FanOut(fan_out, request, join)) => {
                let path = ["nodes", name.as_str(), "fan_out", "agent"];
                if known_agent(parts, &path, &fan_out.agent, faults) {
                    let child = Child {
                        parts,
                        name,
                        fan_out,
                        request,
                        join,
                    };
                    child.check(&mut all, faults);
                }
            }
            Ok(Kind::End(end)) => {
                for (nth, evidence) in end.evidence.iter().enumerate() {
                    let nth = nth.to_string();
                    let path = ["nodes", name.as_str(), "end", "evidence", &nth, "check"];
                    root_calls(parts, &path, &evidence.check, faults);
                    reads(parts, &path, &evidence.check, faults);
                }
            }
            Ok(Kind::Wait(wait)) => wait_within(parts, name, wait, faults),
            Ok(Kind::Join(_) | Kind::Branch(_) | Kind::Loop(_)) | Err(_) => {}
        }
    }
    whole_sum(parts, &all, faults);
}

/// A wait that outlasts the contract would never end.
pub(super) fn wait_within(
    parts: &Parts,
    name: &NodeName,
    wait: &WaitFor,
    faults: &mut Vec<Diagnostic>,
) {
    let most = parts.contract.value.budget.wall_clock;
    if let Some(span) = wait.longest().filter(|span| *span >= most) {
        let message = format!("the run would wait {span}, but its contract ends it after {most}");
        let help = "wait for less, or raise wall_clock in the contract's budget";
        faults.push(
            parts
                .topology
                .at_value(&["nodes", name.as_str(), "wait"], message)
                .help(help),
        );
    }
}

fn known_agent(
    parts: &Parts,
    path: &[&str],
    agent: &AgentName,
    faults: &mut Vec<Diagnostic>,
) -> bool {
    let agents = &parts.topology.value.agents;
    if agents.contains_key(agent) {
        return true;
    }
    let known: Vec<&str> = agents.keys().map(AgentName::as_str).collect();
    let message = format!("there is no agent {:?}", agent.as_str());
    let fault = parts.topology.at_value(path, message);
    faults.push(fault.help(suggestion(agent.as_str(), &known)));
    false
}

/// A tool that the root itself calls is one that the contract lets it call.
fn root_calls(parts: &Parts, path: &[&str], tool: &ToolName, faults: &mut Vec<Diagnostic>) {
    let granted = &parts.contract.value.authority.tools;
    if granted.contains(tool) || !parts.tools.contains_key(tool) {
        return;
    }
    let contract = &parts.contract.value.contract;
    let fault = parts.topology.at_value(
        path,
        format!("the contract {contract} does not permit {tool}"),
    );
    faults.push(fault.help(format!("it permits {}", listed(granted))));
}

fn root_agent(parts: &Parts, agent: &AgentName, faults: &mut Vec<Diagnostic>) {
    let Some(declared) = parts.topology.value.agents.get(agent) else {
        return;
    };
    let granted = &parts.contract.value.authority.tools;
    for tool in declared.tools.difference(granted) {
        let mut fault = item(
            &parts.topology,
            &["agents", agent.as_str(), "tools"],
            tool.as_str(),
        );
        fault.message = format!(
            "the contract {} does not permit {tool} to the root, in which {agent} works",
            parts.contract.value.contract
        );
        faults.push(fault.help(format!("it permits {}", listed(granted))));
    }
}

/// Evidence is what a tool reads.
pub(super) fn reads(parts: &Parts, path: &[&str], tool: &ToolName, faults: &mut Vec<Diagnostic>) {
    let Some((_, loaded)) = parts.tools.get(tool) else {
        return;
    };
    if !loaded.value.is_read() {
        let message = format!(
            "{tool} is no evidence: its operation is {}",
            loaded.value.operation
        );
        let fault = parts.topology.at_value(path, message);
        faults.push(fault.help("check with a tool whose operation is read"));
    }
}

/// All fan-outs together, when each alone would fit.
fn whole_sum(parts: &Parts, all: &Spent, faults: &mut Vec<Diagnostic>) {
    let contract = &parts.contract.value;
    let fan_outs = parts.topology.value.nodes.values();
    if fan_outs.filter(|node| node.fan_out.is_some()).count() < 2 {
        return;
    }
    if let Err(over) = all.fits(&granted(contract)) {
        let message = format!(
            "all children together ask for {} {}",
            over.asked, over.dimension
        );
        let fault = parts.topology.at_key(&["nodes"], message);
        faults.push(fault.help(format!(
            "the contract {} grants {} to the whole tree",
            contract.contract, over.left
        )));
    }
}

/// The access that an operation needs is at most the contract's.
pub(super) fn too_much(contract: &Contract, operation: Operation) -> Option<Access> {
    (operation.access() > contract.authority.access).then_some(contract.authority.access)
}
