//! How a loop's state follows from its events, and what a claim makes of a call that was under way.

use std::sync::Arc;

use coppice_messages::{
    Event, Payload, Spent,
    event::{
        effect::{self, Lost, LostCall},
        model::{self, Asked, Proposal},
    },
    ids::NodeName,
};

use super::{AgentState, Phase, Turned, failure_shown};
use crate::{
    child::Group,
    duty::Duty,
    effect::Resolution,
    state::{Meta, State},
};

impl State {
    /// What a claim makes of model calls that were under way.
    pub(crate) fn claim_models(&self) -> impl Iterator<Item = Event> {
        self.agents.0.iter().filter_map(|(node, agent)| {
            let Phase::Asking(asked) = &agent.phase else {
                return None;
            };
            let what = LostCall::Model {
                node: node.clone(),
                call: asked.call,
            };
            Some(Event::Effect(effect::Event::Lost(Lost {
                what,
                charged: asked.reserved.clone(),
            })))
        })
    }

    pub(crate) fn evolve_lost_model(
        &mut self,
        node: &NodeName,
        charged: &Spent,
        touched: &mut Vec<Duty>,
    ) {
        if let Some((_, asked)) = self.agents.asking(node) {
            self.charge(&asked.reserved, charged);
        }
        if let Some(agent) = self.agents.0.get_mut(node) {
            agent.phase = Phase::Idle;
        }
        touched.push(Duty::Model(node.clone()));
    }

    fn charge(&mut self, reserved: &Spent, usage: &Spent) {
        self.account.calls = self.account.calls.less(reserved);
        self.account.used = self.account.used.plus(usage);
    }

    pub(crate) fn evolve_model(&mut self, event: &model::Event, _: Meta, touched: &mut Vec<Duty>) {
        match event {
            model::Event::Asked(asked) => self.evolve_asked(asked, touched),
            model::Event::Proposed(proposed) => {
                self.end_call(&proposed.node, &proposed.usage, touched);
                if let Some(agent) = self.agents.0.get_mut(&proposed.node) {
                    let proposal = proposed.proposal.clone();
                    match &proposal {
                        Proposal::Answer(answer) => agent.phase = Phase::Answered(answer.clone()),
                        Proposal::Say(_) => agent.next_call(),
                        Proposal::Call { .. } | Proposal::Delegate { .. } => {
                            agent.phase = Phase::Acting(None)
                        }
                    }
                    let turned = Turned {
                        call: proposed.call,
                        proposal: Some(proposal),
                        result: None,
                    };
                    Arc::make_mut(&mut agent.turns).push(turned);
                }
            }
            model::Event::Failed(failed) => {
                self.end_call(&failed.node, &failed.usage, touched);
                if let Some(agent) = self.agents.0.get_mut(&failed.node) {
                    let result = Some(failure_shown(&failed.class, &failed.message));
                    Arc::make_mut(&mut agent.turns).push(Turned {
                        call: failed.call,
                        proposal: None,
                        result,
                    });
                    agent.failures += 1;
                    agent.next_call();
                }
            }
            model::Event::Refused(refused) => {
                if let Some(agent) = self.agents.0.get_mut(&refused.node) {
                    let shown =
                        failure_shown("refused", &format!("{}: {}", refused.path, refused.why));
                    if let Some(last) = agent.last_turn() {
                        last.result = Some(shown);
                    }
                    agent.failures += 1;
                    agent.next_call();
                }
            }
        }
    }

    fn end_call(&mut self, node: &NodeName, usage: &Spent, touched: &mut Vec<Duty>) {
        if let Some((_, asked)) = self.agents.asking(node) {
            self.charge(&asked.reserved, usage);
        }
        touched.push(Duty::Model(node.clone()));
    }

    fn evolve_asked(&mut self, asked: &Asked, touched: &mut Vec<Duty>) {
        self.account.calls = self.account.calls.plus(&asked.reserved);
        let shown = self.result_to_show(&asked.node);
        let agent = self
            .agents
            .0
            .entry(asked.node.clone())
            .or_insert_with(|| AgentState {
                turns: Arc::default(),
                phase: Phase::Idle,
                call: 1,
                failures: 0,
            });
        if let Some((result, succeeded)) = shown {
            agent.failures = if succeeded { 0 } else { agent.failures + 1 };
            if let Some(last) = agent.last_turn() {
                last.result = Some(result);
            }
        }
        agent.call = asked.call;
        agent.phase = Phase::Asking(Arc::new(asked.clone()));
        touched.push(Duty::Model(asked.node.clone()));
    }

    /// The result of the action between two calls, and whether it was a success.
    fn result_to_show(&self, node: &NodeName) -> Option<(Payload, bool)> {
        match &self.agents.0.get(node)?.phase {
            Phase::Acting(Some(key)) => match self.resolution(self.effects.get(key)?) {
                Resolution::Pending => None,
                Resolution::Value(value) => Some((value, true)),
                Resolution::Failed { class, message } => {
                    Some((failure_shown(class, &message), false))
                }
            },
            Phase::Delegating(slot) => {
                let succeeded = self.children.group(slot).is_some_and(Group::has_success);
                Some((self.children.group_payload(slot), succeeded))
            }
            Phase::Idle | Phase::Asking(_) | Phase::Acting(None) | Phase::Answered(_) => None,
        }
    }
}
