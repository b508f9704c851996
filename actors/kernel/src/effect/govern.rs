//! What people and policies say about an intent: who asks, what is asked, and what an answer makes of it.

use std::collections::BTreeSet;

use coppice_messages::{
    Event,
    contract::HumanControl,
    event::{
        effect::{self, Intended, Withdrawn},
        policy::{self, Decided, Decision},
        run::Program,
    },
    ids::NodeName,
};
use coppice_topology::{expr::Source, node::Kind, plan::PinnedTool};

use super::{NotIntended, Status};
use crate::{
    duty::Duty,
    governor::{Judged, Question, Subject, Taint},
    state::{State, Turn},
};

/// An intent that the policy set does not let happen, or not without people.
pub(crate) struct Denied {
    /// The record of it.
    pub decided: Box<Decided>,
    pub class: &'static str,
    pub message: String,
}

impl State {
    /// What the contract says of people before this operation.
    pub(super) fn controlled(&self, tool: &PinnedTool) -> Result<(), NotIntended> {
        let operation = tool.contract.operation;
        let message = match self.plan.contract.human_control.get(&operation) {
            None | Some(HumanControl::None) => return Ok(()),
            Some(HumanControl::Forbidden) => {
                format!("the contract forbids {operation}, whoever approves")
            }
            Some(HumanControl::Preview | HumanControl::Approve | HumanControl::TwoPerson) => {
                format!(
                    "the contract wants people to be asked before {operation}, and nobody can be"
                )
            }
        };
        Err(NotIntended::Refused {
            class: "refused_tool",
            message,
        })
    }

    /// The intent; behind the decision of the policy set, where there is one.
    pub(super) fn governed(
        &self,
        mut intended: Intended,
        turn: &Turn<'_>,
    ) -> Result<Vec<Event>, Denied> {
        let (Some(governor), Some(tool), Some(subject)) = (
            turn.governor(),
            self.tool(&intended.tool),
            self.subject(&intended.node),
        ) else {
            return Ok(vec![Event::Effect(effect::Event::Intended(Box::new(
                intended,
            )))]);
        };
        let judged = governor.judge(&Question::about(&subject, tool, &intended));
        let decided = Box::new(decided(&intended, judged));
        match &decided.decision {
            Decision::Allow => {
                intended.policy = Some(decided.policy);
                let intended = Event::Effect(effect::Event::Intended(Box::new(intended)));
                Ok(vec![recorded(decided), intended])
            }
            Decision::Deny => Err(Denied {
                class: "policy_denied",
                message: decided.sentence(),
                decided,
            }),
            Decision::Approve { .. } => Err(Denied {
                class: "refused_tool",
                message: format!("{}, and nobody can be asked", decided.sentence()),
                decided,
            }),
        }
    }

    /// Who wants what a node wants, with what is left and where its arguments come from.
    #[must_use]
    pub fn subject(&self, node: &NodeName) -> Option<Subject> {
        let opened = self.opened()?;
        let agent = match (self.kind(node), &opened.program) {
            (Some(Kind::Agent(body)), _) => Some(body.agent.clone()),
            (_, Program::Agent { agent, .. }) => Some(agent.clone()),
            (_, Program::Topology { .. }) => None,
        };
        let depth = opened.path.matches('/').count();
        Some(Subject {
            principal: opened.envelope.principal().to_owned(),
            tenant: self.tenant.clone(),
            tree: self.tree.clone(),
            run: self.run.clone(),
            depth: u32::try_from(depth).unwrap_or(u32::MAX),
            agent,
            access: opened.envelope.access(),
            left: self.account.left(),
            taint: self.taint(node, opened.envelope.parent().is_some()),
        })
    }

    fn taint(&self, node: &NodeName, is_child: bool) -> BTreeSet<Taint> {
        let call = match self.kind(node) {
            Some(Kind::Call(call)) => call,
            Some(_) | None => return [Taint::Model].into(),
        };
        let mut taint = BTreeSet::new();
        for reference in call.arguments.references() {
            match &reference.from {
                Source::Input | Source::Item if is_child => {
                    taint.insert(Taint::Parent);
                }
                Source::Node(from) => self.taint_of_value(from, &mut taint),
                Source::Input
                | Source::Item
                | Source::Arguments
                | Source::Receipt
                | Source::Body
                | Source::Check => {}
            }
        }
        taint
    }

    /// What a node's value may hold. A join of branches stands before what it joins, so this ends.
    fn taint_of_value(&self, node: &NodeName, taint: &mut BTreeSet<Taint>) {
        match self.kind(node) {
            Some(Kind::Call(_)) => {
                taint.insert(Taint::Tool);
            }
            Some(Kind::Agent(_) | Kind::FanOut(..)) => {
                taint.insert(Taint::Model);
            }
            Some(Kind::Wait(_)) => {
                taint.insert(Taint::Outside);
            }
            Some(Kind::Join(join)) => {
                for of in &join.of {
                    self.taint_of_value(of, taint);
                }
            }
            Some(Kind::Branch(_) | Kind::Loop(_) | Kind::End(_)) | None => {}
        }
    }

    /// A denial of what is not under way ends it: it is never tried again.
    pub(crate) fn evolve_policy(&mut self, event: &policy::Event, touched: &mut Vec<Duty>) {
        let policy::Event::Decided(decided) = event;
        if decided.decision == Decision::Allow {
            return;
        }
        if let Some(effect) = self.effects.0.get_mut(&decided.key)
            && matches!(
                effect.status,
                Status::Again { .. } | Status::Withdrawn { .. }
            )
        {
            effect.status = Status::Denied {
                why: decided.sentence(),
            };
            touched.push(Duty::Effect(decided.key));
        }
    }
}

/// The record of an answer.
fn decided(intended: &Intended, judged: Judged) -> Decided {
    let Judged {
        decision,
        policy,
        policies,
        reason,
    } = judged;
    Decided {
        node: intended.node.clone(),
        call: intended.call,
        key: intended.key,
        attempt: intended.attempt,
        tool: intended.tool.clone(),
        action: intended.action,
        decision,
        policy,
        policies,
        reason,
    }
}

/// What a denial at the moment of use leads to: the intent is withdrawn, naming the policies, and the decision recorded.
pub(super) fn withdrawn_by_policy(intended: &Intended, judged: Judged) -> Vec<Event> {
    let decided = Box::new(decided(intended, judged));
    let withdrawn = effect::Event::Withdrawn(Withdrawn {
        key: intended.key,
        attempt: intended.attempt,
        why: decided.sentence(),
    });
    vec![Event::Effect(withdrawn), recorded(decided)]
}

pub(crate) fn recorded(decided: Box<Decided>) -> Event {
    Event::Policy(policy::Event::Decided(decided))
}
