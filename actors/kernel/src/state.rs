//! The state of one run: small parts, one concept each, and nothing that the log does not say.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use coppice_messages::{
    Account, Blobs, Commit, Digest, Event, Millis, Payload, Timestamp, Value,
    event::{self, run::Opened},
    ids::{NodeName, RunId, TenantId, TreeId},
};
use coppice_topology::{
    Graph, Plan,
    expr::{Scope, Source},
    node::Kind,
    plan::Progress,
};
use serde::Serialize;

use crate::{
    agent::Agents, check::Checks, child::Children, duty::Duty, effect::Effects, governor::Governor,
    lifecycle::Lifecycle, progress::Nodes, wait::Waits,
};

/// Where an event stands: its number, the epoch and time of its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Number in the chain.
    pub seq: u64,
    /// The commit's epoch.
    pub epoch: u64,
    /// The commit's time.
    pub at: Timestamp,
}

/// Whether the store has room for what begins something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It has.
    Enough,
    /// What is left is for receipts, cancels and ends: no intent is decided, so that none stands in front of them.
    Low,
}

/// What a decision may look at beside the state, and where it puts what is too large for an event.
pub struct Turn<'a> {
    /// The host's clock.
    pub now: Timestamp,
    /// The store's room.
    pub room: Room,
    blobs: &'a dyn Blobs,
    governor: Option<Arc<dyn Governor>>,
    kept: RefCell<BTreeMap<Digest, Vec<u8>>>,
}

impl<'a> Turn<'a> {
    /// A turn at this time, with the values behind blobs at hand.
    #[must_use]
    pub fn new(now: Timestamp, room: Room, blobs: &'a dyn Blobs) -> Self {
        Self {
            now,
            room,
            blobs,
            governor: None,
            kept: RefCell::default(),
        }
    }

    /// The same, with a policy set that is asked before each effect. Without one, what envelope and contract allow is allowed.
    #[must_use]
    pub fn governed_by(self, governor: Option<Arc<dyn Governor>>) -> Self {
        Self { governor, ..self }
    }

    pub(crate) fn governor(&self) -> Option<&dyn Governor> {
        self.governor.as_deref()
    }

    /// The value of a payload; none when its blob is not at hand.
    #[must_use]
    pub fn resolve(&self, payload: &Payload) -> Option<Value> {
        match payload {
            Payload::Inline(value) => Some(value.clone()),
            Payload::Blob { digest, .. } => match self.kept.borrow().get(digest) {
                Some(bytes) => Value::parse(bytes).ok(),
                None => self.blobs.value(digest),
            },
        }
    }

    /// The value as a payload; a large one becomes a blob, which must be stored before the commit that cites it.
    #[must_use]
    pub fn keep(&self, value: Value) -> Payload {
        let (payload, bytes) = Payload::of(value);
        self.keep_bytes(&payload, bytes);
        payload
    }

    /// The same for a value whose payload was needed to decide whether it is cited at all.
    pub(crate) fn keep_bytes(&self, payload: &Payload, bytes: Option<Vec<u8>>) {
        if let (Payload::Blob { digest, .. }, Some(bytes)) = (payload, bytes) {
            self.kept.borrow_mut().insert(*digest, bytes);
        }
    }

    /// What was kept and is to be stored.
    pub(crate) fn into_kept(self) -> BTreeMap<Digest, Vec<u8>> {
        self.kept.into_inner()
    }
}

/// The state of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct State {
    #[serde(skip)]
    pub(crate) plan: Arc<Plan>,
    pub(crate) tenant: TenantId,
    pub(crate) tree: TreeId,
    pub(crate) run: RunId,
    pub(crate) next_seq: u64,
    pub(crate) epoch: u64,
    pub(crate) head: Digest,
    pub(crate) last_at: Timestamp,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) account: Account,
    pub(crate) nodes: Nodes,
    pub(crate) agents: Agents,
    pub(crate) effects: Effects,
    pub(crate) children: Children,
    pub(crate) checks: Checks,
    pub(crate) waits: Waits,
}

