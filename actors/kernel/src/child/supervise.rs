//! Supervision: a child whose actor died is started again within its intensity, then given up (`spec/delegation.md` 5).

use coppice_messages::{
    Event, Timestamp,
    event::child::{self, Crashed, GivenUp, Restarted},
    ids::RunId,
};
use coppice_topology::node::{Kind, Restart, RestartKind};

use super::{Child, Children, Stage, join::BACKOFF_MAX};
use crate::{
    command::{ChildEnd, Refusal},
    limits::CLOSINGS_MAX,
    state::{State, Turn},
};

impl Children {
    pub(crate) fn due(&self) -> Option<Timestamp> {
        let restart_at = |child: &RunId| match self.all.get(child)?.stage {
            Stage::Crashed { restart_at } => restart_at,
            Stage::Queued | Stage::Live | Stage::GivenUp { .. } | Stage::Settled => None,
        };
        self.crashed.iter().filter_map(restart_at).min()
    }
}

impl State {
    fn restart_rule(&self, child: &Child) -> Restart {
        match self.kind(&child.delegated.node) {
            Some(Kind::FanOut(fan_out, ..)) => fan_out.restart.clone(),
            Some(
                Kind::Call(_)
                | Kind::Agent(_)
                | Kind::Join(_)
                | Kind::Wait(_)
                | Kind::Branch(_)
                | Kind::Loop(_)
                | Kind::End(_),
            )
            | None => Restart::default(),
        }
    }

    pub(crate) fn decide_crashed(
        &self,
        id: &RunId,
        why: String,
        turn: &Turn<'_>,
    ) -> Result<Vec<Event>, Refusal> {
        let child = self
            .children
            .get(id)
            .ok_or_else(|| Refusal::NotAChild(id.clone()))?;
        let rule = self.restart_rule(child);
        match &child.stage {
            Stage::Live => {}
            Stage::GivenUp { .. } => return self.decide_closing_crashed(id, child, why, turn),
            Stage::Queued | Stage::Crashed { .. } | Stage::Settled => {
                return Err(Refusal::NotAChild(id.clone()));
            }
        }
        let crashed = |restart_at| {
            Event::Child(child::Event::Crashed(Crashed {
                child: id.clone(),
                why,
                restart_at,
            }))
        };
        let since = turn.now.minus(rule.within);
        let recent = child.crashes.iter().filter(|at| **at > since).count();
        let recent = u32::try_from(recent).unwrap_or(u32::MAX);
        let give_up = |limit: String| {
            Event::Child(child::Event::GivenUp(GivenUp {
                child: id.clone(),
                why: limit,
            }))
        };
        Ok(match rule.kind {
            RestartKind::Temporary => vec![
                crashed(None),
                give_up("its restart kind is temporary".to_owned()),
            ],
            RestartKind::Transient if recent >= rule.at_most => {
                vec![
                    crashed(None),
                    give_up(format!(
                        "more than {} crashes within {}",
                        rule.at_most, rule.within
                    )),
                ]
            }
            RestartKind::Transient => {
                let backoff = rule.wait_after(recent).min(BACKOFF_MAX);
                vec![crashed(Some(turn.now.plus(backoff)))]
            }
        })
    }

    /// The actor that was to close a child died. Another tries, a few times; then the child is settled as it stands, and the host closes what
    /// is open of it once the tree has ended.
    fn decide_closing_crashed(
        &self,
        id: &RunId,
        child: &Child,
        why: String,
        turn: &Turn<'_>,
    ) -> Result<Vec<Event>, Refusal> {
        let failed = child.closing.as_ref().map_or(0, |closing| closing.failed);
        if failed >= CLOSINGS_MAX {
            return self.decide_child_ended(ChildEnd {
                child: id.clone(),
                end: None,
            });
        }
        let backoff = self.restart_rule(child).wait_after(failed).min(BACKOFF_MAX);
        Ok(vec![Event::Child(child::Event::Crashed(Crashed {
            child: id.clone(),
            why,
            restart_at: Some(turn.now.plus(backoff)),
        }))])
    }

    /// Children whose backoff is over.
    pub(crate) fn advance_supervision(&self, turn: &Turn<'_>) -> Vec<Event> {
        // A cancel reaches a child only through its actor, so it waits for no backoff.
        let at_once = |child: &Child| {
            self.is_cancelling() || self.children.cancelled_because(child).is_some()
        };
        let due = |id: &&RunId| {
            let child = self.children.get(id).map(|child| (child, &child.stage));
            matches!(child, Some((child, Stage::Crashed { restart_at: Some(at) })) if *at <= turn.now || at_once(child))
        };
        let restart = |id: &RunId| {
            let nth = self.children.get(id).map_or(1, |child| child.restarts + 1);
            Event::Child(child::Event::Restarted(Restarted {
                child: id.clone(),
                nth,
            }))
        };
        self.children
            .crashed
            .iter()
            .filter(due)
            .map(restart)
            .collect()
    }
}
