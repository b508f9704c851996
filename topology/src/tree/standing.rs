//! What a run is doing now, why it is not done, and who can unblock it.

use coppice_messages::Timestamp;

use super::{
    fold::{Child, Folded, Status},
    frame::{NodeState, State, Waiting, WaitingFor},
};

/// Children that are named one by one.
const NAMED: usize = 3;

/// Where a run stands, and in words what it is doing.
pub(super) struct Standing {
    pub state: State,
    pub doing: String,
    pub waiting: Option<Waiting>,
}

/// From the run's own events and, for a child, what its parent recorded.
pub(super) fn standing(run: &Folded, by_parent: Option<&Child>) -> Standing {
    if run.ended.is_some() || by_parent.is_some_and(|child| child.settled) {
        return Standing {
            state: State::Ended,
            doing: String::new(),
            waiting: None,
        };
    }
    if let Some(waiting) = by_parent.and_then(dead) {
        return waits(run, waiting);
    }
    if run.events == 0 {
        return works(State::Delegated, "is about to begin".to_owned());
    }
    if let Some(doing) = under_way(run) {
        return works(State::Running, doing);
    }
    let waiting = unclear(run)
        .or_else(|| children(run))
        .or_else(|| again(run));
    if let Some(waiting) = waiting {
        return waits(run, waiting);
    }
    if let Some(standing) = timer(run) {
        return standing;
    }
    let started = run
        .nodes
        .iter()
        .find(|(_, state)| **state == NodeState::Started);
    match started {
        Some((node, _)) => works(State::Running, format!("is at {node}")),
        None if run.nodes.is_empty() => works(State::Opened, "has not begun".to_owned()),
        None => works(State::Running, "goes on to its next node".to_owned()),
    }
}

fn works(state: State, doing: String) -> Standing {
    Standing {
        state,
        doing,
        waiting: None,
    }
}

/// It waits since the last that its chain has.
fn waits(run: &Folded, (what, doing, who): Wait) -> Standing {
    Standing {
        state: State::Waiting,
        doing,
        waiting: Some(Waiting {
            what,
            who,
            since: run.last.as_ref().map(|last| last.at),
            until: None,
        }),
    }
}

type Wait = (WaitingFor, String, String);

/// Its actor is dead, as its parent recorded.
fn dead(child: &Child) -> Option<Wait> {
    if let Some(why) = &child.given_up {
        return Some((
            WaitingFor::Supervisor,
            format!("was given up: {why}"),
            "its parent's host closes it".to_owned(),
        ));
    }
    let (why, restart_at) = child.crashed.as_ref()?;
    let who = match restart_at {
        Some(at) => format!("its parent starts it again at {}", clock(*at)),
        None => "its parent gives it up".to_owned(),
    };
    Some((WaitingFor::Supervisor, format!("died: {why}"), who))
}

/// A model or a tool at work for it.
fn under_way(run: &Folded) -> Option<String> {
    let models = run
        .models
        .values()
        .map(|asking| format!("asks {} (call {})", asking.route, asking.call));
    let open = run
        .effects
        .values()
        .filter(|effect| effect.status == Status::Open);
    let all: Vec<String> = models
        .chain(open.map(|effect| format!("calls {}", effect.tool)))
        .collect();
    match all.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        [first, more @ ..] => Some(format!("{first} and {} more", more.len())),
    }
}

/// An effect of which nobody knows.
fn unclear(run: &Folded) -> Option<Wait> {
    let doubts = run.in_doubt();
    let doubt = doubts
        .iter()
        .find(|doubt| doubt.for_a_person)
        .or(doubts.first())?;
    let doing = format!("does not know whether {} happened", doubt.tool);
    if doubt.for_a_person {
        let who = format!("a person: {}", doubt.why);
        return Some((WaitingFor::Person, doing, who));
    }
    let who = format!("the look-up of {} by key: {}", doubt.tool, doubt.why);
    Some((WaitingFor::Reconciliation, doing, who))
}

fn children(run: &Folded) -> Option<Wait> {
    let live: Vec<&Child> = run
        .children
        .values()
        .filter(|child| !child.settled)
        .collect();
    if live.is_empty() {
        return None;
    }
    let mut names: Vec<(&str, u32)> = live
        .iter()
        .map(|child| (child.slot.as_str(), child.ordinal))
        .collect();
    names.sort_unstable();
    let named: Vec<String> = names
        .iter()
        .take(NAMED)
        .map(|(slot, ordinal)| format!("{slot}[{ordinal}]"))
        .collect();
    let mut who = named.join(", ");
    if live.len() > NAMED {
        who.push_str(&format!(" and {} more", live.len() - NAMED));
    }
    let doing = format!(
        "waits for {} of {} {}",
        live.len(),
        run.children.len(),
        match run.children.len() {
            1 => "child",
            _ => "children",
        }
    );
    Some((WaitingFor::Child, doing, who))
}

fn again(run: &Folded) -> Option<Wait> {
    let tried_again = |effect: &super::fold::Effect| match &effect.status {
        Status::Again(why) => Some((effect.tool.clone(), why.clone())),
        Status::Open | Status::Unknown(_) | Status::Escalated(_) => None,
    };
    let (tool, why) = run.effects.values().find_map(tried_again)?;
    let doing = format!("tries {tool} again");
    Some((WaitingFor::Timer, doing, format!("its backoff: {why}")))
}

fn timer(run: &Folded) -> Option<Standing> {
    let (node, due) = run.timers.iter().min_by_key(|(_, due)| **due)?;
    Some(Standing {
        state: State::Waiting,
        doing: format!("waits at {node}"),
        waiting: Some(Waiting {
            what: WaitingFor::Timer,
            who: format!("the clock, at {}", clock(*due)),
            since: run.began.get(node).copied(),
            until: Some(*due),
        }),
    })
}

/// The time of day; the date is in the frame's other times.
fn clock(at: Timestamp) -> String {
    let whole = at.to_string();
    whole
        .get(11..19)
        .map_or(whole.clone(), |time| format!("{time}Z"))
}
