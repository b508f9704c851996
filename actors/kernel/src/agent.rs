//! The loop of an agent node: ask, take the proposal as data, check it, act, ask again (`spec/run.md` 2).

mod evolve;
mod stall;

use std::{collections::BTreeMap, sync::Arc};

use coppice_messages::{
    Digest, Event, Payload, Spent, Value,
    digest::LengthPrefixed,
    event::{
        check, effect, join, model,
        model::{Asked, Failed, Proposal, Proposed, Refused},
    },
    ids::{AgentName, EffectKey, NodeName, SlotName, ToolName},
};
use coppice_topology::node::{AgentLoop, Kind};
use serde::{Deserialize, Serialize};

use crate::{
    child::Group,
    command::{CheckId, ModelOutcome, Refusal},
    effect::{NotIntended, POSTCONDITION_FAILED, Resolution, exhausted, recorded},
    limits::CHILDREN_MAX,
    state::{State, Turn},
};

/// The field that names the class of a failure in what the model is shown of it.
const FAILURE_CLASS: &str = "error";

/// The loops of this run's agent nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Agents(BTreeMap<NodeName, AgentState>);

/// One loop.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentState {
    pub(crate) turns: Arc<Vec<Turned>>,
    phase: Phase,
    call: u32,
    failures: u32,
}

/// One finished call of the model, with what came of it: what the next call is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turned {
    /// Which call.
    pub call: u32,
    /// What the model proposed; none when the call failed.
    pub proposal: Option<Proposal>,
    /// What came of it: a tool's result, the children's results, or why it was refused. Untrusted data.
    pub result: Option<Payload>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
enum Phase {
    Idle,
    Asking(Arc<Asked>),
    /// The proposal is recorded and not yet acted upon, or is being carried out.
    Acting(Option<EffectKey>),
    Delegating(SlotName),
    Answered(Payload),
}

impl Agents {
    pub(crate) fn names(&self) -> impl Iterator<Item = NodeName> {
        self.0.keys().cloned()
    }

    pub(crate) fn asking(&self, node: &NodeName) -> Option<(&AgentState, Arc<Asked>)> {
        let agent = self.0.get(node)?;
        if let Phase::Asking(asked) = &agent.phase {
            Some((agent, asked.clone()))
        } else {
            None
        }
    }

    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.0.remove(node);
    }

    pub(crate) fn none_asking(&self) -> bool {
        !self
            .0
            .values()
            .any(|agent| matches!(agent.phase, Phase::Asking(_)))
    }

    pub(crate) fn answer(&self, node: &NodeName) -> Option<&Payload> {
        if let Phase::Answered(answer) = &self.0.get(node)?.phase {
            Some(answer)
        } else {
            None
        }
    }

    /// The proposed call became an intent.
    pub(crate) fn acting(&mut self, node: &NodeName, call: u32, key: EffectKey) {
        if let Some(agent) = self.0.get_mut(node).filter(|agent| agent.call == call) {
            agent.phase = Phase::Acting(Some(key));
        }
    }

    /// A join was opened for the children that this agent proposed.
    pub(crate) fn delegating(&mut self, node: &NodeName, slot: &SlotName) {
        if let Some(agent) = self.0.get_mut(node) {
            agent.phase = Phase::Delegating(slot.clone());
        }
    }

    /// What the model proposed in its last finished call.
    pub(crate) fn last_proposal(&self, node: &NodeName) -> Option<&Proposal> {
        self.0.get(node)?.turns.last()?.proposal.as_ref()
    }
}

impl AgentState {
    fn last_turn(&mut self) -> Option<&mut Turned> {
        Arc::make_mut(&mut self.turns).last_mut()
    }
}

/// The slot of the children that call `call` of an agent node proposed.
pub(crate) fn slot_of(node: &NodeName, call: u32) -> Option<SlotName> {
    let suffix = format!("-{call}");
    let stem: String = node.as_str().chars().take(32 - suffix.len()).collect();
    format!("{stem}{suffix}").parse().ok()
}

impl State {
    pub(crate) fn advance_agent(
        &self,
        node: &NodeName,
        body: &AgentLoop,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        let Some(agent) = self.agents.0.get(node) else {
            return self.ask(node, body, 1, &[], turn);
        };
        if agent.failures >= self.plan.contract.termination.consecutive_failures.max(1) {
            let message = format!("{} failures in a row of {}", agent.failures, body.agent);
            return vec![self.failed(node, "repeated_failure", message)];
        }
        match &agent.phase {
            Phase::Asking(_) => Vec::new(),
            Phase::Idle => self.ask(node, body, agent.call, &agent.turns, turn),
            Phase::Answered(_) => vec![self.done(node, None)],
            Phase::Acting(None) => self.act(node, body, agent, turn),
            Phase::Acting(Some(key)) => self.acted(node, body, agent, key, turn),
            Phase::Delegating(slot) => self.delegated(node, body, agent, slot, turn),
        }
    }

