//! What a fault of the command line may change in what a scenario counts, which was written without it.
//!
//! A death makes claims, restarts and doubts, a doubt is asked about, a callback that comes again is absorbed: of these there may be more.
//! A receipt that was lost is found by a look-up instead, so fewer effects may land by their own answer. Ends, joins, what exists at the
//! desk, the rebuild, and that nothing is done twice or lost stay exact.

use crate::scenario::{Count, DeskCount, EventKind};

/// Kinds of which a fault may add some.
const MORE: [&str; 15] = [
    "callback.absorbed",
    "callback.refused",
    "child.crashed",
    "child.restarted",
    "effect.intended",
    "effect.lost",
    "effect.not_sent",
    "effect.reconciled",
    "effect.retryable",
    "effect.unknown",
    "fault.injected",
    "host.started",
    "model.asked",
    "model.failed",
    "run.claimed",
];
/// The kind of which there may be fewer: what a look-up finds is recorded as `effect.reconciled`.
const FEWER: &str = "effect.landed";

/// Whether there is any, and what was judged with it.
pub(super) struct Leeway {
    given: bool,
    used: Vec<String>,
}

impl Leeway {
    /// Leeway only where the command line gave a fault.
    pub fn of(faults_of_the_command_line: usize) -> Self {
        Self {
            given: faults_of_the_command_line > 0,
            used: Vec::new(),
        }
    }

    /// What is held against the number of events of a kind.
    pub fn events(&mut self, name: &str, kind: &EventKind, written: Count) -> Count {
        match kind.as_str() {
            FEWER => self.loosened(name, written, written.or_fewer()),
            kind if MORE.contains(&kind) => self.more(name, written),
            _ => written,
        }
    }

    /// What is held against a number of the desk's: more requests are no more effects.
    pub fn desk(&mut self, name: &str, what: DeskCount, written: Count) -> Count {
        match what {
            DeskCount::Reads | DeskCount::Callbacks => self.more(name, written),
            DeskCount::Tickets | DeskCount::Refunds | DeskCount::Files => written,
        }
    }

    /// Of this there may be more than is written.
    pub fn more(&mut self, name: &str, written: Count) -> Count {
        self.loosened(name, written, written.or_more())
    }

    /// Whether a kind of the trajectory may be missing at its place.
    pub fn may_miss(&mut self, kind: &str) -> bool {
        let may = self.given && kind == FEWER;
        if may {
            self.note(&format!("trajectory ({FEWER})"));
        }
        may
    }

    /// The names of what was judged with it.
    pub fn used(self) -> Vec<String> {
        self.used
    }

    fn loosened(&mut self, name: &str, written: Count, loosened: Count) -> Count {
        if !self.given || written == loosened {
            return written;
        }
        self.note(name);
        loosened
    }

    fn note(&mut self, name: &str) {
        if !self.used.iter().any(|used| used == name) {
            self.used.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
