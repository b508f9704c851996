//! The agents of a topology: each is a model that a route leads to, or has nodes of its own, which are checked as the root's are.

use coppice_messages::ids::{AgentName, NodeName, ToolName};

use super::{authority, callback, graph, listed, references};
use crate::{
    bundle::{Parts, SCRIPTED},
    document::Topology,
    load::{Diagnostic, Loaded},
    node::{Kind, Node},
    plan::Agent,
};

pub(super) fn check(parts: &Parts, faults: &mut Vec<Diagnostic>) {
    let topology = &parts.topology;
    for (name, agent) in &topology.value.agents {
        let at = ["agents", name.as_str()];
        match (&agent.model, agent.nodes.is_empty()) {
            (Some(model), true) => route(topology, name, model, faults),
            (None, false) => nodes(parts, name, agent, faults),
            (None, true) => {
                let fault = topology.at_key(&at, format!("{name} does nothing"));
                faults.push(fault.help("give it a model, or nodes of its own"));
            }
            (Some(_), false) => {
                let fault = topology.at_key(&at, format!("{name} has a model and nodes"));
                faults.push(fault.help("give it one of them"));
            }
        }
    }
    in_the_root(parts, faults);
}

/// A model that nothing leads to is found out here and not by the first call of a run.
fn route(topology: &Loaded<Topology>, name: &AgentName, model: &str, faults: &mut Vec<Diagnostic>) {
    if !model.starts_with(SCRIPTED) {
        let path = ["agents", name.as_str(), "model"];
        let message = format!("no route leads to the model {model:?}");
        let help = "write scripted/NAME: only scripted models can be asked";
        faults.push(topology.at_value(&path, message).help(help));
    }
}

/// A loop in the run itself asks a model: nodes of its own are for a child.
fn in_the_root(parts: &Parts, faults: &mut Vec<Diagnostic>) {
    let topology = &parts.topology;
    for (name, node) in &topology.value.nodes {
        let Some(asked) = node.agent.as_ref().map(|looped| &looped.agent) else {
            continue;
        };
        let agent = topology.value.agents.get(asked);
        if agent.is_some_and(|agent| !agent.nodes.is_empty()) {
            let path = ["nodes", name.as_str(), "agent", "agent"];
            let fault = topology.at_value(&path, format!("{asked} has nodes and no model to ask"));
            faults.push(fault.help("give it to a fan_out, or write its nodes here"));
        }
    }
}

/// The nodes of a child, as if they were a topology.
fn nodes(parts: &Parts, name: &AgentName, agent: &Agent, faults: &mut Vec<Diagnostic>) {
    let Some(own) = own(parts, name, agent) else {
        return;
    };
    if graph::check(&own.topology, faults) {
        references::check(&own, references::Whose::Child, faults);
        callback::check(&own, faults);
    }
    for (node_name, node) in &agent.nodes {
        body(&own, agent, (node_name, node), faults);
    }
}

/// One node of a child uses what the agent has, and does what a child's nodes can.
fn body(
    own: &Parts,
    agent: &Agent,
    (name, node): (&NodeName, &Node),
    faults: &mut Vec<Diagnostic>,
) {
    let at = |path: &[&str]| -> Vec<String> {
        let whole = ["nodes", name.as_str()]
            .into_iter()
            .chain(path.iter().copied());
        whole.map(str::to_owned).collect()
    };
    let calls = |path: &[String], tool: &ToolName, faults: &mut Vec<Diagnostic>| {
        if !agent.tools.contains(tool) {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let message = format!("the agent has no tool {tool}");
            let fault = own.topology.at_value(&path, message);
            faults.push(fault.help(format!("its tools are {}", listed(&agent.tools))));
        }
    };
    match node.kind() {
        Ok(Kind::Call(call)) => calls(&at(&["call", "tool"]), &call.tool, faults),
        Ok(Kind::End(end)) => {
            for (nth, evidence) in end.evidence.iter().enumerate() {
                let path = at(&["end", "evidence", &nth.to_string(), "check"]);
                calls(&path, &evidence.check, faults);
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                authority::reads(own, &path, &evidence.check, faults);
            }
        }
        Ok(Kind::Wait(wait)) => authority::wait_within(own, name, wait, faults),
        Ok(Kind::Agent(_) | Kind::FanOut(..)) => {
            let message = "a child's nodes have no agent and no fan_out";
            let fault = own.topology.at_key(&["nodes", name.as_str()], message);
            faults.push(fault.help("only the root's nodes have children and loops of agents"));
        }
        Ok(Kind::Join(_) | Kind::Branch(_) | Kind::Loop(_)) | Err(_) => {}
    }
}

/// The parts of a release whose topology has a child's nodes and answer, and whose positions are those of the child's part of the file.
fn own(parts: &Parts, name: &AgentName, agent: &Agent) -> Option<Parts> {
    let topology = &parts.topology;
    let yaml = topology.yaml.find(&["agents", name.as_str()])?.clone();
    let mut own = parts.clone();
    own.topology = Loaded {
        value: Topology {
            nodes: agent.nodes.clone(),
            result_schema: Some(agent.result_schema.clone()),
            input: None,
            ..topology.value.clone()
        },
        file: topology.file.clone(),
        yaml,
    };
    Some(own)
}
