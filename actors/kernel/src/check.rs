//! Evidence: `succeeded` is recorded only after its checks have passed, and cites them.

use std::collections::BTreeMap;

use coppice_messages::{
    Event, Payload, Value,
    event::{
        check::{self, Failed, Passed},
        run::{self, Ended, Program, Reason},
    },
    ids::NodeName,
};
use coppice_topology::{
    expr::Source,
    node::{End, Evidence, Kind},
    plan::Progress,
};
use serde::Serialize;

use crate::{
    command::{CheckId, CheckOutcome, Refusal},
    duty::Duty,
    effect::Proof,
    state::{Meta, State, Turn},
};

/// What the checks of the end nodes showed.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Checks(BTreeMap<(NodeName, String), Shown>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
enum Shown {
    Passed { seq: u64 },
    Failed { message: String },
}

/// What a check of the outside world reads.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckRequest<'a> {
    /// The evidence as declared.
    pub evidence: &'a Evidence,
    /// The arguments of the read tool.
    pub arguments: Value,
}

impl State {
    fn end_node(&self, node: &NodeName) -> Option<&End> {
        if let Kind::End(end) = self.kind(node)? {
            Some(end)
        } else {
            None
        }
    }

    /// Every check of an end node. A child's answer was held against its schema when it was proposed.
    pub(crate) fn check_names_of(&self, node: &NodeName) -> impl Iterator<Item = CheckId> + use<> {
        let end = self
            .end_node(node)
            .filter(|end| end.reason == Reason::Succeeded);
        let count = u32::try_from(end.map_or(0, |end| end.evidence.len())).unwrap_or(u32::MAX);
        let is_root = self
            .opened()
            .is_some_and(|opened| matches!(opened.program, Program::Topology { .. }));
        let schema = end.is_some() && is_root && self.plan.result_schema.is_some();
        schema
            .then_some(CheckId::Schema)
            .into_iter()
            .chain((0..count).map(CheckId::Evidence))
    }

    pub(crate) fn check_names(&self) -> Vec<(NodeName, CheckId)> {
        let of = |node: &NodeName| {
            self.check_names_of(node)
                .map(|check| (node.clone(), check))
                .collect::<Vec<_>>()
        };
        self.nodes.at_work().flat_map(of).collect()
    }

    pub(crate) fn check_is_open(&self, node: &NodeName, check: CheckId) -> bool {
        self.nodes.progress(node) == Progress::Started
            && self.check_names_of(node).any(|name| name == check)
            && !self
                .checks
                .0
                .contains_key(&(node.clone(), check.to_string()))
    }

    /// The answer that an end node gives.
    #[must_use]
    pub fn end_answer(&self, node: &NodeName, turn: &Turn<'_>) -> Option<Value> {
        self.end_node(node)?.answer.resolve(&self.scope(turn)).ok()
    }

