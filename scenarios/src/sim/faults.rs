//! What strikes a world between two steps.

use coppice_kernel::{Command, State};
use coppice_messages::{
    Commit, Digest, Entry, Event,
    commit::FORMAT,
    event::{
        run::{CancelRequested, ClaimReason},
        timer,
    },
    ids::RunId,
};
use coppice_store::{Lane, wire};

use super::{log::Log, step::ActorId, stream::Message, world::World};

impl World {
    /// Whatever the weather brings.
    pub(super) fn strike(&mut self) {
        let weather = self.weather;
        if self.seed.one_in(weather.host_dies) {
            self.kill_host();
            if self.seed.one_in(weather.log_lost) && self.can_lose_log() {
                self.lose_log();
            }
        }
        if self.seed.one_in(weather.actor_dies) {
            self.kill_actor();
        }
        if self.seed.one_in(weather.link_breaks) && self.server.is_up {
            self.note(format_args!("the link breaks"));
            self.break_link(1_000, 300_000);
        }
        if self.seed.one_in(weather.server_dies) && self.server.is_up {
            self.kill_server();
        }
        if self.seed.one_in(weather.copies) {
            self.server.copy = Some(self.server.stream.clone());
        }
        if self.seed.one_in(weather.clock_steps) {
            self.step_clock();
        }
        if self.seed.one_in(weather.foreign_claims) {
            self.claim_elsewhere();
        }
        if self.seed.one_in(weather.stale_writes) {
            self.write_stale();
        }
        if self.cancelling.one_in(weather.cancels) {
            self.cancel_a_run();
        }
    }

    /// Somebody cancels a run that is at work, and with it everything below.
    fn cancel_a_run(&mut self) {
        let runs: Vec<ActorId> = self
            .host
            .actors()
            .map(|(run, actor)| actor.id(run))
            .collect();
        if runs.is_empty() {
            return;
        }
        let id = runs[self.cancelling.index(runs.len())].clone();
        self.note(format_args!("{} is cancelled", id.0));
        let cancel = CancelRequested {
            by: "user:sim".to_owned(),
            why: "enough".to_owned(),
            from: None,
        };
        self.tell(&id, Command::Cancel(cancel));
    }

    fn kill_actor(&mut self) {
        let runs: Vec<RunId> = self.host.actors().map(|(run, _)| run.clone()).collect();
        if !runs.is_empty() {
            let run = runs[self.seed.index(runs.len())].clone();
            self.actor_died(&run, "killed");
        }
    }

    /// nats-server is killed, and with it what it had not synced.
    fn kill_server(&mut self) {
        let last = self.server.stream.info().last;
        // What only the stream has, because the log is being read again from it, is not taken from it too.
        let spared = !self.is_recovered();
        let what = if !spared && self.seed.one_in(self.weather.goes_back) {
            let what = self.go_back(last);
            self.publish_elsewhere(last);
            what
        } else if !spared && self.seed.one_in(self.weather.unread_lost) {
            let log = self.log.position().map_or(0, |position| position.seq);
            let read = self.host.read_so_far().max(log);
            let kept = self.seed.between(read.min(last), last);
            self.server.stream.lose_above(kept);
            "it forgets what was not read"
        } else {
            "it keeps everything"
        };
        let kept = self.server.stream.info().last;
        self.note(format_args!(
            "nats-server is killed: {what}, {kept} of {last}"
        ));
        self.break_link(20_000, 2_000_000);
    }

