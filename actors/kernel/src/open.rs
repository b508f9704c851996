//! First events: what a root and a child are opened with. Pure, so that host, simulator and replay open alike.

use std::collections::BTreeMap;

use coppice_messages::{
    Delegation, Payload, Timestamp,
    delegation::Root,
    event::{
        child::Delegated,
        run::{Opened, Program},
    },
    ids::ToolName,
};
use coppice_topology::Plan;

use crate::state::State;

/// The first event of a root.
#[must_use]
pub fn root(
    plan: &Plan,
    root: Root,
    input: Payload,
    labels: BTreeMap<String, String>,
    now: Timestamp,
) -> Opened {
    let lineage = root.run.clone();
    let envelope = Delegation::root(&plan.contract, root, now);
    Opened {
        contract: plan.manifest.contract,
        topology: plan.manifest.topology,
        release: plan.release,
        tools: pinned(plan, &envelope),
        program: Program::Topology {
            name: plan.name.clone(),
        },
        path: "root".to_owned(),
        envelope,
        input,
        lineage,
        labels,
    }
}

impl State {
    /// The first event of a child that this run delegated; none before this run is open.
    #[must_use]
    pub fn child_opened(&self, delegated: &Delegated) -> Option<Opened> {
        let parent = self.opened()?;
        Some(Opened {
            contract: parent.contract,
            topology: parent.topology,
            release: parent.release,
            tools: pinned(&self.plan, &delegated.envelope),
            program: Program::Agent {
                agent: delegated.agent.clone(),
                slot: delegated.slot.clone(),
                ordinal: delegated.ordinal,
            },
            path: format!("{}/{}[{}]", parent.path, delegated.slot, delegated.ordinal),
            envelope: delegated.envelope.clone(),
            input: delegated.item.clone(),
            lineage: parent.lineage.clone(),
            labels: BTreeMap::new(),
        })
    }
}

fn pinned(plan: &Plan, envelope: &Delegation) -> BTreeMap<ToolName, coppice_messages::Digest> {
    let of = |tool: &ToolName| {
        plan.tools
            .get(tool)
            .map(|pinned| (tool.clone(), pinned.digest))
    };
    envelope.permitted_tools().iter().filter_map(of).collect()
}