    fn ask(
        &self,
        node: &NodeName,
        body: &AgentLoop,
        call: u32,
        turns: &[Turned],
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        if let Some(end) = self.stalled(node, turns) {
            return end;
        }
        let Some(agent) = self.plan.agents.get(&body.agent) else {
            return vec![self.failed(
                node,
                "result_invalid",
                format!("the release has no agent {}", body.agent),
            )];
        };
        let input = match body.input.resolve(&self.scope(turn)) {
            Ok(input) => input,
            Err(dangling) => {
                return vec![self.failed(node, "result_invalid", format!("input: {dangling}"))];
            }
        };
        let reserved = Spent {
            tokens: agent.tokens_per_call,
            ..Spent::step()
        };
        if let Err(over) = self.account.affords(&reserved) {
            return vec![exhausted(over)];
        }
        let asked = Asked {
            node: node.clone(),
            call,
            agent: body.agent.clone(),
            // That an agent which a node asks has a model is part of the static checks; no route leads to one without a name.
            route: agent.model.clone().unwrap_or_default(),
            context: context_digest(&input, turns),
            reserved,
        };
        vec![Event::Model(model::Event::Asked(asked))]
    }

    /// Acts on a recorded proposal.
    fn act(
        &self,
        node: &NodeName,
        body: &AgentLoop,
        agent: &AgentState,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        match agent
            .turns
            .last()
            .and_then(|turned| turned.proposal.as_ref())
        {
            Some(Proposal::Call { tool, .. }) if !self.is_tool_of(&body.agent, tool) => {
                let why = format!("{tool} is not among the tools of {}", body.agent);
                vec![refused(node, agent.call, "/tool", why)]
            }
            Some(Proposal::Call { tool, arguments }) => {
                match self.intend(node, agent.call, tool, arguments.clone(), turn) {
                    Ok(events) => events,
                    Err(NotIntended::Denied(denied)) => vec![
                        recorded(denied.decided),
                        refused(node, agent.call, "/tool", denied.message),
                    ],
                    Err(NotIntended::Budget(over)) => vec![exhausted(over)],
                    Err(NotIntended::Refused { message, .. }) => {
                        vec![refused(node, agent.call, "/tool", message)]
                    }
                    Err(NotIntended::DoneBefore(_)) => {
                        vec![refused(
                            node,
                            agent.call,
                            "/arguments",
                            "this operation is done already".to_owned(),
                        )]
                    }
                    Err(NotIntended::UnderWay | NotIntended::NoRoom) => Vec::new(),
                    Err(NotIntended::Conflict(conflicted)) => vec![
                        Event::Effect(effect::Event::Conflicted(conflicted)),
                        refused(
                            node,
                            agent.call,
                            "/arguments",
                            "the key stands for other arguments".to_owned(),
                        ),
                    ],
                }
            }
            Some(Proposal::Delegate {
                agent: to,
                items,
                delegation,
            }) => self.open_delegation(node, agent.call, to, items, delegation, turn),
            Some(Proposal::Say(_) | Proposal::Answer(_)) | None => Vec::new(),
        }
    }

    /// An agent calls what its declaration lists, also in a run that may call more for its other nodes.
    fn is_tool_of(&self, agent: &AgentName, tool: &ToolName) -> bool {
        let agent = self.plan.agents.get(agent);
        agent.is_some_and(|agent| agent.tools.contains(tool))
    }

    /// The effect of a proposed call: once it is resolved the model is asked again and shown the result.
    fn acted(
        &self,
        node: &NodeName,
        body: &AgentLoop,
        agent: &AgentState,
        key: &EffectKey,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        let Some(effect) = self.effects.get(key) else {
            return Vec::new();
        };
        let result = match self.resolution(effect) {
            Resolution::Pending => return Vec::new(),
            Resolution::Value(value) => value,
            // What a model makes of it would be a second call, and the first may have done something.
            Resolution::Failed { class, message } if class == POSTCONDITION_FAILED => {
                return vec![self.failed(node, class, message)];
            }
            Resolution::Failed { class, message } => failure_shown(class, &message),
        };
        self.ask_after(node, body, agent, result, turn)
    }