    /// The stream goes back, in one of the ways that were seen.
    fn go_back(&mut self, last: u64) -> &'static str {
        match self.seed.below(4) {
            0 => {
                self.make_stream();
                "it makes the stream anew"
            }
            1 => {
                self.server.is_gone = true;
                "it has no stream"
            }
            2 if self.server.copy.is_some() => {
                if let Some(copy) = &self.server.copy {
                    self.server.stream.put_back(copy);
                }
                self.server.is_gone = false;
                "it has an older copy"
            }
            _ => {
                let kept = self.seed.between(last.saturating_sub(12), last);
                self.server.stream.lose_above(kept);
                "it forgets its tail"
            }
        }
    }

    /// Somebody else publishes on a stream that went back, perhaps so much that it seems to have all that it ever had. All that they say is alike.
    fn publish_elsewhere(&mut self, last: u64) {
        if self.server.is_gone || self.seed.one_in(2) {
            return;
        }
        let kept = self.server.stream.info().last;
        for _ in 0..self.seed.between(1, last.saturating_sub(kept) + 3) {
            self.server.stream.append(Message {
                tenant: self.tenant.clone(),
                lane: Lane::Commits,
                payload: wire::encode_commits(&["no commit".into()]),
            });
        }
    }

    /// Only while the stream has everything: what neither has is named by the product, and is not for a simulation that must converge.
    fn can_lose_log(&self) -> bool {
        self.is_recovered() && !self.server.is_gone && self.difference_from_stream().is_none()
    }

    /// The log's disk is lost; the stream has everything.
    fn lose_log(&mut self) {
        self.note(format_args!("the log is lost"));
        self.log = Log::default();
        self.laws.forget_log();
    }

    /// The wall clock is set. Not while a request is on its way to the desk: by how much the clock was set while a process was not
    /// running nobody can know, so absence would count too early.
    fn step_clock(&mut self) {
        if !self.requests.is_empty() {
            return;
        }
        let by = i64::try_from(self.seed.between(0, 20_000_000)).unwrap_or(0) - 10_000_000;
        self.offset += by;
        self.note(format_args!("the clock is set by {by}"));
        self.rearm();
    }

    /// A run that is recorded and not over.
    fn open_run(&mut self, suits: impl Fn(&State) -> bool) -> Option<State> {
        let open: Vec<&State> = self
            .laws
            .states()
            .filter(|(run, state)| !self.laws.has_ended(run) && suits(state))
            .map(|(_, state)| state)
            .collect();
        if open.is_empty() {
            return None;
        }
        let at = self.seed.index(open.len());
        Some(open[at].clone())
    }

    /// Another host claims a run, properly, and is not heard of again.
    fn claim_elsewhere(&mut self) {
        let Some(state) = self.open_run(|_| true) else {
            return;
        };
        let Ok(host) = "elsewhere".parse() else {
            return;
        };
        let events = state.claim(&host, ClaimReason::Failover);
        let number = self.number();
        self.forge(&state, state.epoch() + 1, events, number);
    }

    /// An owner that was replaced, and has read what its successor recorded, writes on in its old epoch.
    fn write_stale(&mut self) {
        let Some(state) = self.open_run(|state| state.epoch() > 1) else {
            return;
        };
        let Ok(node) = "stale".parse() else {
            return;
        };
        let due = Event::Timer(timer::Event::Due(timer::Due { node, visit: 1 }));
        let number = self.number();
        self.forge(&state, state.epoch() - 1, vec![due], number);
    }

    fn forge(&mut self, state: &State, epoch: u64, events: Vec<Event>, author: u64) {
        let entry = |event| Entry { cause: None, event };
        let commit = Commit {
            v: FORMAT,
            tenant: self.tenant.clone(),
            tree: state.tree().clone(),
            run: state.run().clone(),
            seq: state.next_seq(),
            epoch,
            prev: state.head(),
            at: self.now(),
            trace: String::new(),
            parent: None,
            events: events.into_iter().map(entry).collect(),
        };
        let Ok(bytes) = commit.encode() else {
            return;
        };
        if self.server.is_gone {
            return;
        }
        let hash = Digest::of(&bytes);
        self.laws.made(&(commit.run.clone(), author), hash);
        let message = Message {
            tenant: commit.tenant,
            lane: Lane::Commits,
            payload: wire::encode_commits(&[bytes.into()]),
        };
        let seq = self.server.stream.append(message);
        self.note(format_args!(
            "another author: {} epoch {epoch} {hash:?} as {seq}",
            commit.run
        ));
        self.bring();
    }
}
