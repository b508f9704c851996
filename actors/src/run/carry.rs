//! Obligations, each carried out by a task that reports its outcome.

use std::sync::Arc;

use coppice_kernel::{
    Command, Duty, Obligation, Turned,
    command::{CheckId, CheckOutcome, ModelOutcome},
};
use coppice_messages::{
    Spent, Timestamp, Value,
    event::{
        effect::{Intended, Receipt},
        model::Asked,
    },
    ids::NodeName,
};

use futures::FutureExt as _;

use super::{Message, awake::Incarnation, children::Told, receipt, tasks::Task};
use crate::{
    broker::{ReadRequest, SendRequest},
    gateway::AskRequest,
};

impl Incarnation {
    /// Begins to carry out what is owed; replaces what was under way under the same name.
    pub(super) fn carry(&mut self, duty: Duty, obligation: Obligation) {
        match obligation {
            Obligation::AskModel { asked, turns } => self.ask(duty, asked, turns),
            Obligation::Send { intended } => self.send(duty, intended),
            Obligation::Reconcile { intended } => self.reconcile(duty, intended),
            Obligation::Probe { intended, receipt } => self.probe(duty, intended, receipt),
            Obligation::Check { node, check } => self.check(duty, node, check),
            Obligation::Await {
                delegated,
                seq,
                commit,
                give_up,
                cancel,
                restarts: _,
            } => {
                let cited = (seq, commit);
                self.await_child(delegated, cited, Told { give_up, cancel });
            }
            Obligation::Receipt { since } => self.receipt(duty, since),
        }
    }

    fn task(&mut self, duty: Duty, work: impl Future<Output = Command> + Send + 'static) {
        let work = work.map(Message::Told);
        let task = Task::spawn(self.myself.clone(), duty.clone(), work);
        self.tasks.put(duty, task);
    }

    fn ask(&mut self, duty: Duty, asked: Arc<Asked>, turns: Arc<Vec<Turned>>) {
        let (node, call) = (asked.node.clone(), asked.call);
        let input = self.driver.state().agent_input(&node, &self.turn());
        let gateway = self.services.gateway.clone();
        let request = input.map(|input| AskRequest {
            plan: self.driver.state().plan().clone(),
            tenant: self.key.0.clone(),
            run: self.key.1.clone(),
            asked,
            input,
            turns,
        });
        self.task(duty, async move {
            let outcome = match request {
                Some(request) => gateway.ask(request).await,
                None => ModelOutcome::Failed {
                    class: "no_input".to_owned(),
                    message: format!("what node {node} is to work on is not there"),
                    usage: Spent::default(),
                },
            };
            Command::Model {
                node,
                call,
                outcome,
            }
        });
    }

    fn request(&self, intended: Arc<Intended>) -> SendRequest {
        let state = self.driver.state();
        let governed = self.services.policies.are_set();
        SendRequest {
            plan: state.plan().clone(),
            tenant: self.key.0.clone(),
            tree: state.tree().clone(),
            run: self.key.1.clone(),
            epoch: state.epoch(),
            deadline: state
                .opened()
                .map_or(intended.send_by, |opened| opened.envelope.deadline()),
            subject: governed.then(|| state.subject(&intended.node)).flatten(),
            intended,
            trace: Some(self.trace.clone()),
        }
    }

    fn send(&mut self, duty: Duty, intended: Arc<Intended>) {
        let (key, attempt) = (intended.key, intended.attempt);
        let (broker, request) = (self.services.broker.clone(), self.request(intended));
        self.task(duty, async move {
            let outcome = broker.send(request).await;
            Command::Effect {
                key,
                attempt,
                outcome,
            }
        });
    }

    fn reconcile(&mut self, duty: Duty, intended: Arc<Intended>) {
        let (key, attempt) = (intended.key, intended.attempt);
        let (broker, request) = (self.services.broker.clone(), self.request(intended));
        self.task(duty, async move {
            let outcome = broker.reconcile(request).await;
            Command::Effect {
                key,
                attempt,
                outcome,
            }
        });
    }

    fn probe(&mut self, duty: Duty, intended: Arc<Intended>, receipt: Receipt) {
        let key = intended.key;
        let (broker, request) = (self.services.broker.clone(), self.request(intended));
        self.task(duty, async move {
            let seen = broker.probe(request, receipt).await;
            Command::Probed { key, seen }
        });
    }

    /// Reads from the log, off this actor, what became of everything below.
    fn receipt(&mut self, duty: Duty, since: Timestamp) {
        let (store, key) = (self.services.store.clone(), self.key.clone());
        let (log, tenant) = (store.log().clone(), self.key.0.clone());
        let work = tokio::task::spawn_blocking(move || receipt::read(&log, &key, since));
        let task = Task::spawn(self.myself.clone(), duty.clone(), async move {
            match work.await {
                Ok(Ok((receipt, blob))) => {
                    if let Some(blob) = blob
                        && let Err(error) = store.put_blob(tenant, blob).await
                    {
                        return Message::Unstored {
                            why: crate::inspect::with_causes(&error),
                        };
                    }
                    Message::Told(Command::Receipt(Box::new(receipt)))
                }
                Ok(Err(error)) => Message::Unstored {
                    why: crate::inspect::with_causes(&error),
                },
                Err(error) => Message::Unstored {
                    why: error.to_string(),
                },
            }
        });
        self.tasks.put(duty, task);
    }

    fn check(&mut self, duty: Duty, node: NodeName, check: CheckId) {
        match check {
            CheckId::Schema => {
                let answer = self.driver.state().end_answer(&node, &self.turn());
                let seen = self.check_schema(answer);
                self.task(duty, async move { Command::Check { node, check, seen } });
            }
            CheckId::Evidence(at) => {
                let state = self.driver.state();
                let request =
                    state
                        .check_request(&node, at, &self.turn())
                        .map(|check| ReadRequest {
                            plan: state.plan().clone(),
                            tenant: self.key.0.clone(),
                            run: self.key.1.clone(),
                            tool: check.evidence.check.clone(),
                            arguments: check.arguments,
                            trace: Some(self.trace.clone()),
                        });
                let broker = self.services.broker.clone();
                self.task(duty, async move {
                    let seen = match request {
                        Some(request) => broker.read(request).await,
                        None => CheckOutcome::Unreadable {
                            why: "what the check reads with is not there".to_owned(),
                        },
                    };
                    Command::Check { node, check, seen }
                });
            }
        }
    }

    /// Whether the answer of a root meets the topology's result schema.
    fn check_schema(&self, answer: Option<Value>) -> CheckOutcome {
        let broken = |why: String| CheckOutcome::SchemaBroken { why };
        let Some(schema) = self.driver.state().plan().result_schema.clone() else {
            return broken("the topology names no result schema".to_owned());
        };
        let Some(answer) = answer else {
            return broken("the answer refers to something that is not there".to_owned());
        };
        match self.services.meets(&self.key.0, &schema.digest, &answer) {
            Ok(()) => CheckOutcome::SchemaMet(schema.digest),
            Err(why) => broken(why),
        }
    }
}
