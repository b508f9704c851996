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
    for (node, _) in started {
        let wait = graph.nodes.get(node).and_then(|node| node.wait.as_ref());
        let (what, who) = match wait {
            Some(WaitFor::Signal(signal)) => {
                (WaitingFor::Signal, format!("signal {}", signal.name))
            }
            Some(WaitFor::Callback(callback)) => (
                WaitingFor::Callback,
                format!("callback about {}", callback.of),
            ),
            Some(WaitFor::Timer(_)) | None => continue,
        };
        let waits = format!("waits at {node}");
        let clock = run
            .waiting
            .as_ref()
            .filter(|waiting| waiting.what == WaitingFor::Timer && run.doing == waits);
        let waiting = match clock {
            Some(clock) => Waiting {
                what,
                who: format!("{who}, else {}", clock.who),
                since: clock.since,
                until: clock.until,
            },
            // Without a time of its own it waits until the run's deadline.
            None if run.waiting.is_none() && run.doing == format!("is at {node}") => Waiting {
                what,
                who,
                since: run.last.as_ref().map(|last| last.at),
                until: run.deadline,
            },
            None => continue,
        };
        run.state = State::Waiting;
        run.doing = waits;
        run.waiting = Some(waiting);
        return;
    }
}
