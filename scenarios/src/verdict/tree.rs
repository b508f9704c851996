//! What became of the runs, joins and cancels of a tree, and the laws that every cancelled tree keeps, whatever its scenario expects.

use std::collections::{BTreeMap, BTreeSet};

use coppice_actors::api::glob;
use coppice_messages::{
    Event,
    event::{
        child, effect, join, model,
        run::{self, CancelSettled, Reason},
    },
    ids::{EffectKey, NodeName, RunId},
    scope::Operation,
};

use super::{Check, Evidence, checks::counted, seen::Seen};
use crate::scenario::Count;

/// What the log says, each thing with the number of its commit in the tree.
#[derive(Default)]
pub(super) struct Tree {
    runs: BTreeMap<RunId, Run>,
    /// By the path of its run and its slot: the outcomes, each time that it was decided.
    joins: BTreeMap<String, Vec<Vec<String>>>,
    /// The slots of joins by the nodes that opened them.
    slots: BTreeMap<(RunId, NodeName), String>,
    /// Writes, by whom and when intended.
    intents: BTreeMap<EffectKey, (RunId, u64)>,
    landed: BTreeMap<EffectKey, u64>,
    /// How many proposals were refused at each place.
    refused: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Run {
    path: String,
    parent: Option<RunId>,
    ended: Option<(Reason, u64)>,
    /// When its cancel was recorded, and whether it began here.
    cancelled: Option<(u64, bool)>,
    receipt: Option<CancelSettled>,
}

impl Tree {
    /// Takes in an event of the tree's commit number `at`.
    pub fn take(&mut self, at: u64, run: &RunId, event: &Event) {
        match event {
            Event::Run(event) => self.run(at, run, event),
            Event::Child(child::Event::Delegated(delegated)) => {
                let child = self.runs.entry(delegated.envelope.run().clone());
                child.or_default().parent = Some(run.clone());
            }
            Event::Join(join::Event::Opened(opened)) => {
                let slot = (run.clone(), opened.node.clone());
                self.slots.insert(slot, opened.slot.to_string());
            }
            Event::Join(join::Event::Decided(decided)) => {
                let slot = self.slots.get(&(run.clone(), decided.node.clone()));
                let path = self.runs.get(run).map(|run| run.path.as_str());
                let name = format!(
                    "{}/{}",
                    path.unwrap_or_default(),
                    slot.map_or("", String::as_str)
                );
                let outcomes = decided.outcomes.iter().map(ToString::to_string).collect();
                self.joins.entry(name).or_default().push(outcomes);
            }
            Event::Model(model::Event::Refused(refused)) => {
                *self.refused.entry(refused.path.clone()).or_default() += 1;
            }
            Event::Effect(effect::Event::Intended(intended))
                if intended.operation != Operation::Read =>
            {
                let first = (run.clone(), at);
                self.intents.entry(intended.key).or_insert(first);
            }
            Event::Effect(effect::Event::Landed(landed)) => {
                self.landed.insert(landed.key, at);
            }
            _ => {}
        }
    }

    fn run(&mut self, at: u64, id: &RunId, event: &run::Event) {
        let run = self.runs.entry(id.clone()).or_default();
        match event {
            run::Event::Opened(opened) => run.path.clone_from(&opened.path),
            run::Event::Ended(ended) => run.ended = Some((ended.reason, at)),
            run::Event::CancelRequested(requested) => {
                run.cancelled = Some((at, requested.from.is_none()));
            }
            run::Event::CancelSettled(receipt) => run.receipt = Some(receipt.clone()),
            run::Event::Claimed(_) | run::Event::Late(_) => {}
        }
    }

    /// Runs that were opened, below one.
    fn below<'a>(&'a self, root: &'a Run) -> impl Iterator<Item = (&'a RunId, &'a Run)> {
        let prefix = format!("{}/", root.path);
        let is_below = move |run: &Run| run.path.starts_with(&prefix);
        self.runs.iter().filter(move |(_, run)| is_below(run))
    }
}

