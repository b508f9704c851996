//! The simulated tool broker: dispatches only what the log shows as an open intent of the run's present epoch, holds requests in flight by
//! key, and finds out by key what became of an effect without ever sending it.

use std::sync::Arc;

use coppice_kernel::{Command, Duty, Obligation, command::EffectOutcome, limits::SEND_WITHIN_MS};
use coppice_messages::{
    Millis, Operation, Payload, Spent, Timestamp,
    event::effect::{Intended, ResultCheck, Source},
    ids::RunId,
};

use super::actors::Task;
use crate::sim::{
    desk::{Answer, Request, receipt, result},
    step::{ActorId, Step},
    world::{MS, World},
};

/// One request, from its caller's word to its answer.
pub(super) struct Exchange {
    run: RunId,
    epoch: u64,
    deadline: Timestamp,
    intended: Arc<Intended>,
    /// Who takes the answer, and whether it only joined to find out.
    caller: Option<(ActorId, Duty, bool)>,
    /// When it must have left, by the clock that never steps.
    latest: u64,
    outcome: Option<EffectOutcome>,
}

impl World {
    /// Sends an effect; at most once a sending. A write goes on when its caller goes away.
    pub(super) fn send(&mut self, id: &ActorId, duty: Duty, intended: Arc<Intended>) {
        let Some(actor) = self.host.actors.get(&id.0) else {
            return;
        };
        let state = actor.driver.state();
        let (epoch, deadline) = (
            state.epoch(),
            state
                .opened()
                .map_or(intended.send_by, |opened| opened.envelope.deadline()),
        );
        self.check_send(&id.0, epoch, &intended);
        let is_write = intended.operation != Operation::Read;
        if is_write
            && let Some(other) = self.host.flights.get(&intended.key)
            && self
                .host
                .exchanges
                .get(other)
                .is_some_and(|exchange| exchange.outcome.is_none())
        {
            let outcome = EffectOutcome::NotSent {
                why: "another request with the same key is under way".to_owned(),
            };
            let command = effect(&intended, outcome);
            return self.report_later(id, duty, 1, command);
        }
        let sending = self.number();
        let left = intended.send_by.since(self.now()).0.min(SEND_WITHIN_MS);
        if is_write && let Some(old) = self.host.flights.insert(intended.key, sending) {
            self.host.exchanges.remove(&old);
        }
        self.host.exchanges.insert(
            sending,
            Exchange {
                run: id.0.clone(),
                epoch,
                deadline,
                intended,
                caller: Some((id.clone(), duty.clone(), false)),
                latest: self.mono + left * MS,
                outcome: None,
            },
        );
        // Some wait for a place in their lane until it is too late.
        let most = if self.seed.one_in(self.weather.slow) {
            6_000
        } else {
            5
        };
        self.put_between(100, most * MS, Step::Leave(sending));
        self.plan(id, duty, Task::Request(sending));
    }

    /// The moment of use: what must hold when the first byte leaves.
    pub(in crate::sim) fn leave(&mut self, sending: u64) {
        let Some(exchange) = self.host.exchanges.get(&sending) else {
            return;
        };
        let intended = exchange.intended.clone();
        let (now, late) = (self.now(), self.mono >= exchange.latest);
        if !self.laws.is_open(&exchange.run, exchange.epoch, &intended) {
            let why = "the log shows no such open intent".to_owned();
            return self.answered(sending, EffectOutcome::Withdrawn { why });
        }
        if self.is_withheld(&exchange.run) {
            let why = "a cancel above it is admitted".to_owned();
            return self.answered(sending, EffectOutcome::Withdrawn { why });
        }
        if now >= exchange.deadline {
            let why = "the deadline has passed".to_owned();
            return self.answered(sending, EffectOutcome::Withdrawn { why });
        }
        if late || now >= intended.send_by || self.seed.one_in(self.weather.not_sent) {
            let why = "nothing left".to_owned();
            return self.answered(sending, EffectOutcome::NotSent { why });
        }
        let run = exchange.run.clone();
        self.check_passes(&run, &intended);
        let (timeout, settles) = self.patience(&run, &intended);
        let answer = if self.seed.one_in(self.weather.retryable) {
            Answer::Later
        } else if self.seed.one_in(self.weather.declined) {
            Answer::No
        } else {
            Answer::Done
        };
        let request = Request {
            intended,
            sending,
            answer,
            mute: self.seed.one_in(self.weather.reply_lost),
        };
        let number = self.number();
        self.note(format_args!(
            "request {number} of {:?} attempt {} leaves, {answer:?}",
            request.intended.key, request.intended.attempt
        ));
        self.requests.insert(number, request);
        // The contract gives the desk that long, and not a moment more.
        let most = if self.seed.one_in(self.weather.slow) {
            timeout + settles - 1
        } else {
            5
        };
        self.put_between(100, most * MS, Step::Desk(number));
        self.put(timeout * MS, Step::ReplyLate(sending));
    }

