//! A set of numbers that mostly follow each other, kept as the first and last of each unbroken run of them.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive};

use serde::{Deserialize, Serialize};

/// Numbers, as `first → last` of each run of them. No two runs touch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Whether there is no number.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Each of them, the least first.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// How many unbroken runs there are.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.0.len()
    }

    /// The greatest number.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.0.last_key_value().map(|(_, last)| *last)
    }

    /// Whether a number is one of them.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.run_at(number).is_some()
    }

    /// The least number from `number` on.
    #[must_use]
    pub fn next_from(&self, number: u64) -> Option<u64> {
        if self.contains(number) {
            return Some(number);
        }
        self.0.range(number..).next().map(|(first, _)| *first)
    }

    /// Adds a number.
    pub fn insert(&mut self, number: u64) {
        self.insert_run(number..=number);
    }

    /// Adds every number of a run.
    pub fn insert_run(&mut self, run: RangeInclusive<u64>) {
        let (mut first, mut last) = run.into_inner();
        if first > last {
            return;
        }
        // What overlaps or touches the new run becomes part of it.
        while let Some((&start, &end)) = self.0.range(..=last.saturating_add(1)).next_back()
            && end.saturating_add(1) >= first
        {
            self.0.remove(&start);
            first = first.min(start);
            last = last.max(end);
        }
        self.0.insert(first, last);
    }

    /// Adds every number of another set.
    pub fn insert_all(&mut self, other: &Self) {
        for (first, last) in &other.0 {
            self.insert_run(*first..=*last);
        }
    }

    /// Takes a number away.
    pub fn remove(&mut self, number: u64) {
        let Some((first, last)) = self.run_at(number) else {
            return;
        };
        self.0.remove(&first);
        if first < number {
            self.0.insert(first, number - 1);
        }
        if number < last {
            self.0.insert(number + 1, last);
        }
    }

    fn run_at(&self, number: u64) -> Option<(u64, u64)> {
        let (first, last) = self.0.range(..=number).next_back()?;
        (*last >= number).then_some((*first, *last))
    }
}

/// Runs of numbers that are shown; of more it is said how many there are.
const SHOWN: usize = 20;

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (first, last)) in self.0.iter().take(SHOWN).enumerate() {
            let between = if nth == 0 { "" } else { ", " };
            if first == last {
                write!(f, "{between}{first}")?;
            } else {
                write!(f, "{between}{first} to {last}")?;
            }
        }
        match self.runs().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(_) => write!(f, " and more, {} in all", self.count()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_hold_what_a_set_of_single_numbers_holds(
            steps in prop::collection::vec((0..3_u8, 0..40_u64, 0..6_u64), 0..60),
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (kind, number, length) in steps {
                match kind {
                    0 => { ranges.insert(number); set.insert(number); }
                    1 => { ranges.remove(number); set.remove(&number); }
                    _ => {
                        ranges.insert_run(number..=number + length);
                        set.extend(number..=number + length);
                    }
                }
                prop_assert_eq!(ranges.count(), set.len() as u64);
                prop_assert_eq!(ranges.last(), set.last().copied());
                for number in 0..48 {
                    prop_assert_eq!(ranges.contains(number), set.contains(&number));
                    prop_assert_eq!(ranges.next_from(number), set.range(number..).next().copied());
                }
                let touching = ranges.0.iter().zip(ranges.0.iter().skip(1)).any(|((_, last), (next, _))| last + 1 >= *next);
                prop_assert!(!touching);
            }
        }
    }
}