    /// What a piece of evidence reads, with its arguments looked up.
    #[must_use]
    pub fn check_request(
        &self,
        node: &NodeName,
        at: u32,
        turn: &Turn<'_>,
    ) -> Option<CheckRequest<'_>> {
        let evidence = self.end_node(node)?.evidence.get(at as usize)?;
        Some(CheckRequest {
            evidence,
            arguments: evidence.arguments.resolve(&self.scope(turn)).ok()?,
        })
    }

    pub(crate) fn decide_check(
        &self,
        node: &NodeName,
        check: CheckId,
        seen: CheckOutcome,
        turn: &Turn<'_>,
    ) -> Result<Vec<Event>, Refusal> {
        if !self.check_is_open(node, check) {
            return Err(Refusal::NotOpen(format!("check {check} of node {node}")));
        }
        let (node, name) = (node.clone(), check.to_string());
        let passed = |seen| {
            check::Event::Passed(Passed {
                node: node.clone(),
                check: name.clone(),
                effect: None,
                seen,
            })
        };
        let failed = |expected: String, seen| {
            check::Event::Failed(Failed {
                node: node.clone(),
                check: name.clone(),
                effect: None,
                expected,
                seen,
            })
        };
        let event = match (seen, check) {
            (CheckOutcome::SchemaMet(digest), _) => {
                passed(Payload::Inline(Value::Text(digest.to_string())))
            }
            (CheckOutcome::SchemaBroken { why }, _) => failed(
                "an answer that meets the result schema".to_owned(),
                text(&why),
            ),
            (CheckOutcome::Unreadable { why }, _) => {
                failed("an answer of the read tool".to_owned(), text(&why))
            }
            (CheckOutcome::Read(body), CheckId::Evidence(at)) => {
                let evidence = self
                    .end_node(&node)
                    .and_then(|end| end.evidence.get(at as usize));
                let value = turn.resolve(&body);
                let scope = |source: &Source| {
                    if *source == Source::Check {
                        value.clone()
                    } else {
                        scope_value(self, source, turn)
                    }
                };
                match evidence {
                    Some(evidence) if evidence.expect.holds(&scope) => passed(body),
                    Some(evidence) => {
                        let compared = evidence.expect.expected_and_seen(&scope);
                        let expected = match compared {
                            Some((wanted, seen)) => {
                                format!("{wanted} from {} instead of {seen}", evidence.check)
                            }
                            None => format!("{}: the declared condition", evidence.check),
                        };
                        failed(expected, body)
                    }
                    None => failed("a declared check".to_owned(), body),
                }
            }
            (CheckOutcome::Read(_), CheckId::Schema) => {
                return Err(Refusal::NotOpen("a read for the schema".to_owned()));
            }
        };
        Ok(vec![Event::Check(event)])
    }

    pub(crate) fn evolve_check(
        &mut self,
        event: &check::Event,
        meta: Meta,
        touched: &mut Vec<Duty>,
    ) {
        let (node, name, effect, shown) = match event {
            check::Event::Passed(passed) => (
                &passed.node,
                &passed.check,
                passed.effect.map(|key| (key, Proof::Shown)),
                Shown::Passed { seq: meta.seq },
            ),
            check::Event::Failed(failed) => {
                let message = format!(
                    "check {}: expected {}, saw {}",
                    failed.check,
                    failed.expected,
                    shown(&failed.seen)
                );
                let why = shown(&failed.seen);
                let effect = failed.effect.map(|key| (key, Proof::Unread { why }));
                (
                    &failed.node,
                    &failed.check,
                    effect,
                    Shown::Failed { message },
                )
            }
        };
        let name = match effect {
            // One node of an agent has many effects.
            Some((key, _)) => format!("{name} {}", key.hex()),
            None => name.clone(),
        };
        self.checks.0.insert((node.clone(), name), shown);
        if let Some((key, proof)) = effect {
            self.evolve_proof(key, proof, touched);
        }
        touched.extend(
            self.check_names_of(node)
                .map(|check| Duty::Check(node.clone(), check)),
        );
    }

    pub(crate) fn advance_end_node(
        &self,
        node: &NodeName,
        end: &End,
        turn: &Turn<'_>,
    ) -> Vec<Event> {
        let of_node = self.checks.0.iter().filter(|((of, _), _)| of == node);
        let broken = of_node.clone().find_map(|(_, shown)| {
            if let Shown::Failed { message } = shown {
                Some(message)
            } else {
                None
            }
        });
        if let Some(message) = broken {
            return vec![self.failed(node, "result_invalid", message.clone())];
        }
        let open = self
            .check_names_of(node)
            .any(|check| self.check_is_open(node, check));
        if open || !self.is_quiet() {
            return Vec::new();
        }
        let answer = match end.answer.resolve(&self.scope(turn)) {
            Ok(answer) => answer,
            Err(dangling) => {
                return vec![self.failed(node, "result_invalid", format!("answer: {dangling}"))];
            }
        };
        // Every passed check of the run is evidence: a child's answer passed its schema in the agent's node.
        let passed = |shown: &Shown| {
            if let Shown::Passed { seq } = shown {
                Some(*seq)
            } else {
                None
            }
        };
        let evidence = self.checks.0.values().filter_map(passed).collect();
        vec![Event::Run(run::Event::Ended(Ended {
            reason: end.reason,
            class: None,
            message: String::new(),
            answer: Some(turn.keep(answer)),
            evidence,
            usage: self.account.used.clone(),
            in_doubt: Vec::new(),
        }))]
    }
}

/// What a failed check saw, short enough for one sentence.
fn shown(seen: &Payload) -> String {
    const CHARACTERS_MAX: usize = 200;
    match seen {
        Payload::Inline(value) => {
            let text = value.to_string();
            let cut: String = text.chars().take(CHARACTERS_MAX).collect();
            if cut.len() < text.len() {
                format!("{cut}…")
            } else {
                cut
            }
        }
        Payload::Blob { digest, bytes } => format!("{bytes} bytes ({digest})"),
    }
}

pub(crate) fn text(why: &str) -> Payload {
    Payload::Inline(Value::from(why))
}

fn scope_value(state: &State, source: &Source, turn: &Turn<'_>) -> Option<Value> {
    use coppice_topology::expr::Scope;
    state.scope(turn).value(source)
}
