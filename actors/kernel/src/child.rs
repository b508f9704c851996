//! Children: delegated by narrowing, supervised, joined, settled (`spec/delegation.md`).

mod delegate;
mod join;
mod supervise;
mod value;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use coppice_messages::{
    Digest, Event, Payload, Spent, Timestamp,
    event::{
        child::{self, Delegated, Rejected, Returned, Settled},
        join::{Opened, SlotOutcome},
        run::Reason,
    },
    ids::{NodeName, RunId, SlotName},
};
use coppice_topology::node::{Order, Then};
use serde::Serialize;

use crate::{
    command::{ChildEnd, ChildEndFacts, Refusal},
    duty::Duty,
    state::{Meta, State},
};

/// The children of one run and the groups that they fill.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Children {
    all: BTreeMap<RunId, Child>,
    groups: BTreeMap<SlotName, Group>,
    /// Ordinals that earlier rounds have used up.
    first: BTreeMap<SlotName, u32>,
    unsettled: u32,
    /// When the children of the last minute were made, oldest first.
    made: VecDeque<Timestamp>,
    crashed: BTreeSet<RunId>,
    /// Children delegated since the last commit was recorded: they are cited once its hash is known.
    uncited: Vec<RunId>,
    /// Since when the run is closing. Outside the hash of the state: it follows from the closing, which is in it.
    #[serde(skip)]
    closing: Option<Timestamp>,
}

/// One child.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Child {
    pub(crate) delegated: Arc<Delegated>,
    pub(crate) seq: u64,
    pub(crate) commit: Digest,
    pub(crate) stage: Stage,
    pub(crate) restarts: u32,
    pub(crate) crashes: Vec<Timestamp>,
    /// Of one that is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) closing: Option<Closing>,
    answer: Option<Payload>,
    outcome: Option<SlotOutcome>,
    /// The class of its end, for people; outside the hash of the state.
    #[serde(skip)]
    class: Option<String>,
}

/// The closing of a child that is given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Closing {
    /// The limit that was passed.
    why: String,
    /// How often the actor that was to close it died.
    pub(crate) failed: u32,
}

/// Where a child stands, as its parent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// It waits for a place within the concurrency limit.
    Queued,
    /// It is to run.
    Live,
    /// Its actor died; it runs again from this time, or never.
    Crashed {
        /// From when; none when it is about to be given up.
        restart_at: Option<Timestamp>,
    },
    /// It will not be driven any more and is to be closed.
    GivenUp {
        /// The limit that was passed.
        why: String,
    },
    /// It is over and accounted for.
    Settled,
}

/// The children of one fan-out or one proposal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    opened: Opened,
    then: Then,
    order: Order,
    one_question: bool,
    made: u32,
    members: Vec<RunId>,
    /// Settled members in the order in which they came.
    came: Vec<RunId>,
    settled: u32,
    succeeded: u32,
    live: u32,
    queue: VecDeque<RunId>,
    concurrency: u32,
    outcomes: Option<Vec<SlotOutcome>>,
    decided_at: Option<Timestamp>,
    /// Since when its node is over without a decision: nobody will join its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_at: Option<Timestamp>,
}

impl Group {
    /// Whether a member is at work, dead or about to be closed.
    pub(crate) fn has_live(&self) -> bool {
        self.live > 0
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.outcomes.is_some()
    }

    /// Whether one of its members succeeded.
    pub(crate) fn has_success(&self) -> bool {
        self.succeeded > 0
    }

    /// Whether the members that have not come are cancelled.
    fn is_cancelled(&self) -> bool {
        self.is_decided() && self.then == Then::Cancel
    }
}

impl Children {
    pub(crate) fn get(&self, child: &RunId) -> Option<&Child> {
        self.all.get(child)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = RunId> {
        self.all.keys().cloned()
    }

    pub(crate) fn group(&self, slot: &SlotName) -> Option<&Group> {
        self.groups.get(slot)
    }

    pub(crate) fn all_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// The run is closing: no join will be decided any more.
    pub(crate) fn close(&mut self, at: Timestamp) {
        self.closing = Some(at);
    }

    /// The node is over: a group of its that is not decided will not be.
    pub(crate) fn leave(&mut self, node: &NodeName, at: Timestamp, touched: &mut Vec<Duty>) {
        let left = |group: &&mut Group| group.opened.node == *node && !group.is_decided();
        for group in self.groups.values_mut().filter(left) {
            group.left_at = Some(at);
            touched.extend(group.members.iter().cloned().map(Duty::Child));
        }
    }

    /// Since when the group's join will never be decided: its node is over, or the run is closing.
    fn left_since(&self, group: &Group) -> Option<Timestamp> {
        let left = group.left_at.or(self.closing);
        left.filter(|_| !group.is_decided())
    }

    /// Groups whose members are cancelled, and since when: all of them once the run is, else those whose join decided so, and those
    /// whose join will never be decided.
    pub(crate) fn cancelled(
        &self,
        run: Option<Timestamp>,
    ) -> impl Iterator<Item = (&Group, Timestamp)> {
        let since = move |group: &Group| {
            let decided = group.decided_at.filter(|_| group.is_cancelled());
            run.or(decided).or(self.left_since(group))
        };
        self.groups
            .values()
            .filter_map(move |group| Some((group, since(group)?)))
    }

    /// Why this child is cancelled although its parent is not.
    pub(crate) fn cancelled_because(&self, child: &Child) -> Option<&'static str> {
        let group = self.groups.get(&child.delegated.slot)?;
        if group.is_cancelled() {
            return Some("its join was decided without it");
        }
        self.left_since(group)?;
        Some("its parent goes on or ends without it")
    }

