//! What waits are for: events say until when, the plan says for what.

use crate::{
    node::WaitFor,
    plan::{Graph, Plan},
};

use super::frame::{Frame, NodeState, Run, State, Waiting, WaitingFor};

impl Frame {
    /// Names the signal or callback that each waiting run of this plan can go on with.
    pub fn name_waits(&mut self, plan: &Plan) {
        for run in &mut self.runs {
            let graph = match &run.agent {
                Some(agent) => plan.children.get(agent),
                None => Some(&plan.root),
            };
            if let Some(graph) = graph {
                name(run, graph);
            }
        }
    }
}

fn name(run: &mut Run, graph: &Graph) {
    let started = run
        .nodes
        .iter()
        .filter(|(_, state)| **state == NodeState::Started);
    let waits: Vec<_> = started
        .filter_map(|(node, _)| {
            let (what, who) = awaited(graph.nodes.get(node)?.wait.as_ref()?)?;
            Some((node.clone(), what, who))
        })
        .collect();
    let mut shown = None;
    for (at, (node, what, who)) in waits.iter().enumerate() {
        let doing = format!("waits at {node}");
        let clock = run
            .waiting
            .as_ref()
            .filter(|waiting| waiting.what == WaitingFor::Timer && run.doing == doing);
        let waiting = match clock {
            Some(clock) => Waiting {
                what: *what,
                who: format!("{who}, else {}", clock.who),
                since: clock.since,
                until: clock.until,
            },
            // Without a time of its own it waits until the run's deadline.
            None if run.waiting.is_none() && run.doing == format!("is at {node}") => Waiting {
                what: *what,
                who: who.clone(),
                since: run.last.as_ref().map(|last| last.at),
                until: run.deadline,
            },
            None => continue,
        };
        run.state = State::Waiting;
        run.doing = doing;
        run.waiting = Some(waiting);
        shown = Some(at);
        break;
    }
    let others = waits.into_iter().enumerate();
    let others = others.filter(|(at, _)| Some(*at) != shown);
    run.also = others.map(|(_, (_, what, who))| other(what, who)).collect();
}

/// What a wait is for, other than a time.
fn awaited(wait: &WaitFor) -> Option<(WaitingFor, String)> {
    match wait {
        WaitFor::Signal(signal) => Some((WaitingFor::Signal, format!("signal {}", signal.name))),
        WaitFor::Callback(callback) => Some((
            WaitingFor::Callback,
            format!("callback about {}", callback.of),
        )),
        WaitFor::Timer(_) => None,
    }
}

/// A wait beside the one that the run shows: its times are not told apart.
fn other(what: WaitingFor, who: String) -> Waiting {
    Waiting {
        what,
        who,
        since: None,
        until: None,
    }
}
