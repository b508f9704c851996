//! From what was folded to a frame: runs in the order of the tree, each with what its parent knows of it.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::{Account, Spent, event::run::Program, ids::RunId};

use super::{
    Tree,
    fold::{Child, Folded},
    frame::{Authority, Ended, Frame, Run},
    standing::standing,
};

/// Levels that are drawn: more than any contract allows, so that no log leads round in a circle.
const DEPTH_MAX: u32 = 32;

pub(super) fn frame(tree: &Tree) -> Frame {
    let drawing = Drawing::of(tree);
    let mut runs = Vec::new();
    for root in &drawing.roots {
        drawing.draw(root, "root", 0, &mut runs);
    }
    Frame {
        tenant: tree.of.as_ref().map(|(tenant, _)| tenant.clone()),
        tree: tree.of.as_ref().map(|(_, tree)| tree.clone()),
        position: tree.position,
        at: tree.at,
        skipped: tree.skipped,
        runs,
    }
}

struct Drawing<'a> {
    runs: &'a BTreeMap<RunId, Folded>,
    /// Children by parent, in the order of slot and number, whichever of the two told of them.
    below: BTreeMap<&'a RunId, Vec<&'a RunId>>,
    above: BTreeMap<&'a RunId, &'a RunId>,
    roots: Vec<&'a RunId>,
    unknown: Folded,
}

impl<'a> Drawing<'a> {
    fn of(tree: &'a Tree) -> Self {
        let runs = &tree.runs;
        let mut below: BTreeMap<&RunId, BTreeSet<(&str, u32, &RunId)>> = BTreeMap::new();
        for (run, folded) in runs {
            for (child, known) in &folded.children {
                let place = (known.slot.as_str(), known.ordinal, child);
                below.entry(run).or_default().insert(place);
            }
            let place = match &folded.program {
                Some(Program::Agent { slot, ordinal, .. }) => Some((slot.as_str(), *ordinal, run)),
                Some(Program::Topology { .. }) | None => None,
            };
            if let (Some(parent), Some(place)) = (&folded.parent, place) {
                below.entry(parent).or_default().insert(place);
            }
        }
        let below: BTreeMap<&RunId, Vec<&RunId>> = below
            .into_iter()
            .map(|(parent, set)| (parent, set.into_iter().map(|(_, _, run)| run).collect()))
            .collect();
        let above: BTreeMap<&RunId, &RunId> = below
            .iter()
            .flat_map(|(parent, children)| children.iter().map(move |child| (*child, *parent)))
            .collect();
        let roots = runs
            .keys()
            .filter(|run| {
                above
                    .get(run)
                    .is_none_or(|parent| !runs.contains_key(*parent))
            })
            .collect();
        Self {
            runs,
            below,
            above,
            roots,
            unknown: Folded::default(),
        }
    }

    fn folded(&self, run: &RunId) -> &Folded {
        self.runs.get(run).unwrap_or(&self.unknown)
    }

    fn children(&self, run: &RunId) -> &[&'a RunId] {
        self.below.get(run).map_or(&[], Vec::as_slice)
    }

    /// The run and everything below it; what the subtree used.
    fn draw(&self, run: &RunId, path: &str, depth: u32, runs: &mut Vec<Run>) -> Spent {
        if depth > DEPTH_MAX {
            return Spent::default();
        }
        let at = runs.len();
        let shown = self.run(run, path, depth);
        let mut subtree = shown.own.clone();
        let path = shown.path.clone();
        runs.push(shown);
        for child in self.children(run) {
            let known = self.folded(run).children.get(*child);
            let place = known.map_or_else(
                || child.to_string(),
                |known| format!("{}[{}]", known.slot, known.ordinal),
            );
            let used = self.draw(child, &format!("{path}/{place}"), depth + 1, runs);
            subtree = subtree.plus(&used);
        }
        if let Some(shown) = runs.get_mut(at) {
            shown.subtree = subtree.clone();
        }
        subtree
    }

    fn run(&self, run: &RunId, path: &str, depth: u32) -> Run {
        let folded = self.folded(run);
        let parent = self.above.get(run).copied();
        let by_parent = parent.and_then(|parent| self.folded(parent).children.get(run));
        let standing = standing(folded, by_parent);
        let envelope = folded
            .envelope
            .as_ref()
            .or(by_parent.map(|child| &child.envelope));
        let account = if folded.envelope.is_some() {
            folded.account.clone()
        } else {
            Account::open(envelope.map(|e| e.budget().clone()).unwrap_or_default())
        };
        let (topology, agent, slot, ordinal) = place(folded, by_parent);
        Run {
            run: run.clone(),
            parent: parent.cloned(),
            depth,
            path: folded.path.clone().unwrap_or_else(|| path.to_owned()),
            slot,
            ordinal,
            topology,
            agent,
            objective: envelope
                .map(|envelope| envelope.objective().to_owned())
                .unwrap_or_default(),
            authority: envelope.map_or_else(Authority::default, |envelope| Authority {
                tools: envelope.permitted_tools().clone(),
                may_delegate: envelope.may_delegate().clone(),
                access: envelope.access(),
                withheld: parent.map_or_else(BTreeSet::new, |parent| {
                    let had = self.folded(parent).tools();
                    had.difference(envelope.permitted_tools())
                        .cloned()
                        .collect()
                }),
            }),
            left: account.left(),
            budget: account,
            own: folded.own.clone(),
            subtree: Spent::default(),
            deadline: envelope.map(|envelope| envelope.deadline()),
            state: standing.state,
            doing: standing.doing,
            waiting: standing.waiting,
            also: Vec::new(),
            refused: folded.refused.clone(),
            last: folded.last.clone(),
            epoch: folded.epoch,
            attempt: folded.claims + 1,
            in_doubt: folded.in_doubt(),
            ended: ended(folded, by_parent),
            nodes: folded.nodes.clone(),
        }
    }
}

type Place = (
    Option<String>,
    Option<coppice_messages::ids::AgentName>,
    Option<coppice_messages::ids::SlotName>,
    Option<u32>,
);

fn place(folded: &Folded, by_parent: Option<&Child>) -> Place {
    match (&folded.program, by_parent) {
        (Some(Program::Topology { name }), _) => (Some(name.clone()), None, None, None),
        (
            Some(Program::Agent {
                agent,
                slot,
                ordinal,
            }),
            _,
        ) => (
            None,
            Some(agent.clone()),
            Some(slot.clone()),
            Some(*ordinal),
        ),
        (None, Some(child)) => (
            None,
            Some(child.agent.clone()),
            Some(child.slot.clone()),
            Some(child.ordinal),
        ),
        (None, None) => (None, None, None, None),
    }
}

fn ended(folded: &Folded, by_parent: Option<&Child>) -> Option<Ended> {
    let mut ended = folded.ended.clone()?;
    ended.rejected = by_parent.and_then(|child| child.rejected.clone());
    Some(ended)
}