/// What the scenario expects of runs, joins and refusals, and what holds for every cancel.
pub(super) fn check(evidence: &Evidence<'_>, seen: &Seen, checks: &mut Vec<Check>) {
    let expect = &evidence.scenario.document.expect;
    let tree = &seen.tree;
    for (pattern, reason) in &expect.ends {
        checks.push(ends(tree, pattern, *reason));
    }
    for (join, outcomes) in &expect.joins {
        let decided = tree.joins.get(join).map_or(&[][..], Vec::as_slice);
        let each = decided.iter().map(|outcomes| outcomes.join(", "));
        let all: Vec<_> = each.collect();
        checks.push(Check {
            name: format!("joins.{join}"),
            expected: outcomes.join(", "),
            held: decided == [outcomes.clone()],
            seen: if all.is_empty() {
                "never decided".to_owned()
            } else {
                all.join("; again: ")
            },
        });
    }
    for (place, count) in &expect.refused {
        let refused = tree.refused.get(place).copied().unwrap_or(0);
        checks.push(counted(&format!("refused.{place}"), *count, refused));
    }
    for root in tree.runs.values() {
        if let Some((at, true)) = root.cancelled {
            cancelled(evidence, tree, root, at, checks);
        }
    }
}

fn ends(tree: &Tree, pattern: &str, reason: Reason) -> Check {
    let meant = tree.runs.values().filter(|run| glob(pattern, &run.path));
    let ends: BTreeSet<String> = meant
        .map(|run| {
            run.ended
                .map_or("open".to_owned(), |(reason, _)| reason.to_string())
        })
        .collect();
    Check {
        name: format!("ends.{pattern}"),
        expected: reason.to_string(),
        held: ends.len() == 1 && ends.contains(&reason.to_string()),
        seen: if ends.is_empty() {
            "no such run".to_owned()
        } else {
            ends.into_iter().collect::<Vec<_>>().join(", ")
        },
    }
}

/// What holds for a cancel that began at `root`, in the commit `at`.
fn cancelled(evidence: &Evidence<'_>, tree: &Tree, root: &Run, at: u64, checks: &mut Vec<Check>) {
    let none = Count::exactly(0);
    let below: BTreeMap<&RunId, &Run> = tree.below(root).collect();
    let open = below.values().filter(|run| run.ended.is_none()).count();
    checks.push(counted("cancel.open", none, open as u64));
    let later = |run: &Run| {
        let parent = run.parent.as_ref().and_then(|parent| tree.runs.get(parent));
        let ends = parent.and_then(|parent| parent.ended).zip(run.ended);
        ends.is_some_and(|((_, parent), (_, child))| parent < child)
    };
    let later = below.values().filter(|run| later(run)).count();
    checks.push(counted("cancel.ended_after_parent", none, later as u64));
    let asked = |key: &EffectKey| {
        let key = key.to_string();
        let rows = evidence.witness.requests.iter();
        rows.filter(move |row| row.key == key && row.route.writes())
    };
    let within = |run: &RunId| {
        below.contains_key(run) || tree.runs.get(run).is_some_and(|run| run.path == root.path)
    };
    let intents = || tree.intents.iter().filter(|(_, (run, _))| within(run));
    let sent =
        intents().filter(|(key, (_, intended))| *intended > at && asked(key).next().is_some());
    checks.push(counted("cancel.sent_after", none, sent.count() as u64));
    // What the desk did of all that was not known to have landed when the cancel came.
    let done = intents().filter(|(key, _)| {
        let known = tree.landed.get(key).is_some_and(|landed| *landed <= at);
        !known && asked(key).any(|row| row.committed > 0)
    });
    checks.push(receipt(
        root.receipt.as_ref(),
        below.len() as u64,
        done.count() as u64,
    ));
}

/// The receipt names every descendant, and its effects are those that the desk did.
fn receipt(receipt: Option<&CancelSettled>, descendants: u64, done: u64) -> Check {
    let name = "cancel.receipt".to_owned();
    let expected = format!("{descendants} descendants, {done} effects at the desk");
    let Some(receipt) = receipt else {
        return Check {
            name,
            expected,
            seen: "none".to_owned(),
            held: false,
        };
    };
    let fates = [
        receipt.acknowledged,
        receipt.killed,
        receipt.unreachable,
        receipt.ended_before,
    ];
    let named: u64 = fates.iter().map(|count| u64::from(*count)).sum();
    let (landed, in_doubt) = (
        u64::from(receipt.effects_landed),
        u64::from(receipt.effects_in_doubt),
    );
    Check {
        name,
        expected,
        seen: format!("{named} descendants, {landed} effects landed and {in_doubt} in doubt"),
        held: named == descendants && (landed..=landed + in_doubt).contains(&done),
    }
}
