//! What a run owes, carried out by tasks that report back; what is no longer owed stops.

use coppice_kernel::{
    Command, Duty, Obligation, Room, Turn, Turned,
    command::{CheckId, CheckOutcome, ModelOutcome, ProbeOutcome},
};
use coppice_messages::{
    Payload, Spent, Timestamp, Value,
    event::{effect::Intended, model::Asked, run::CancelSettled},
    ids::NodeName,
    payload::NoBlobs,
};

use super::actors::{Message, Task};
use crate::sim::{
    model,
    step::{ActorId, Step},
    world::{MS, World},
};

impl World {
    pub(super) fn carry(&mut self, id: &ActorId, duty: Duty, obligation: Obligation) {
        self.let_go_of_task(id, &duty);
        match obligation {
            Obligation::AskModel { asked, turns } => {
                let outcome = self.ask(id, &asked, &turns);
                let command = Command::Model {
                    node: asked.node.clone(),
                    call: asked.call,
                    outcome,
                };
                self.report_later(id, duty, 80, command);
            }
            Obligation::Send { intended } => self.send(id, duty, intended),
            Obligation::Reconcile { intended } => self.reconcile(id, duty, &intended),
            Obligation::Probe { intended, .. } => {
                let seen = self.probe(&intended);
                let key = intended.key;
                self.report_later(id, duty, 20, Command::Probed { key, seen });
            }
            Obligation::Check { node, check } => {
                let seen = self.check(id, &node, check);
                self.report_later(id, duty, 20, Command::Check { node, check, seen });
            }
            Obligation::Await { .. } => {
                let step = Step::Await(id.clone(), duty.clone());
                let planned = self.put_between(0, 2 * MS, step);
                self.plan(id, duty, Task::Planned(planned));
            }
            Obligation::Receipt { since } => {
                let receipt = Command::Receipt(Box::new(self.receipt(since)));
                self.report_later(id, duty, 10, receipt);
            }
        }
    }

    /// A receipt; its figures are the product's to read and are not looked at here.
    fn receipt(&self, since: Timestamp) -> CancelSettled {
        CancelSettled {
            acknowledged: 0,
            killed: 0,
            unreachable: 0,
            ended_before: 0,
            effects_landed: 0,
            effects_not_sent: 0,
            effects_in_doubt: 0,
            quiet_after: self.now().since(since),
            steps_after: 0,
            tokens_after: 0,
            descendants: Payload::Inline(Value::Null),
        }
    }

    pub(super) fn plan(&mut self, id: &ActorId, duty: Duty, task: Task) {
        if let Some(actor) = self.host.actors.get_mut(&id.0) {
            actor.tasks.insert(duty, task);
        }
    }

    /// A task reports this, within so many milliseconds.
    pub(super) fn report_later(
        &mut self,
        id: &ActorId,
        duty: Duty,
        most_ms: u64,
        command: Command,
    ) {
        let step = Step::Report(id.clone(), duty.clone(), Box::new(command));
        let planned = self.put_between(50, most_ms * MS, step);
        self.plan(id, duty, Task::Planned(planned));
    }

    pub(in crate::sim) fn report(&mut self, id: &ActorId, duty: &Duty, command: Command) {
        if !self.is_alive(id) {
            return;
        }
        if let Some(actor) = self.host.actors.get_mut(&id.0) {
            actor.tasks.remove(duty);
        }
        if self.seed.one_in(self.weather.told_twice) {
            self.mail(id, Message::Told(command.clone()));
        }
        self.mail(id, Message::Told(command));
    }

    fn ask(&mut self, id: &ActorId, asked: &Asked, turns: &[Turned]) -> ModelOutcome {
        let turn = Turn::new(self.now(), Room::Enough, &NoBlobs);
        let Some(actor) = self.host.actors.get(&id.0) else {
            return lost_input();
        };
        let state = actor.driver.state();
        let Some(input) = state.agent_input(&asked.node, &turn) else {
            return lost_input();
        };
        let fails = self.weather.model_fails;
        model::answer(&mut self.seed, fails, state.plan(), asked, &input, turns)
    }

    /// The desk shows what it did, and nothing else.
    fn probe(&self, intended: &Intended) -> ProbeOutcome {
        if self.desk.has(&intended.key) {
            ProbeOutcome::Holds(Payload::Inline(Value::Null))
        } else {
            ProbeOutcome::Contradicted {
                expected: "what was done".to_owned(),
                seen: "nothing".to_owned(),
            }
        }
    }

    fn check(&self, id: &ActorId, node: &NodeName, check: CheckId) -> CheckOutcome {
        let unreadable = || CheckOutcome::Unreadable {
            why: "what the check reads with is not there".to_owned(),
        };
        let Some(actor) = self.host.actors.get(&id.0) else {
            return unreadable();
        };
        let state = actor.driver.state();
        match check {
            CheckId::Schema => state
                .plan()
                .result_schema
                .as_ref()
                .map_or_else(unreadable, |schema| CheckOutcome::SchemaMet(schema.digest)),
            CheckId::Evidence(at) => {
                let blobs = self.log.blobs_of(&self.tenant);
                let turn = Turn::new(self.now(), Room::Enough, &blobs);
                let Some(request) = state.check_request(node, at, &turn) else {
                    return unreadable();
                };
                let of = request.arguments.at("/request_id").and_then(Value::as_text);
                let count = self.desk.tickets_of(of.unwrap_or_default());
                CheckOutcome::Read(Payload::Inline(Value::map([(
                    "count",
                    Value::Int(i64::from(count)),
                )])))
            }
        }
    }

    /// What is no longer owed stops.
    pub(super) fn let_go(&mut self, id: &ActorId, duty: &Duty) {
        self.let_go_of_task(id, duty);
        if let Duty::Child(child) = duty {
            self.stop_actor(child, "it is not awaited any more");
        }
    }

    pub(super) fn let_go_of_task(&mut self, id: &ActorId, duty: &Duty) {
        let actor = self.host.actors.get_mut(&id.0);
        let task = actor.and_then(|actor| actor.tasks.remove(duty));
        match task {
            Some(
                Task::Planned(ticket)
                | Task::LookUp {
                    planned: ticket, ..
                },
            ) => {
                self.agenda.cancel(ticket);
            }
            Some(Task::Request(sending)) => self.caller_gone(sending),
            None => {}
        }
    }

    pub(super) fn clear_tasks(&mut self, id: &ActorId) {
        let duties: Vec<Duty> = self
            .host
            .actors
            .get(&id.0)
            .map(|actor| actor.tasks.keys().cloned().collect())
            .unwrap_or_default();
        for duty in duties {
            self.let_go_of_task(id, &duty);
        }
        let timer = self
            .host
            .actors
            .get_mut(&id.0)
            .and_then(|actor| actor.timer.take());
        if let Some((_, ticket)) = timer {
            self.agenda.cancel(ticket);
        }
    }
}

fn lost_input() -> ModelOutcome {
    ModelOutcome::Failed {
        class: "no_input".to_owned(),
        message: "what the agent is to work on is not there".to_owned(),
        usage: Spent::default(),
    }
}