    /// The gate: whether a cancel of the run or of one above it is admitted.
    fn is_withheld(&self, run: &RunId) -> bool {
        let cancelled = &self.host.cancelled;
        !cancelled.is_empty()
            && self
                .laws
                .and_above(run)
                .any(|above| cancelled.contains(above))
    }

    /// Milliseconds of the tool's timeout, and until a look-up shows what it did.
    fn patience(&self, run: &RunId, intended: &Intended) -> (u64, u64) {
        let tool = self
            .tree_of(run)
            .and_then(|tree| tree.plan.tools.get(&intended.tool));
        let timeout = tool.map_or(1, |tool| tool.contract.timeout().0);
        let settles = tool
            .and_then(|tool| tool.contract.absence())
            .map_or(1, |absence| absence.settles_within.0);
        (timeout, settles)
    }

    /// The desk takes a request in.
    pub(in crate::sim) fn desk_takes(&mut self, number: u64) {
        let Some(request) = self.requests.remove(&number) else {
            return;
        };
        if request.answer == Answer::Done {
            self.desk.work(&request.intended);
            self.check_desk(&request.intended);
        }
        self.note(format_args!("desk takes {number}"));
        let sending = request.sending;
        if !request.mute && self.host.exchanges.contains_key(&sending) {
            let usage = Spent {
                operations: [(request.intended.operation, 1)].into(),
                network: 100,
                ..Spent::step()
            };
            let outcome = match request.answer {
                Answer::Done => EffectOutcome::Landed {
                    receipt: receipt(&request.intended.key),
                    result: ResultCheck::Ok,
                    value: Payload::Inline(result(&request.intended)),
                    usage,
                },
                Answer::Later => EffectOutcome::Retryable {
                    code: "429".to_owned(),
                    retry_after: None,
                    usage,
                },
                Answer::No => EffectOutcome::Declined {
                    code: "409".to_owned(),
                    message: "no".to_owned(),
                    usage,
                },
            };
            self.host.replies.insert(sending, outcome);
            self.put_between(100, 5 * MS, Step::Reply(sending));
        }
    }

    pub(in crate::sim) fn reply(&mut self, sending: u64) {
        if let Some(outcome) = self.host.replies.remove(&sending) {
            self.answered(sending, outcome);
        }
    }

    pub(in crate::sim) fn reply_late(&mut self, sending: u64) {
        let why = "no answer in time".to_owned();
        self.answered(sending, EffectOutcome::Unknown { why });
    }

    /// A request has its outcome: the first stands.
    fn answered(&mut self, sending: u64, outcome: EffectOutcome) {
        let Some(exchange) = self.host.exchanges.get_mut(&sending) else {
            return;
        };
        if exchange.outcome.is_some() {
            return;
        }
        exchange.outcome = Some(outcome);
        self.hand_over(sending);
    }

    /// The caller takes the answer, if there is both.
    fn hand_over(&mut self, sending: u64) {
        let Some(exchange) = self.host.exchanges.get(&sending) else {
            return;
        };
        let (Some(outcome), Some((id, duty, joined))) =
            (exchange.outcome.clone(), exchange.caller.clone())
        else {
            return;
        };
        let intended = exchange.intended.clone();
        self.host.exchanges.remove(&sending);
        if self.host.flights.get(&intended.key) == Some(&sending) {
            self.host.flights.remove(&intended.key);
        }
        if !joined {
            return self.report(&id, &duty, effect(&intended, outcome));
        }
        match outcome.settles() {
            Some(landed) => {
                let outcome = EffectOutcome::Reconciled {
                    landed,
                    source: Source::Answer,
                };
                self.report(&id, &duty, effect(&intended, outcome));
            }
            None => self.begin_look_up(&id, duty, &intended),
        }
    }

