//! Every address that recorded runs offer: for each run and kind of event, how often it came.

use std::collections::BTreeMap;

use coppice_messages::{
    Commit, Event,
    event::{effect, run},
    ids::{EffectKey, RunId, ToolName, TreeId},
};
use serde::Serialize;

use super::strike::concerns;

/// A kind of event at one place of a tree. `PATH@KIND#n` addresses its nth.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Offer {
    /// The place.
    pub path: String,
    /// The kind.
    pub event: String,
    /// Of an effect: its tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// How often it came.
    pub count: u32,
}

/// What a tree's commits, in the order of the log, offer.
pub fn offers<'a>(tree: &TreeId, commits: impl IntoIterator<Item = &'a Commit>) -> Vec<Offer> {
    let mut paths: BTreeMap<RunId, String> = BTreeMap::new();
    let mut tools: BTreeMap<EffectKey, ToolName> = BTreeMap::new();
    let mut counts: BTreeMap<(String, String, Option<ToolName>), u32> = BTreeMap::new();
    for commit in commits {
        if commit.tree != *tree {
            continue;
        }
        for entry in &commit.events {
            if let Event::Run(run::Event::Opened(opened)) = &entry.event {
                paths.insert(commit.run.clone(), opened.path.clone());
            }
            if let Event::Effect(effect::Event::Intended(intended)) = &entry.event {
                tools.insert(intended.key, intended.tool.clone());
            }
            let tool = concerns(&entry.event).and_then(|key| tools.get(&key).cloned());
            let path = paths.get(&commit.run).cloned().unwrap_or_default();
            let at = (path, entry.event.kind().to_owned(), tool);
            *counts.entry(at).or_default() += 1;
        }
    }
    let offer = |((path, event, tool), count)| Offer {
        path,
        event,
        tool,
        count,
    };
    counts.into_iter().map(offer).collect()
}
