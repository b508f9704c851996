//! The supervisor of the roots: starts them, starts them again when their actors die, and closes those that die too often.

use std::collections::BTreeSet;

use coppice_kernel::open;
use coppice_messages::{Payload, Timestamp, delegation, event::run::ClaimReason, ids::RunId};
use coppice_topology::node::Restart;

use super::actors::Starting;
use crate::sim::world::World;

/// What is known of a root that is driven.
#[derive(Default)]
pub(super) struct Root {
    crashes: Vec<Timestamp>,
    closing: Option<String>,
    again: bool,
}

impl World {
    pub(in crate::sim) fn start_root(&mut self, run: &RunId) {
        if self.host.actors.contains_key(run) || self.laws.has_ended(run) {
            return;
        }
        let Some(tree) = self.trees.get(run) else {
            return;
        };
        let about = delegation::Root {
            run: run.clone(),
            tenant: self.tenant.clone(),
            principal: "user:sim".to_owned(),
            objective: tree.plan.name.clone(),
            result_schema: tree.plan.result_schema.clone(),
            input_refs: BTreeSet::new(),
        };
        let input = Payload::Inline(tree.input.clone());
        let now = self.now();
        let opened = open::root(
            &tree.plan,
            about,
            input,
            std::collections::BTreeMap::new(),
            now,
        );
        let root = self.host.roots.entry(run.clone()).or_default();
        let why = if root.again {
            ClaimReason::Restart
        } else {
            ClaimReason::Start
        };
        let give_up = root.closing.clone();
        self.spawn(Starting {
            run: run.clone(),
            opened: Box::new(opened),
            parent: None,
            why,
            give_up,
            cancel: None,
            supervisor: None,
        });
    }

    /// A root's actor is gone: the log says whether its run had ended.
    pub(super) fn root_gone(&mut self, run: &RunId, why: &str) {
        if self.laws.has_ended(run) {
            return self.hand_over_doubts(run);
        }
        let now = self.now();
        let root = self.host.roots.entry(run.clone()).or_default();
        let rule = Restart::default();
        let since = now.minus(rule.within);
        root.crashes.retain(|at| *at > since);
        let recent = u32::try_from(root.crashes.len()).unwrap_or(u32::MAX);
        root.crashes.push(now);
        root.again = true;
        if recent >= rule.at_most {
            root.closing = Some(format!(
                "more than {} crashes, the last: {why}",
                rule.at_most
            ));
        }
        let backoff = (rule.backoff.0 << recent.min(16)).min(30_000);
        self.root_later(run, backoff);
    }
}