/// A chain that cannot be folded.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// A newer build wrote it.
    #[error("run {run}, event {seq}: unknown kind {kind:?}: start a newer build")]
    UnknownEvent {
        /// Which run.
        run: RunId,
        /// At which event.
        seq: u64,
        /// Its kind.
        kind: String,
    },
    /// A recorded child has more than its parent.
    #[error("run {run}, event {seq}: the envelope of child {child} is wider than its parent's")]
    WiderChild {
        /// Which run.
        run: RunId,
        /// At which event.
        seq: u64,
        /// Which child.
        child: RunId,
    },
    /// The commit does not follow on the one before.
    #[error("run {run}: a commit begins at event {found}, expected {expected}")]
    Gap {
        /// Which run.
        run: RunId,
        /// Expected number.
        expected: u64,
        /// Found number.
        found: u64,
    },
}

impl State {
    /// A run of which nothing is recorded yet.
    #[must_use]
    pub fn new(plan: Arc<Plan>, tenant: TenantId, tree: TreeId, run: RunId) -> Self {
        Self {
            plan,
            tenant,
            tree,
            run,
            next_seq: 1,
            epoch: 1,
            head: Digest::ZERO,
            last_at: Timestamp(0),
            lifecycle: Lifecycle::default(),
            account: Account::default(),
            nodes: Nodes::default(),
            agents: Agents::default(),
            effects: Effects::default(),
            children: Children::default(),
            checks: Checks::default(),
            waits: Waits::default(),
        }
    }

    /// Takes in one recorded commit. `hash` is that of its bytes.
    ///
    /// # Errors
    /// [`FoldError`]: the state is then that of the events before.
    pub fn fold(&mut self, commit: &Commit, hash: Digest) -> Result<(), FoldError> {
        if commit.seq != self.next_seq {
            return Err(FoldError::Gap {
                run: self.run.clone(),
                expected: self.next_seq,
                found: commit.seq,
            });
        }
        let mut touched = Vec::new();
        for entry in &commit.events {
            self.check_recorded(&entry.event)?;
            let meta = Meta {
                seq: self.next_seq,
                epoch: commit.epoch,
                at: commit.at,
            };
            self.evolve(&entry.event, meta, &mut touched);
        }
        self.recorded(hash);
        Ok(())
    }

    /// The commit that holds the events taken in last is recorded, with this hash.
    pub(crate) fn recorded(&mut self, hash: Digest) {
        self.head = hash;
        self.children.cite(hash);
    }

    fn check_recorded(&self, event: &Event) -> Result<(), FoldError> {
        match event {
            Event::Unrecognised { kind } => Err(FoldError::UnknownEvent {
                run: self.run.clone(),
                seq: self.next_seq,
                kind: kind.clone(),
            }),
            Event::Child(event::child::Event::Delegated(delegated)) => {
                let admitted = self
                    .opened()
                    .is_some_and(|opened| opened.envelope.admits(&delegated.envelope));
                if admitted {
                    return Ok(());
                }
                let child = delegated.envelope.run().clone();
                Err(FoldError::WiderChild {
                    run: self.run.clone(),
                    seq: self.next_seq,
                    child,
                })
            }
            Event::Run(_)
            | Event::Node(_)
            | Event::Child(_)
            | Event::Join(_)
            | Event::Model(_)
            | Event::Effect(_)
            | Event::Policy(_)
            | Event::Check(_)
            | Event::Budget(_)
            | Event::Progress(_)
            | Event::Timer(_)
            | Event::Callback(_)
            | Event::System(_) => Ok(()),
        }
    }

    /// Takes in one event. Total; knows no clock. What may be owed differently afterwards is added to `touched`.
    pub fn evolve(&mut self, event: &Event, meta: Meta, touched: &mut Vec<Duty>) {
        self.next_seq = meta.seq + 1;
        self.epoch = meta.epoch;
        self.last_at = meta.at;
        match event {
            Event::Run(event) => self.evolve_run(event, meta, touched),
            Event::Node(event) => self.evolve_node(event, meta, touched),
            Event::Child(event) => self.evolve_child(event, meta, touched),
            Event::Join(event) => self.evolve_join(event, meta, touched),
            Event::Model(event) => self.evolve_model(event, meta, touched),
            Event::Effect(event) => self.evolve_effect(event, meta, touched),
            Event::Policy(event) => self.evolve_policy(event, touched),
            Event::Check(event) => self.evolve_check(event, meta, touched),
            Event::Budget(event) => self.evolve_budget(event, meta, touched),
            Event::Timer(event) => self.evolve_timer(event),
            Event::Callback(event) => self.evolve_callback(event),
            // What follows from it, the end of the node, is in the same commit.
            Event::Progress(_) => {}
            Event::System(_) | Event::Unrecognised { .. } => {}
        }
        if self.is_cancelling() {
            touched.push(Duty::Receipt);
        }
    }