    /// Members of a group that wait for a place.
    pub(crate) fn queued<'a>(
        &'a self,
        group: &'a Group,
    ) -> impl Iterator<Item = (&'a RunId, &'a Child)> {
        group
            .queue
            .iter()
            .filter_map(|id| self.all.get_key_value(id))
    }

    /// Members of a group whose actor is to run.
    pub(crate) fn live<'a>(
        &'a self,
        group: &'a Group,
    ) -> impl Iterator<Item = (&'a RunId, &'a Child)> {
        let all = group
            .members
            .iter()
            .filter_map(|id| self.all.get_key_value(id));
        all.filter(|(_, child)| child.stage == Stage::Live)
    }

    /// A new round makes a new group for the slot; its ordinals go on.
    pub(crate) fn retire(&mut self, slot: &SlotName) {
        if let Some(group) = self.groups.remove(slot) {
            self.first
                .insert(slot.clone(), group.opened.first + group.opened.members);
        }
    }

    /// Ordinal of the next group's first member.
    pub(crate) fn first(&self, slot: &SlotName) -> u32 {
        self.first.get(slot).copied().unwrap_or(0)
    }

    /// How many children have been made.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    fn made_within_minute(&self, now: Timestamp) -> u32 {
        let since = now.minus(coppice_messages::Millis(60_000));
        u32::try_from(self.made.iter().filter(|made| **made > since).count()).unwrap_or(u32::MAX)
    }

    /// The commit that delegated the newest children is recorded: they can cite it from now on.
    pub(crate) fn cite(&mut self, hash: Digest) {
        for child in std::mem::take(&mut self.uncited) {
            if let Some(child) = self.all.get_mut(&child) {
                child.commit = hash;
            }
        }
    }
}

impl State {
    pub(crate) fn decide_child_ended(&self, end: ChildEnd) -> Result<Vec<Event>, Refusal> {
        let live = |child: &&Child| child.stage != Stage::Settled;
        let child = self
            .children
            .get(&end.child)
            .filter(live)
            .ok_or_else(|| Refusal::NotAChild(end.child.clone()))?;
        let granted = child.delegated.envelope.budget().clone();
        let id = end.child;
        let Some(ChildEndFacts {
            reason,
            class,
            answer,
            usage,
            commit,
            answer_valid,
        }) = end.end
        else {
            // Nothing can be read of it, so its whole grant counts as used.
            let settled = Settled {
                child: id,
                charged: granted,
                returned: Spent::default(),
            };
            return Ok(vec![Event::Child(child::Event::Settled(settled))]);
        };
        let mut events = vec![Event::Child(child::Event::Returned(Returned {
            child: id.clone(),
            reason,
            class,
            answer,
            commit,
        }))];
        if let (Reason::Succeeded, Err((schema, why))) = (reason, answer_valid) {
            events.push(Event::Child(child::Event::Rejected(Rejected {
                child: id.clone(),
                schema,
                why,
            })));
        }
        let returned = granted.less(&usage);
        events.push(Event::Child(child::Event::Settled(Settled {
            child: id,
            charged: usage,
            returned,
        })));
        Ok(events)
    }

