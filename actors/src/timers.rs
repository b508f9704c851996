//! Timers: what is to be done at a time of the wall clock. Derived from state and never stored.
//!
//! Due times are compared with the wall clock at least once a second, so that a clock that is put forward and a machine that slept are noticed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use coppice_messages::Timestamp;
use coppice_store::clock;
use tokio::{sync::Notify, task::JoinHandle};

use crate::limits::CLOCK_COMPARED;

type Act = Box<dyn FnOnce() + Send>;

/// The timers of a host; cheap to clone.
#[derive(Clone)]
pub(crate) struct Timers {
    shared: Arc<Shared>,
}

struct Shared {
    armed: Mutex<Armed>,
    earlier: Notify,
}

#[derive(Default)]
struct Armed {
    next: u64,
    acts: BTreeMap<(Timestamp, u64), Act>,
}

/// An armed timer; dropping it disarms it.
pub(crate) struct Timer {
    shared: Arc<Shared>,
    key: (Timestamp, u64),
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.shared.armed().acts.remove(&self.key);
    }
}

impl Shared {
    fn armed(&self) -> std::sync::MutexGuard<'_, Armed> {
        // Nothing that can panic runs under the lock.
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timers {
    /// Timers, and the task that looks at them until it is aborted.
    pub fn start() -> (Self, JoinHandle<()>) {
        let timers = Self {
            shared: Arc::new(Shared {
                armed: Mutex::default(),
                earlier: Notify::new(),
            }),
        };
        let task = tokio::spawn(timers.clone().run());
        (timers, task)
    }

    /// Does something at a time. It must be cheap and must not block.
    pub fn arm(&self, at: Timestamp, act: impl FnOnce() + Send + 'static) -> Timer {
        let mut armed = self.shared.armed();
        let key = (at, armed.next);
        armed.next += 1;
        armed.acts.insert(key, Box::new(act));
        let is_first = armed.acts.keys().next() == Some(&key);
        drop(armed);
        if is_first {
            self.shared.earlier.notify_one();
        }
        Timer {
            shared: self.shared.clone(),
            key,
        }
    }

    async fn run(self) {
        loop {
            let (due, next) = self.take_due(clock::now());
            for act in due {
                act();
            }
            match next {
                None => self.shared.earlier.notified().await,
                Some(at) => {
                    let wait = Duration::from_millis(at.since(clock::now()).0 + 1);
                    tokio::select! {
                        () = self.shared.earlier.notified() => {}
                        () = clock::pause(wait.min(CLOCK_COMPARED)) => {}
                    }
                }
            }
        }
    }

    fn take_due(&self, now: Timestamp) -> (Vec<Act>, Option<Timestamp>) {
        let mut armed = self.shared.armed();
        let later = armed
            .acts
            .split_off(&(Timestamp(now.0.saturating_add(1)), 0));
        let due = std::mem::replace(&mut armed.acts, later);
        let next = armed.acts.keys().next().map(|(at, _)| *at);
        (due.into_values().collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use coppice_messages::Millis;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn timers_act_in_the_order_of_their_times_and_a_dropped_one_never() {
        let (timers, task) = Timers::start();
        let (tell, mut told) = mpsc::unbounded_channel();
        let now = clock::now();
        let arm = |name: &'static str, after: u64| {
            let tell = tell.clone();
            timers.arm(now.plus(Millis(after)), move || {
                let _gone = tell.send(name);
            })
        };
        let kept = [arm("third", 30), arm("past", 0), arm("second", 20)];
        drop(arm("dropped", 10));
        for expected in ["past", "second", "third"] {
            assert_eq!(told.recv().await, Some(expected));
        }
        drop(kept);
        task.abort();
    }
}
