//! The simulated model: reads, perhaps writes or delegates, then answers. Chance ends in its recorded proposals.

use coppice_kernel::{Turned, command::ModelOutcome};
use coppice_messages::{
    Millis, Payload, Spent, Value,
    delegation::{AuthorityScope, Request},
    event::model::{Asked, Proposal},
    ids::{AgentName, ToolName},
};
use coppice_topology::Plan;

use super::seed::Seed;

/// One answer of the model.
pub(super) fn answer(
    seed: &mut Seed,
    fails: u64,
    plan: &Plan,
    asked: &Asked,
    input: &Value,
    turns: &[Turned],
) -> ModelOutcome {
    let usage = Spent {
        tokens: seed.between(1, 100),
        ..Spent::step()
    };
    if seed.one_in(fails) {
        return ModelOutcome::Failed {
            class: "unavailable".to_owned(),
            message: "try later".to_owned(),
            usage,
        };
    }
    let invalid = seed.one_in(fails.saturating_mul(2));
    let answer_valid = if invalid {
        Err(("/summary".to_owned(), "it is not there".to_owned()))
    } else {
        Ok(())
    };
    ModelOutcome::Proposed {
        proposal: propose(seed, plan, asked, input, turns.len()),
        answer_valid,
        usage,
        latency: Millis(seed.between(1, 50)),
    }
}

fn propose(seed: &mut Seed, plan: &Plan, asked: &Asked, input: &Value, made: usize) -> Proposal {
    let agent = plan.agents.get(&asked.agent);
    let may = |tool: &str| {
        agent
            .and_then(|agent| agent.tools.iter().find(|known| known.as_str() == tool))
            .cloned()
    };
    let call = |tool: ToolName, arguments| Proposal::Call {
        tool,
        arguments: Payload::Inline(arguments),
    };
    if let Some((to, _)) = plan.agents.iter().find(|(name, _)| {
        asked.agent.as_str() == "overreacher" && **name != asked.agent && made < 3
    }) {
        return delegate(seed, to);
    }
    let id = Value::Text(format!("incident_{made}"));
    match (seed.below(6), made) {
        (_, 4..) => answered(asked, input),
        (0 | 1, _) => match may("close_ticket") {
            Some(tool) => call(tool, Value::map([("id", id)])),
            None => answered(asked, input),
        },
        (2, _) => match may("search_runbook") {
            Some(tool) => call(tool, Value::map([("text", Value::from("database"))])),
            None => answered(asked, input),
        },
        (3 | 4, _) | (_, 0) => match may("read_incident") {
            Some(tool) => call(tool, Value::map([("id", id)])),
            None => answered(asked, input),
        },
        _ => answered(asked, input),
    }
}

fn delegate(seed: &mut Seed, to: &AgentName) -> Proposal {
    let mut delegation = Request {
        objective: "Help with {item}".to_owned(),
        ..Request::default()
    };
    // Some ask for more than there is and are refused, some fit.
    delegation.budget.steps = Some(seed.pick(&[2, 4, 1_000_000]));
    delegation.budget.tokens = Some(2_000);
    delegation.authority_scope = AuthorityScope {
        access: coppice_messages::Access::ReadOnly,
        ..AuthorityScope::default()
    };
    let items = (0..seed.between(1, 2))
        .map(|at| Value::Text(format!("incident_{at}")))
        .collect();
    Proposal::Delegate {
        agent: to.clone(),
        items,
        delegation: Box::new(delegation),
    }
}

fn answered(asked: &Asked, input: &Value) -> Proposal {
    Proposal::Answer(Payload::Inline(Value::map([
        ("incident", input.clone()),
        ("summary", Value::Text(format!("by {}", asked.agent))),
        ("severity", Value::from("high")),
    ])))
}
