//! Sleep and wake: a run that only waits, for longer than the host keeps actors for, has none.
//!
//! A run falls asleep when nothing of it is under way, its children are settled or asleep, and nothing falls due soon. It is woken from
//! the root down: only the actors on the path to it are started. A note in the log's database spares the host to fold it at its next start.

mod notes;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use coppice_messages::{Millis, Timestamp};
use coppice_store::{ReadError, log::Sleeper};
use tokio::sync::mpsc;

use self::notes::Notes;
use crate::{
    run::Message,
    services::{Key, Services},
    timers::Timer,
};

/// Why the actor of a run that falls asleep stops.
pub(crate) const SLEEPS: &str = "it only waits, and sleeps";

/// Who sleeps.
pub(crate) struct Sleepers {
    asleep: Mutex<BTreeMap<Key, Asleep>>,
    due: mpsc::UnboundedSender<Key>,
    notes: Notes,
    /// Waits shorter than this keep their actor.
    pub after: Millis,
}

struct Asleep {
    sleeper: Sleeper,
    /// Wakes it when it falls due.
    _timer: Option<Timer>,
}

/// Whom the host must start so that a run is awake.
pub(crate) enum Wake {
    /// It is awake, or whoever starts it next will see that it does not sleep any more.
    Nothing,
    /// This root.
    Root(Key),
}

impl Sleepers {
    /// Nobody sleeps yet; `due` is told whose time has come.
    pub fn new(after: Millis, due: mpsc::UnboundedSender<Key>) -> Self {
        Self {
            asleep: Mutex::default(),
            due,
            notes: Notes::default(),
            after,
        }
    }

    fn asleep(&self) -> MutexGuard<'_, BTreeMap<Key, Asleep>> {
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a run sleeps.
    pub fn is_asleep(&self, key: &Key) -> bool {
        self.asleep().contains_key(key)
    }

    /// How many sleep.
    pub fn count(&self) -> usize {
        self.asleep().len()
    }

    /// Whether a wait until `due` is long enough to sleep for.
    pub fn is_long(&self, due: Option<Timestamp>, now: Timestamp) -> bool {
        due.is_none_or(|due| due.since(now) > self.after)
    }
}

impl Services {
    /// A run sleeps from now on. Its actor ends; nobody takes that for a crash.
    pub fn fall_asleep(&self, sleeper: Sleeper) {
        if let Err(error) = self.store.log().put_asleep(&sleeper) {
            tracing::warn!(%error, "a sleeping run will be folded at the next start");
        }
        self.lay_down(sleeper);
    }

    /// Those who slept when the last host ended sleep on.
    pub fn lay_down_all(&self) -> Result<(), ReadError> {
        for sleeper in self.store.log().sleepers()? {
            self.lay_down(sleeper);
        }
        Ok(())
    }

    fn lay_down(&self, sleeper: Sleeper) {
        let key = (sleeper.tenant.clone(), sleeper.run.clone());
        let timer = sleeper.due.map(|due| {
            let (tell, key) = (self.sleepers.due.clone(), key.clone());
            // A host that is stopping wakes nobody.
            self.timers.arm(due, move || drop(tell.send(key)))
        });
        self.sleepers.asleep().insert(
            key,
            Asleep {
                sleeper,
                _timer: timer,
            },
        );
    }

    /// Wakes a run and everybody above it who sleeps. Returns once no note says that they sleep.
    pub async fn wake(self: &Arc<Self>, key: &Key) -> Wake {
        let woken = self.take_out(key);
        let Some(top) = woken.last().cloned() else {
            return Wake::Nothing;
        };
        if !self.sleepers.notes.take_back(self.store.log(), woken).await {
            return Wake::Nothing;
        }
        let Some(parent) = top.parent else {
            return Wake::Root((top.tenant, top.run));
        };
        // A parent that is not awake either starts the child when it is started itself.
        if let Some(parent) = self.awake.get(&(top.tenant, parent)) {
            let _ = parent.cast(Message::Wake { child: top.run });
        }
        Wake::Nothing
    }

    /// The run and its sleeping ancestors, from below.
    fn take_out(&self, key: &Key) -> Vec<Sleeper> {
        let mut asleep = self.sleepers.asleep();
        let mut woken = Vec::new();
        let mut next = Some(key.clone());
        while let Some(sleeper) = next
            .and_then(|key| asleep.remove(&key))
            .map(|asleep| asleep.sleeper)
        {
            next = sleeper
                .parent
                .clone()
                .map(|parent| (sleeper.tenant.clone(), parent));
            woken.push(sleeper);
        }
        woken
    }
}