    fn delegated(
        &self,
        node: &NodeName,
        body: &AgentLoop,
        agent: &AgentState,
        slot: &SlotName,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        match self.children.group(slot).map(Group::is_decided) {
            Some(true) => {
                self.ask_after(node, body, agent, self.children.group_payload(slot), turn)
            }
            Some(false) | None => self.advance_proposed_children(node, slot, turn),
        }
    }

    fn ask_after(
        &self,
        node: &NodeName,
        body: &AgentLoop,
        agent: &AgentState,
        result: Payload,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        let mut turns = agent.turns.as_ref().clone();
        if let Some(last) = turns.last_mut() {
            last.result = Some(result);
        }
        self.ask(node, body, agent.call + 1, &turns, turn)
    }

    /// What an agent node works on.
    #[must_use]
    pub fn agent_input(&self, node: &NodeName, turn: &Turn<'_>) -> Option<Value> {
        let Some(Kind::Agent(body)) = self.kind(node) else {
            return None;
        };
        body.input.resolve(&self.scope(turn)).ok()
    }

    pub(crate) fn decide_model(
        &self,
        node: &NodeName,
        call: u32,
        outcome: ModelOutcome,
    ) -> Result<Vec<Event>, Refusal> {
        let not_open = || Refusal::NotOpen(format!("call {call} of node {node}"));
        let (_, asked) = self
            .agents
            .asking(node)
            .filter(|(_, asked)| asked.call == call)
            .ok_or_else(not_open)?;
        let node = node.clone();
        Ok(match outcome {
            ModelOutcome::Failed {
                class,
                message,
                usage,
            } => {
                vec![Event::Model(model::Event::Failed(Failed {
                    node,
                    call,
                    class,
                    message,
                    usage,
                }))]
            }
            ModelOutcome::Proposed {
                proposal,
                answer_valid,
                usage,
                latency,
            } => {
                let answer = if let Proposal::Answer(answer) = &proposal {
                    Some(answer.clone())
                } else {
                    None
                };
                let proposed = Proposed {
                    node: node.clone(),
                    call,
                    proposal,
                    usage,
                    latency_ms: latency.0,
                };
                let mut events = vec![Event::Model(model::Event::Proposed(proposed))];
                match (answer, answer_valid) {
                    (Some(answer), Ok(())) => events.push(schema_met(&node, &answer, &asked)),
                    (Some(_), Err((path, why))) => events.push(refused(&node, call, &path, why)),
                    (None, _) => {}
                }
                events
            }
        })
    }

    pub(crate) fn open_proposed_join(
        &self,
        node: &NodeName,
        slot: SlotName,
        members: usize,
    ) -> Event {
        let members = u32::try_from(members).unwrap_or(CHILDREN_MAX);
        Event::Join(join::Event::Opened(join::Opened {
            node: node.clone(),
            first: self.children.first(&slot),
            slot,
            members,
        }))
    }
}

impl AgentState {
    fn next_call(&mut self) {
        self.call += 1;
        self.phase = Phase::Idle;
    }
}

fn schema_met(node: &NodeName, answer: &Payload, asked: &Asked) -> Event {
    let seen = Payload::Inline(Value::map([
        ("agent", Value::from(asked.agent.as_str())),
        ("answer", Value::Text(answer.digest().to_string())),
    ]));
    Event::Check(check::Event::Passed(check::Passed {
        node: node.clone(),
        check: CheckId::Schema.to_string(),
        effect: None,
        seen,
    }))
}

pub(crate) fn refused(node: &NodeName, call: u32, path: &str, why: String) -> Event {
    Event::Model(model::Event::Refused(Refused {
        node: node.clone(),
        call,
        path: path.to_owned(),
        why,
    }))
}

fn failure_shown(class: &str, message: &str) -> Payload {
    Payload::Inline(Value::map([
        (FAILURE_CLASS, Value::from(class)),
        ("message", Value::from(message)),
    ]))
}

/// What the model is shown, as a digest: the input and every call with its result.
fn context_digest(input: &Value, turns: &[Turned]) -> Digest {
    let hash = LengthPrefixed::new().part(&input.digest().0);
    let hash = turns.iter().fold(hash, |hash, turned| {
        let result = turned.result.as_ref().map_or(Digest::ZERO, Payload::digest);
        hash.part(&turned.call.to_be_bytes()).part(&result.0)
    });
    hash.finish()
}
