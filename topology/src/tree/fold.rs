//! One run, folded from its own commits and from what its parent's say about it.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::{
    Account, Delegation, Event, Spent, Timestamp,
    event::{
        child, effect,
        effect::{Intended, LostCall},
        model, node,
        node::Outcome,
        run::{self, Program},
        timer,
    },
    ids::{AgentName, EffectKey, NodeName, RunId, SlotName, ToolName},
};

use super::{
    fact::ended_words,
    frame::{Doubt, Ended, Last, NodeState, Refused},
};

/// Refusals that are kept of one run.
const REFUSED_MAX: usize = 20;

/// What is known of one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Folded {
    pub parent: Option<RunId>,
    pub path: Option<String>,
    pub program: Option<Program>,
    pub envelope: Option<Delegation>,
    pub account: Account,
    pub own: Spent,
    pub epoch: u64,
    pub claims: u64,
    pub events: u64,
    pub models: BTreeMap<NodeName, Asking>,
    pub effects: BTreeMap<EffectKey, Effect>,
    pub children: BTreeMap<RunId, Child>,
    pub timers: BTreeMap<NodeName, Timestamp>,
    pub nodes: BTreeMap<NodeName, NodeState>,
    /// When each node was started last.
    pub began: BTreeMap<NodeName, Timestamp>,
    pub refused: Vec<Refused>,
    pub last: Option<Last>,
    pub ended: Option<Ended>,
}

/// A model call under way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asking {
    pub route: String,
    pub call: u32,
    pub reserved: Spent,
}

/// An effect that is not over.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Effect {
    pub tool: ToolName,
    pub reserved: Spent,
    pub status: Status,
}

/// Where an effect stands that is not over.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Status {
    /// On its way.
    Open,
    /// To be tried again.
    Again(String),
    /// Nobody knows.
    Unknown(String),
    /// Only a person can find out.
    Escalated(String),
}

/// A child, as its parent records it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Child {
    pub slot: SlotName,
    pub ordinal: u32,
    pub agent: AgentName,
    pub envelope: Delegation,
    pub settled: bool,
    /// Since when its actor is dead, and when it may be started again.
    pub crashed: Option<(String, Option<Timestamp>)>,
    pub given_up: Option<String>,
    pub rejected: Option<String>,
}

impl Folded {
    pub(super) fn apply(&mut self, event: &Event, last: Last) {
        self.events += 1;
        if let Event::Node(node::Event::Started(started)) = event {
            self.began.insert(started.node.clone(), last.at);
        }
        self.last = Some(last);
        match event {
            Event::Run(event) => self.run(event),
            Event::Node(event) => self.node(event),
            Event::Child(event) => self.child(event),
            Event::Model(event) => self.model(event),
            Event::Effect(event) => self.effect(event),
            Event::Timer(timer::Event::Set(set)) => {
                self.timers.insert(set.node.clone(), set.due);
            }
            Event::Timer(timer::Event::Due(due)) => {
                self.timers.remove(&due.node);
            }
            Event::Join(_)
            | Event::Policy(_)
            | Event::Check(_)
            | Event::Budget(_)
            | Event::Progress(_)
            | Event::Callback(_)
            | Event::System(_)
            | Event::Unrecognised { .. } => {}
        }
    }

    fn run(&mut self, event: &run::Event) {
        match event {
            run::Event::Opened(opened) => {
                self.parent = opened.envelope.parent().cloned();
                self.path = Some(opened.path.clone());
                self.program = Some(opened.program.clone());
                self.account = Account::open(opened.envelope.budget().clone());
                self.envelope = Some(opened.envelope.clone());
            }
            run::Event::Claimed(_) => self.claims += 1,
            run::Event::CancelRequested(_) | run::Event::CancelSettled(_) => {}
            run::Event::Late(late) => {
                self.effects.remove(&late.key);
            }
            run::Event::Ended(ended) => {
                self.ended = Some(Ended {
                    reason: ended.reason,
                    class: ended.class.clone(),
                    message: ended.message.clone(),
                    rejected: None,
                });
                self.models.clear();
                self.effects.retain(|key, _| ended.in_doubt.contains(key));
                if let Some(last) = &mut self.last {
                    last.fact = ended_words(ended);
                }
            }
        }
    }

    fn node(&mut self, event: &node::Event) {
        let (name, state) = match event {
            node::Event::Started(started) => (&started.node, NodeState::Started),
            node::Event::Ended(ended) => match ended.outcome {
                Outcome::Done => (&ended.node, NodeState::Done),
                Outcome::Skipped => (&ended.node, NodeState::Skipped),
                // The nodes of the round wait again; each says so itself when it starts.
                Outcome::Repeated => (&ended.node, NodeState::Started),
                Outcome::Failed { .. } => (&ended.node, NodeState::Failed),
            },
        };
        self.nodes.insert(name.clone(), state);
    }