    pub(crate) fn evolve_child(
        &mut self,
        event: &child::Event,
        meta: Meta,
        touched: &mut Vec<Duty>,
    ) {
        match event {
            child::Event::Delegated(delegated) => self.evolve_delegated(delegated, meta, touched),
            child::Event::Crashed(crashed) => {
                self.children.crashed.insert(crashed.child.clone());
                self.touch_child(&crashed.child, touched, |child| {
                    child.crashes.push(meta.at);
                    if let Some(closing) = &mut child.closing {
                        closing.failed += 1;
                    }
                    child.stage = Stage::Crashed {
                        restart_at: crashed.restart_at,
                    };
                });
            }
            child::Event::Restarted(restarted) => {
                self.children.crashed.remove(&restarted.child);
                self.touch_child(&restarted.child, touched, |child| {
                    child.restarts = restarted.nth;
                    child.stage = match &child.closing {
                        None => Stage::Live,
                        Some(closing) => Stage::GivenUp {
                            why: closing.why.clone(),
                        },
                    };
                });
            }
            child::Event::GivenUp(given_up) => {
                self.children.crashed.remove(&given_up.child);
                self.touch_child(&given_up.child, touched, |child| {
                    let why = given_up.why.clone();
                    child.stage = Stage::GivenUp { why: why.clone() };
                    child.closing.get_or_insert(Closing { why, failed: 0 });
                });
            }
            child::Event::Returned(returned) => {
                self.touch_child(&returned.child, touched, |child| {
                    child.outcome = Some(SlotOutcome::Ended(returned.reason));
                    child.answer.clone_from(&returned.answer);
                    child.class.clone_from(&returned.class);
                })
            }
            child::Event::Rejected(rejected) => {
                self.touch_child(&rejected.child, touched, |child| {
                    child.outcome = Some(SlotOutcome::ResultInvalid);
                })
            }
            child::Event::Settled(settled) => self.evolve_settled(settled, touched),
        }
    }

    fn touch_child(
        &mut self,
        child: &RunId,
        touched: &mut Vec<Duty>,
        change: impl FnOnce(&mut Child),
    ) {
        if let Some(state) = self.children.all.get_mut(child) {
            change(state);
        }
        touched.push(Duty::Child(child.clone()));
    }

    fn evolve_delegated(&mut self, delegated: &Delegated, meta: Meta, touched: &mut Vec<Duty>) {
        let id = delegated.envelope.run().clone();
        self.account.children = self.account.children.plus(delegated.envelope.budget());
        let children = &mut self.children;
        children.unsettled += 1;
        children.made.push_back(meta.at);
        let since = meta.at.minus(coppice_messages::Millis(60_000));
        while children.made.front().is_some_and(|made| *made <= since) {
            children.made.pop_front();
        }
        let mut stage = Stage::Live;
        if let Some(group) = children.groups.get_mut(&delegated.slot) {
            group.made += 1;
            group.members.push(id.clone());
            if group.live >= group.concurrency {
                stage = Stage::Queued;
                group.queue.push_back(id.clone());
            } else {
                group.live += 1;
            }
        }
        let child = Child {
            delegated: Arc::new(delegated.clone()),
            seq: meta.seq,
            commit: Digest::ZERO,
            stage,
            restarts: 0,
            crashes: Vec::new(),
            closing: None,
            answer: None,
            outcome: None,
            class: None,
        };
        children.all.insert(id.clone(), child);
        children.uncited.push(id.clone());
        touched.push(Duty::Child(id));
    }

    fn evolve_settled(&mut self, settled: &Settled, touched: &mut Vec<Duty>) {
        self.children.crashed.remove(&settled.child);
        let Some(child) = self.children.all.get_mut(&settled.child) else {
            return;
        };
        let was = std::mem::replace(&mut child.stage, Stage::Settled);
        let queued = was == Stage::Queued;
        child.outcome.get_or_insert(if queued {
            SlotOutcome::Skipped
        } else {
            SlotOutcome::Unreachable
        });
        let succeeded = child.outcome == Some(SlotOutcome::Ended(Reason::Succeeded));
        let ordinal = child.delegated.ordinal;
        let (slot, granted) = (
            child.delegated.slot.clone(),
            child.delegated.envelope.budget().clone(),
        );
        self.account.children = self.account.children.less(&granted);
        self.account.used = self.account.used.plus(&settled.charged);
        self.children.unsettled -= 1;
        touched.push(Duty::Child(settled.child.clone()));
        // A child of an earlier round fills no place in this one.
        let of_round = |group: &&mut Group| ordinal >= group.opened.first;
        let Some(group) = self.children.groups.get_mut(&slot).filter(of_round) else {
            return;
        };
        group.settled += 1;
        group.came.push(settled.child.clone());
        group.succeeded += u32::from(succeeded);
        if queued {
            group.queue.retain(|waiting| *waiting != settled.child);
            return;
        }
        group.live = group.live.saturating_sub(1);
        let nobody_waits = self.children.closing.is_some() && !group.is_decided();
        let next = if self.lifecycle.cancel.is_some() || group.is_cancelled() || nobody_waits {
            None
        } else {
            group.queue.pop_front()
        };
        if let Some(next) = next {
            group.live += 1;
            self.touch_child(&next, touched, |child| child.stage = Stage::Live);
        }
    }
}