    /// The run's id.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The tree's id.
    #[must_use]
    pub fn tree(&self) -> &TreeId {
        &self.tree
    }

    /// Whose run.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The compiled release.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Number of the next event.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The current epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// SHA-256 of the last commit's bytes.
    #[must_use]
    pub fn head(&self) -> Digest {
        self.head
    }

    /// What is granted, used, reserved and left.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The first event, once it is there.
    #[must_use]
    pub fn opened(&self) -> Option<&Opened> {
        self.lifecycle.opened.as_deref()
    }

    /// The last event, once it is there.
    #[must_use]
    pub fn ended(&self) -> Option<&event::run::Ended> {
        self.lifecycle.ended.as_ref()
    }

    /// SHA-256 over the whole state, to compare folds within one build.
    #[must_use]
    pub fn hash(&self) -> Digest {
        // Every part derives Serialize from plain data; there is nothing that MessagePack cannot say.
        Digest::of(&rmp_serde::to_vec_named(self).unwrap_or_default())
    }

    /// The nodes of this run's program.
    pub(crate) fn graph(&self) -> Option<&Graph> {
        self.opened()
            .and_then(|opened| self.plan.graph(&opened.program))
    }

    /// What a node of this run does.
    pub(crate) fn kind(&self, node: &NodeName) -> Option<Kind<'_>> {
        self.graph()?.nodes.get(node)?.kind().ok()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lifecycle.opened.is_some() && self.lifecycle.ended.is_none()
    }

    /// When the run must be over, if it is open.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.opened().map(|opened| opened.envelope.deadline())
    }

    /// The earliest time at which something falls due without anybody's doing. While room is low no further try of an effect is: it waits for
    /// room and not for a time.
    #[must_use]
    pub fn due(&self, room: Room) -> Option<Timestamp> {
        if !self.is_open() {
            return None;
        }
        let again = match room {
            Room::Enough => self.effects_due(),
            Room::Low => None,
        };
        let any_time = [self.children.due(), self.cancel_due()];
        let unless_closing = [self.deadline(), again, self.waits.due(), self.joins_due()];
        let closing = self.lifecycle.closing.is_some();
        let dues = any_time
            .into_iter()
            .chain(unless_closing.into_iter().filter(|_| !closing));
        dues.flatten().min()
    }

    /// The scope in which this run's templates are resolved.
    pub(crate) fn scope<'a>(&'a self, turn: &'a Turn<'_>) -> impl Scope + 'a {
        move |source: &Source| match source {
            Source::Input | Source::Item => turn.resolve(&self.opened()?.input),
            Source::Node(node) => self.node_value(node, turn),
            Source::Arguments | Source::Receipt | Source::Body | Source::Check => None,
        }
    }

    /// The value of a node that is done.
    #[must_use]
    pub fn node_value(&self, node: &NodeName, turn: &Turn<'_>) -> Option<Value> {
        if self.nodes.progress(node) != Progress::Done {
            return None;
        }
        match self.kind(node)? {
            Kind::Call(_) => turn.resolve(self.effects.value(self.nodes.effect(node)?)?),
            Kind::Agent(_) => turn.resolve(self.agents.answer(node)?),
            Kind::FanOut(fan_out, ..) => self.children.group_value(&fan_out.slot, turn),
            Kind::Join(join) => Some(self.gathered_value(node, join, turn)),
            Kind::Wait(wait) => Some(
                self.waited_for(node, wait)
                    .and_then(|value| turn.resolve(value))
                    .unwrap_or_default(),
            ),
            Kind::Branch(_) | Kind::Loop(_) => Some(Value::Null),
            Kind::End(_) => None,
        }
    }

    /// Milliseconds left until the deadline.
    #[must_use]
    pub fn time_left(&self, now: Timestamp) -> Option<Millis> {
        self.deadline().map(|deadline| deadline.since(now))
    }

    /// How far each node of the program is.
    #[must_use]
    pub fn progress(&self) -> BTreeMap<NodeName, Progress> {
        let Some(graph) = self.graph() else {
            return BTreeMap::new();
        };
        graph
            .nodes
            .keys()
            .map(|node| (node.clone(), self.nodes.progress(node)))
            .collect()
    }
}
