//! What is going to happen, by virtual time. Of what is due at one moment the seed says which comes first.

use std::collections::BTreeMap;

use super::seed::Seed;

/// Names something on the agenda, so that it can be taken off.
pub(super) type Ticket = u64;

/// Things to come.
pub(super) struct Agenda<T> {
    entries: BTreeMap<(u64, Ticket), T>,
    due: BTreeMap<Ticket, u64>,
    last: Ticket,
}

impl<T> Agenda<T> {
    pub fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            due: BTreeMap::new(),
            last: 0,
        }
    }

    /// Puts something on it, to happen at `at` (microseconds of the clock that never steps).
    pub fn put(&mut self, at: u64, step: T) -> Ticket {
        self.last += 1;
        self.entries.insert((at, self.last), step);
        self.due.insert(self.last, at);
        self.last
    }

    /// Takes something off; whether it was on.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        match self.due.remove(&ticket) {
            Some(at) => self.entries.remove(&(at, ticket)).is_some(),
            None => false,
        }
    }

    pub fn has(&self, ticket: Ticket) -> bool {
        self.due.contains_key(&ticket)
    }

    /// Keeps only these.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let due = &mut self.due;
        self.entries.retain(|(_, ticket), step| {
            let kept = keep(step);
            if !kept {
                due.remove(ticket);
            }
            kept
        });
    }

    /// The next thing, with its time: one of those that are due by `now`, else the earliest.
    pub fn next(&mut self, now: u64, seed: &mut Seed) -> Option<(u64, T)> {
        let due = self.entries.range(..=(now, Ticket::MAX)).count();
        let at = if due > 1 { seed.index(due) } else { 0 };
        let key = *self.entries.keys().nth(at)?;
        self.due.remove(&key.1);
        self.entries.remove(&key).map(|step| (key.0, step))
    }
}
