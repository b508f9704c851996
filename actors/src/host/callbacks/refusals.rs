//! How many refusals may be recorded: whoever sends rubbish without end must not fill the log.

use std::sync::{Mutex, PoisonError};

use coppice_store::clock::Mono;

use crate::limits::{REFUSALS_RECORDED_MAX, REFUSALS_WINDOW};

/// Counts what is recorded in a window of time, and what is not.
#[derive(Default)]
pub(super) struct Refusals(Mutex<Window>);

#[derive(Default)]
struct Window {
    since: Option<Mono>,
    recorded: u32,
    unrecorded: u64,
}

impl Refusals {
    /// Whether one more may be recorded now: with it, how many were not since the last one that was. None counts it among those.
    pub fn record(&self, now: Mono) -> Option<u64> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = window
            .since
            .is_none_or(|since| now - since >= REFUSALS_WINDOW);
        if is_over {
            window.since = Some(now);
            window.recorded = 0;
        }
        if window.recorded >= REFUSALS_RECORDED_MAX {
            window.unrecorded += 1;
            return None;
        }
        window.recorded += 1;
        Some(std::mem::take(&mut window.unrecorded))
    }
}

#[cfg(test)]
mod tests {
    use coppice_store::clock;

    use super::*;

    #[test]
    fn beyond_the_bound_they_are_counted_and_the_next_window_says_how_many() {
        let (refusals, now) = (Refusals::default(), clock::mono());
        for _ in 0..REFUSALS_RECORDED_MAX {
            assert_eq!(refusals.record(now), Some(0));
        }
        assert_eq!(refusals.record(now), None);
        assert_eq!(refusals.record(now), None);
        assert_eq!(refusals.record(now + REFUSALS_WINDOW), Some(2));
        assert_eq!(refusals.record(now + REFUSALS_WINDOW), Some(0));
    }
}