    fn child(&mut self, event: &child::Event) {
        match event {
            child::Event::Delegated(delegated) => {
                let grant = delegated.envelope.budget();
                self.account.children = self.account.children.plus(grant);
                let child = Child {
                    slot: delegated.slot.clone(),
                    ordinal: delegated.ordinal,
                    agent: delegated.agent.clone(),
                    envelope: delegated.envelope.clone(),
                    settled: false,
                    crashed: None,
                    given_up: None,
                    rejected: None,
                };
                self.children
                    .insert(delegated.envelope.run().clone(), child);
            }
            child::Event::Crashed(crashed) => self.of(&crashed.child, |child| {
                child.crashed = Some((crashed.why.clone(), crashed.restart_at));
            }),
            child::Event::Restarted(restarted) => {
                self.of(&restarted.child, |child| child.crashed = None);
            }
            child::Event::GivenUp(given_up) => self.of(&given_up.child, |child| {
                child.given_up = Some(given_up.why.clone());
            }),
            child::Event::Returned(returned) => self.of(&returned.child, |child| {
                child.crashed = None;
                child.given_up = None;
            }),
            child::Event::Rejected(rejected) => self.of(&rejected.child, |child| {
                child.rejected = Some(format!("{}: {}", rejected.schema, rejected.why));
            }),
            child::Event::Settled(settled) => {
                let mut grant = Spent::default();
                self.of(&settled.child, |child| {
                    child.settled = true;
                    grant = child.envelope.budget().clone();
                });
                self.account.children = self.account.children.less(&grant);
                self.account.used = self.account.used.plus(&settled.charged);
            }
        }
    }

    fn of(&mut self, child: &RunId, change: impl FnOnce(&mut Child)) {
        if let Some(child) = self.children.get_mut(child) {
            change(child);
        }
    }

    fn model(&mut self, event: &model::Event) {
        match event {
            model::Event::Asked(asked) => {
                self.account.calls = self.account.calls.plus(&asked.reserved);
                let asking = Asking {
                    route: asked.route.clone(),
                    call: asked.call,
                    reserved: asked.reserved.clone(),
                };
                self.models.insert(asked.node.clone(), asking);
            }
            model::Event::Proposed(proposed) => self.answered(&proposed.node, &proposed.usage),
            model::Event::Failed(failed) => self.answered(&failed.node, &failed.usage),
            model::Event::Refused(refused) => {
                if self.refused.len() == REFUSED_MAX {
                    self.refused.remove(0);
                }
                self.refused.push(Refused {
                    path: refused.path.clone(),
                    why: refused.why.clone(),
                });
            }
        }
    }

    fn answered(&mut self, node: &NodeName, usage: &Spent) {
        if let Some(asking) = self.models.remove(node) {
            self.charge(&asking.reserved, usage);
        }
    }

    fn charge(&mut self, reserved: &Spent, usage: &Spent) {
        self.account.calls = self.account.calls.less(reserved);
        self.account.used = self.account.used.plus(usage);
        self.own = self.own.plus(usage);
    }

    fn effect(&mut self, event: &effect::Event) {
        let nothing = Spent::default();
        match event {
            effect::Event::Intended(intended) => self.intended(intended),
            effect::Event::Landed(landed) => self.over(&landed.key, &landed.usage),
            effect::Event::Declined(declined) => self.over(&declined.key, &declined.usage),
            effect::Event::Reconciled(reconciled) => self.over(&reconciled.key, &reconciled.usage),
            effect::Event::Withdrawn(withdrawn) => self.over(&withdrawn.key, &nothing),
            effect::Event::NotSent(not_sent) => self.again(&not_sent.key, &nothing, &not_sent.why),
            effect::Event::Retryable(retryable) => {
                self.again(&retryable.key, &retryable.usage, &retryable.code);
            }
            effect::Event::Lost(lost) => match &lost.what {
                LostCall::Read { key, .. } => {
                    self.again(key, &lost.charged, "its answer was lost");
                }
                LostCall::Model { node, .. } => self.answered(node, &lost.charged),
            },
            effect::Event::Unknown(unknown) => {
                self.now(&unknown.key, Status::Unknown(unknown.why.clone()));
            }
            effect::Event::Escalated(escalated) => {
                self.now(&escalated.key, Status::Escalated(escalated.why.clone()));
            }
            effect::Event::Conflicted(_) | effect::Event::Contradicted(_) => {}
        }
    }

    fn intended(&mut self, intended: &Intended) {
        self.account.calls = self.account.calls.plus(&intended.reserved);
        let effect = Effect {
            tool: intended.tool.clone(),
            reserved: intended.reserved.clone(),
            status: Status::Open,
        };
        self.effects.insert(intended.key, effect);
    }

    fn over(&mut self, key: &EffectKey, usage: &Spent) {
        if let Some(effect) = self.effects.remove(key) {
            self.charge(&effect.reserved, usage);
        }
    }

    /// The reservation is freed; the next attempt makes its own.
    fn again(&mut self, key: &EffectKey, usage: &Spent, why: &str) {
        if let Some(effect) = self.effects.get_mut(key) {
            let reserved = std::mem::take(&mut effect.reserved);
            effect.status = Status::Again(why.to_owned());
            self.charge(&reserved, usage);
        }
    }

    fn now(&mut self, key: &EffectKey, status: Status) {
        if let Some(effect) = self.effects.get_mut(key) {
            effect.status = status;
        }
    }

    /// Effects of which nobody knows whether they happened.
    pub(super) fn in_doubt(&self) -> Vec<Doubt> {
        let doubt = |(key, effect): (&EffectKey, &Effect)| {
            let (why, for_a_person) = match &effect.status {
                Status::Unknown(why) => (why, false),
                Status::Escalated(why) => (why, true),
                Status::Open | Status::Again(_) => return None,
            };
            Some(Doubt {
                key: *key,
                tool: effect.tool.clone(),
                why: why.clone(),
                for_a_person,
            })
        };
        self.effects.iter().filter_map(doubt).collect()
    }

    pub(super) fn tools(&self) -> BTreeSet<ToolName> {
        self.envelope
            .as_ref()
            .map(|envelope| envelope.permitted_tools().clone())
            .unwrap_or_default()
    }
}
