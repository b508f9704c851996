//! The simulated host: one process with a publisher, a reader, a recorder, a broker and run actors. All of it is gone when the process dies.

mod actors;
mod broker;
mod carry;
mod children;
mod doubts;
mod publisher;
mod reader;
mod recorder;
mod roots;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use coppice_kernel::command::EffectOutcome;
use coppice_messages::{
    Digest,
    ids::{EffectKey, RunId},
};
use coppice_store::{hold::Hold, refill::Refill};

pub(super) use self::actors::Told;
use self::{
    actors::{Actor, Unstored},
    broker::Exchange,
    publisher::Sending,
    reader::Reader,
    recorder::Recorder,
    roots::Root,
};
use super::{server::Server, step::ActorId, step::Step, world::World};

/// See the module.
pub(super) struct Host {
    pub up: bool,
    /// The how-manieth.
    pub nth: u64,
    hold: Hold,
    /// What the stream lost; goes before what is held.
    refill: Refill,
    /// Whether the stream is known to be the one that the log was read from; nothing is sent while it is not.
    is_ready: bool,
    sending: Option<Sending>,
    /// Sendings in a row that were not acknowledged.
    unclear: u32,
    /// When the recorder last spoke.
    heard: u64,
    reader: Reader,
    recorder: Recorder,
    /// Whether the stream was read to where it ended at the start, and the roots were started.
    started: bool,
    actors: BTreeMap<RunId, Actor>,
    roots: BTreeMap<RunId, Root>,
    exchanges: BTreeMap<u64, Exchange>,
    flights: BTreeMap<EffectKey, u64>,
    /// Runs of which a cancel is admitted, in this process's life: withheld from the moment at which its batch is gathered.
    cancelled: BTreeSet<RunId>,
    /// Answers of the desk on their way back.
    replies: BTreeMap<u64, EffectOutcome>,
    /// What waiters were told, in order, until it is put into mailboxes.
    told: Arc<Mutex<Vec<Told>>>,
    /// Commits that wait for blobs which they cite.
    unstored: Vec<Unstored>,
}

impl Host {
    /// A process that is not running.
    pub fn down(nth: u64) -> Self {
        Self {
            up: false,
            nth,
            hold: Hold::default(),
            refill: Refill::default(),
            is_ready: false,
            sending: None,
            unclear: 0,
            heard: 0,
            reader: Reader::new(None, None),
            recorder: Recorder::new(None),
            started: false,
            actors: BTreeMap::new(),
            roots: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            flights: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            replies: BTreeMap::new(),
            told: Arc::default(),
            unstored: Vec::new(),
        }
    }

    /// Whether nothing is on its way.
    pub fn is_idle(&self, server: &Server) -> bool {
        self.hold.is_empty()
            && self.refill.is_empty()
            && self.is_ready
            && self.sending.is_none()
            && self.recorder.is_idle()
            && self.reader.seq() == server.stream.info().last
            && self.actors.is_empty()
    }

    /// Actors of runs, for the laws.
    pub fn actors(&self) -> impl Iterator<Item = (&RunId, &Actor)> {
        self.actors.iter()
    }

    pub fn actor(&self, run: &RunId) -> Option<&Actor> {
        self.actors.get(run)
    }

    /// Whether this sending of the broker is not answered yet.
    pub fn is_under_way(&self, sending: u64) -> bool {
        self.exchanges.contains_key(&sending)
    }

    /// The last message that was read of the stream, in the log or not.
    pub fn read_so_far(&self) -> u64 {
        if self.up { self.reader.seq() } else { 0 }
    }

    /// The last message that the stream had when it was last asked.
    pub fn seen(&self) -> u64 {
        self.reader.seen()
    }

    pub fn describe(&self) -> String {
        let actors: Vec<String> = self
            .actors
            .iter()
            .map(|(run, actor)| format!("{run}: {}", actor.describe()))
            .collect();
        format!(
            "host {} up {}, ready {}, held {}, to put back {}, sending {}, read {}, batch {}; {}",
            self.nth,
            self.up,
            self.is_ready,
            self.hold.len(),
            self.refill.count(),
            self.sending.is_some(),
            self.reader.seq(),
            !self.recorder.is_idle(),
            actors.join("; ")
        )
    }
}

impl World {
    /// The host is started.
    pub(super) fn host_up(&mut self) {
        let nth = self.host.nth + 1;
        self.note(format_args!("host {nth} up, log {}", self.log.len()));
        self.host = Host {
            up: true,
            heard: self.mono,
            refill: self.log.refill(),
            reader: Reader::new(self.log.position(), self.log.oldest_message()),
            recorder: Recorder::new(self.log.position()),
            ..Host::down(nth)
        };
        self.put(2_000_000, Step::Silence);
        // A connection of its own.
        self.server.link += 1;
        self.server.consumer = None;
        if self.server.is_up {
            self.connected();
        }
    }

    /// The host's process is killed.
    pub(super) fn kill_host(&mut self) {
        if !self.host.up {
            return;
        }
        let batch = self.host.recorder.batch();
        // An fsync under way reached the disk or did not; nobody was told.
        let survives = batch.is_some() && self.seed.one_in(2);
        let nth = self.host.nth;
        self.note(format_args!("host {nth} killed, batch survives {survives}"));
        if let Some(batch) = batch.filter(|_| survives) {
            let synced = self.log.sync(batch);
            self.recorded(&synced);
        }
        self.stop_host();
    }

    /// The process is gone; it is started again after a while.
    pub(super) fn stop_host(&mut self) {
        self.agenda.retain(|step| !step.is_of_host());
        self.host = Host::down(self.host.nth);
        self.server.consumer = None;
        self.server.link += 1;
        self.put_between(5_000, 3_000_000, Step::HostUp);
    }

    /// The connection stands: the reader looks anew, the publisher sends again what it holds.
    pub(super) fn connected(&mut self) {
        if !self.host.up {
            return;
        }
        self.unclear();
        self.put(0, Step::Look);
    }

    /// The roots are started once the stream was read to where it ended when the host came up.
    pub(super) fn start_roots(&mut self) {
        if self.host.started || !self.host.reader.has_caught_up(self.host.recorder.read()) {
            return;
        }
        self.host.started = true;
        self.check_recovered();
        let roots: Vec<RunId> = self.trees.keys().cloned().collect();
        for root in roots {
            if !self.laws.has_ended(&root) {
                self.put_between(0, 50_000, Step::Root(root));
            }
        }
        self.start_doubts();
    }

    pub(super) fn is_alive(&self, actor: &ActorId) -> bool {
        self.host
            .actors
            .get(&actor.0)
            .is_some_and(|known| known.nth == actor.1)
    }

    /// Digests that this host's publisher was told about, for the laws.
    pub(super) fn told(&mut self) -> Vec<Told> {
        self.host
            .told
            .lock()
            .map(|mut told| std::mem::take(&mut *told))
            .unwrap_or_default()
    }

    /// The blobs that are whole now let commits go that waited for them.
    pub(super) fn stored(&mut self, blobs: &BTreeSet<Digest>) {
        let mut ready = Vec::new();
        for unstored in &mut self.host.unstored {
            unstored.blobs.retain(|blob| !blobs.contains(blob));
        }
        self.host.unstored.retain_mut(|unstored| {
            if unstored.blobs.is_empty() {
                ready.extend(unstored.take());
            }
            !unstored.blobs.is_empty()
        });
        for (actor, prepared) in ready {
            if self.is_alive(&actor) {
                self.submit(&actor, prepared);
            }
        }
    }
}