    /// Who wanted the answer is gone. A read ends with its caller.
    pub(super) fn caller_gone(&mut self, sending: u64) {
        let Some(exchange) = self.host.exchanges.get_mut(&sending) else {
            return;
        };
        exchange.caller = None;
        if exchange.intended.operation == Operation::Read {
            self.host.exchanges.remove(&sending);
        }
    }

    /// Finds out what became of an effect: from its request, if that is in flight in this host, else by key.
    pub(super) fn reconcile(&mut self, id: &ActorId, duty: Duty, intended: &Intended) {
        let sending = self.host.flights.get(&intended.key).copied();
        if let Some(sending) = sending
            && let Some(exchange) = self.host.exchanges.get_mut(&sending)
            && exchange.run == id.0
        {
            exchange.caller = Some((id.clone(), duty.clone(), true));
            self.plan(id, duty, Task::Request(sending));
            return self.hand_over(sending);
        }
        self.begin_look_up(id, duty, intended);
    }

    fn begin_look_up(&mut self, id: &ActorId, duty: Duty, intended: &Intended) {
        let (timeout, settles) = self.patience(&id.0.clone(), intended);
        let settled_at = intended.send_by.plus(Millis(timeout + settles));
        let left = settled_at.since(self.now()).0;
        let longest = timeout + settles + SEND_WITHIN_MS;
        let settled = self.mono + left.min(longest) * MS;
        let step = Step::LookUp(id.clone(), duty.clone());
        let planned = self.put_between(100, 5 * MS, step);
        self.plan(
            id,
            duty,
            Task::LookUp {
                planned,
                settled,
                silent: 0,
            },
        );
    }

    /// One question to the tool.
    pub(in crate::sim) fn look_up(&mut self, id: &ActorId, duty: &Duty) {
        if !self.is_alive(id) {
            return;
        }
        let (now, mono) = (self.now(), self.mono);
        let Some(actor) = self.host.actors.get(&id.0) else {
            return;
        };
        let Some(&Task::LookUp {
            settled, silent, ..
        }) = actor.tasks.get(duty)
        else {
            return;
        };
        let Some(Obligation::Reconcile { intended }) = actor.driver.in_hand().get(duty).cloned()
        else {
            return;
        };
        let (timeout, settles) = self.patience(&id.0.clone(), &intended);
        let settled_at = intended.send_by.plus(Millis(timeout + settles));
        let is_settled = now > settled_at && mono >= settled;
        let no_answer = self.seed.one_in(self.weather.lookup_silent);
        let (pause, silent) = if no_answer {
            (100 << silent.min(6), silent + 1)
        } else if self.desk.has(&intended.key) {
            let found = (
                receipt(&intended.key),
                ResultCheck::Ok,
                Payload::Inline(result(&intended)),
            );
            return self.found(id, duty, &intended, Some(found));
        } else if is_settled {
            return self.found(id, duty, &intended, None);
        } else {
            let wall = settled_at.since(now).0;
            (wall.max(settled.saturating_sub(mono) / MS) + 1, 0)
        };
        let step = Step::LookUp(id.clone(), duty.clone());
        let planned = self.put(pause * MS, step);
        self.plan(
            id,
            duty.clone(),
            Task::LookUp {
                planned,
                settled,
                silent,
            },
        );
    }

    fn found(
        &mut self,
        id: &ActorId,
        duty: &Duty,
        intended: &Intended,
        landed: Option<(
            coppice_messages::event::effect::Receipt,
            ResultCheck,
            Payload,
        )>,
    ) {
        let outcome = EffectOutcome::Reconciled {
            landed,
            source: Source::Lookup,
        };
        self.report_later(id, duty.clone(), 5, effect(intended, outcome));
    }
}

fn effect(intended: &Intended, outcome: EffectOutcome) -> Command {
    Command::Effect {
        key: intended.key,
        attempt: intended.attempt,
        outcome,
    }
}
