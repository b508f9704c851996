//! What the children of a fan-out ask for, against the contract: the most that their parent can have.

use std::collections::BTreeSet;

use coppice_messages::{
    Contract, Dimension, Millis, budget::Spent, delegation::Request, ids::NodeName,
};

use super::listed;
use crate::{
    bundle::{Parts, item},
    load::Diagnostic,
    node::{FanOut, Join},
};

/// The children of one fan-out, against the contract: the most that their parent can have.
pub(super) struct Child<'a> {
    pub parts: &'a Parts,
    pub name: &'a NodeName,
    pub fan_out: &'a FanOut,
    pub request: &'a Request,
    pub join: &'a Join,
}

impl Child<'_> {
    fn contract(&self) -> &Contract {
        &self.parts.contract.value
    }

    fn at(&self, rest: &[&str], message: String) -> Diagnostic {
        let path = [&["nodes", self.name.as_str()], rest].concat();
        self.parts.topology.at_value(&path, message)
    }

    /// Adds what they ask for together to `all`.
    pub(super) fn check(&self, all: &mut Spent, faults: &mut Vec<Diagnostic>) {
        self.fixed_fields(faults);
        self.tools(faults);
        self.resources(faults);
        self.held(faults);
        self.clocks(faults);
        let width = u64::from(self.fan_out.width.unwrap_or(1));
        let each = self.request.spent(&Spent::default());
        let sum = (0..width.min(10_000)).fold(Spent::default(), |sum, _| sum.plus(&each));
        *all = all.plus(&sum);
        if let Err(over) = sum.fits(&granted(self.contract())) {
            let (dimension, asked) = (over.dimension, over.asked);
            let path = budget_path(dimension);
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let message = if width == 1 {
                format!("a child asks for {asked} {dimension}")
            } else {
                format!("{width} children ask for {asked} {dimension} together")
            };
            let help = format!(
                "the contract grants {} {dimension} to the whole tree",
                over.left
            );
            faults.push(self.at(&path, message).help(help));
        }
    }

    /// What the kernel fills in is not for a file to say.
    fn fixed_fields(&self, faults: &mut Vec<Diagnostic>) {
        let request = self.request;
        let given = [
            ("parent_run_id", request.parent_run_id.is_some()),
            ("child_run_id", request.child_run_id.is_some()),
            ("return_owner", request.return_owner.is_some()),
        ];
        for (key, _) in given.into_iter().filter(|(_, given)| *given) {
            let path = ["nodes", self.name.as_str(), "delegation", key];
            let message = format!("{key} follows from the run and cannot be known here");
            faults.push(
                self.parts
                    .topology
                    .at_key(&path, message)
                    .help("leave it out"),
            );
        }
        let agent = self.parts.topology.value.agents.get(&self.fan_out.agent);
        if let (Some(asked), Some(agent)) = (&request.result_schema, agent)
            && *asked != agent.result_schema
        {
            let message = format!("{} answers in {}", self.fan_out.agent, agent.result_schema);
            let fault = self.at(&["delegation", "result_schema"], message);
            faults.push(fault.help("leave result_schema out here"));
        }
    }

    fn tools(&self, faults: &mut Vec<Diagnostic>) {
        let authority = &self.contract().authority;
        let access = self.request.authority_scope.access;
        if access > authority.access {
            let message = format!("a child asks for the access {access}");
            let fault = self.at(&["delegation", "authority_scope", "access"], message);
            faults.push(fault.help(format!("the contract grants {}", authority.access)));
        }
        let passable: BTreeSet<_> = authority.tools.union(&authority.may_delegate).collect();
        let agent = self.parts.topology.value.agents.get(&self.fan_out.agent);
        let (tools, list) = match (&self.request.permitted_tools, agent) {
            (Some(tools), _) => (
                tools,
                vec!["nodes", self.name.as_str(), "delegation", "permitted_tools"],
            ),
            (None, Some(agent)) => (
                &agent.tools,
                vec!["agents", self.fan_out.agent.as_str(), "tools"],
            ),
            (None, None) => return,
        };
        for tool in tools {
            let mut fault = item(&self.parts.topology, &list, tool.as_str());
            if !passable.contains(tool) {
                fault.message = format!(
                    "the contract {} has no {tool} to give to a child",
                    self.contract().contract
                );
                faults.push(fault.help(format!("it has {}", listed(&passable))));
                continue;
            }
            let Some((_, loaded)) = self.parts.tools.get(tool) else {
                continue;
            };
            let needed = loaded.value.operation.access();
            if needed > access {
                let message = format!("{tool} needs the access {needed}, the child has {access}");
                let path = ["delegation", "authority_scope", "access"];
                let help =
                    format!("write authority_scope: {{ access: {needed} }}, or leave {tool} out");
                faults.push(self.at(&path, message).help(help));
            }
        }
        for tool in self
            .request
            .may_delegate
            .difference(&authority.may_delegate)
        {
            let list = ["nodes", self.name.as_str(), "delegation", "may_delegate"];
            let mut fault = item(&self.parts.topology, &list, tool.as_str());
            fault.message = format!("the root cannot let {tool} be passed on");
            let help = format!(
                "the contract's may_delegate has {}",
                listed(&authority.may_delegate)
            );
            faults.push(fault.help(help));
        }
    }

    fn resources(&self, faults: &mut Vec<Diagnostic>) {
        let allowed = &self.contract().authority.resources.allow;
        let list = ["nodes", self.name.as_str(), "delegation", "resources"];
        for asked in &self.request.resources {
            if !allowed.iter().any(|had| had.covers(asked)) {
                let mut fault = item(&self.parts.topology, &list, &asked.to_string());
                fault.message = format!("the contract does not allow the resource {asked}");
                faults.push(fault.help(format!("it allows {}", listed(allowed))));
            }
        }
    }

    fn held(&self, faults: &mut Vec<Diagnostic>) {
        let (request, granted) = (self.request, &self.contract().budget);
        let limits = [
            (
                &["fan_out", "width"][..],
                u64::from(self.fan_out.width.unwrap_or(0)),
                u64::from(granted.children),
            ),
            (
                &["delegation", "budget", "concurrency"],
                request.budget.concurrency.unwrap_or(0),
                granted.concurrency,
            ),
            (
                &["delegation", "budget", "storage"],
                request.budget.storage.unwrap_or_default().0,
                granted.storage.0,
            ),
            (
                &["delegation", "depth_left"],
                u64::from(request.depth_left),
                u64::from(granted.depth.saturating_sub(1)),
            ),
            (
                &["delegation", "children_left"],
                u64::from(request.children_left),
                u64::from(granted.children),
            ),
            (
                &["delegation", "spawn_per_minute"],
                u64::from(request.spawn_per_minute.unwrap_or(0)),
                u64::from(granted.spawn_per_minute),
            ),
        ];
        for (path, asked, most) in limits {
            let key = path.last().copied().unwrap_or_default();
            if asked > most {
                let fault = self.at(
                    path,
                    format!("{key}: {asked} is more than the contract allows"),
                );
                faults.push(fault.help(format!("at most {most}")));
            }
        }
        if granted.depth == 0 {
            let fault = self.at(
                &["fan_out"],
                "the contract allows no level below the root".to_owned(),
            );
            faults.push(fault.help("raise budget.depth of the contract"));
        }
    }

    fn clocks(&self, faults: &mut Vec<Diagnostic>) {
        let budget = &self.contract().budget;
        let whole = budget.wall_clock.min(self.contract().authority.valid_for);
        let most = Millis(whole.0.saturating_sub(budget.join_reserve.0));
        let clocks = [
            (
                &["delegation", "budget", "wall_clock"][..],
                self.request.budget.wall_clock,
            ),
            (&["join", "deadline"], self.join.deadline),
        ];
        for (path, span) in clocks {
            let Some(span) = span.filter(|span| *span > most) else {
                continue;
            };
            let fault = self.at(path, format!("{span} is longer than a child can have"));
            faults.push(fault.help(format!(
                "at most {most}: the run's time of {whole} less its join_reserve of {}",
                budget.join_reserve
            )));
        }
    }
}

pub(super) fn granted(contract: &Contract) -> Spent {
    Spent {
        steps: contract.budget.steps,
        tokens: contract.budget.tokens,
        cost: contract.budget.cost.0,
        network: contract.budget.network.0,
        operations: contract.allowed_operations.clone(),
    }
}

fn budget_path(dimension: Dimension) -> Vec<String> {
    let steps: &[&str] = match dimension {
        Dimension::Steps => &["budget", "steps"],
        Dimension::Tokens => &["budget", "tokens"],
        Dimension::Cost => &["budget", "cost"],
        Dimension::Network => &["budget", "network"],
        Dimension::Operation(operation) => {
            return vec![
                "delegation".to_owned(),
                "operations".to_owned(),
                operation.to_string(),
            ];
        }
    };
    ["delegation"]
        .iter()
        .chain(steps)
        .map(|&step| step.to_owned())
        .collect()
}
