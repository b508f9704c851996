//! Requests in flight, by key: each in a task of its own, which nothing that happens to the run's actor ends.
//!
//! A request that has left is in the world. The actor that wanted it may die; the answer is then kept for its next incarnation, which joins
//! the request instead of sending beside it.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use coppice_kernel::command::EffectOutcome;
use coppice_messages::ids::{EffectKey, RunId, TenantId};
use coppice_store::clock;
use futures::FutureExt as _;
use tokio::sync::{Notify, watch};

use crate::limits::ANSWER_KEPT;

/// Whose key.
pub(super) type FlightKey = (TenantId, EffectKey);

/// Which attempt of which run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) run: RunId,
    pub(super) epoch: u64,
    pub(super) attempt: u32,
}

/// One request.
pub(super) struct Flight {
    attempt: Attempt,
    outcome: watch::Receiver<Option<EffectOutcome>>,
    taken: Notify,
}

/// Another request with this key is under way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("another request with the same key is under way, attempt {} of run {}", .0.attempt, .0.run)]
pub(super) struct UnderWay(Attempt);

/// All of this host; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Flights(Arc<Mutex<HashMap<FlightKey, Arc<Flight>>>>);

impl Flights {
    /// Starts a request, or joins it when this very attempt is under way already.
    pub(super) fn begin(
        &self,
        key: &FlightKey,
        attempt: Attempt,
        work: impl Future<Output = EffectOutcome> + Send + 'static,
    ) -> Result<Arc<Flight>, UnderWay> {
        let mut all = self.lock();
        if let Some(flight) = all.get(key).filter(|flight| flight.is_under_way()) {
            return if flight.attempt == attempt {
                Ok(flight.clone())
            } else {
                Err(UnderWay(flight.attempt.clone()))
            };
        }
        let work = work.boxed();
        let (answered, outcome) = watch::channel(None);
        let flight = Arc::new(Flight {
            attempt,
            outcome,
            taken: Notify::new(),
        });
        all.insert(key.clone(), flight.clone());
        let (flights, key, own) = (self.clone(), key.clone(), flight.clone());
        tokio::spawn(async move {
            answered.send_replace(Some(work.await));
            tokio::select! {
                () = own.taken.notified() => {}
                () = clock::pause(ANSWER_KEPT) => {}
            }
            flights.forget(&key, &own);
        });
        Ok(flight)
    }

    /// The request of a run with this key, under way or answered and not yet taken.
    pub(super) fn of(&self, key: &FlightKey, run: &RunId) -> Option<Arc<Flight>> {
        self.lock()
            .get(key)
            .filter(|flight| flight.attempt.run == *run)
            .cloned()
    }

    /// Whether a request with this key is under way, whichever run it is of.
    pub(super) fn is_under_way(&self, key: &FlightKey) -> bool {
        self.lock()
            .get(key)
            .is_some_and(|flight| flight.is_under_way())
    }

    /// Waits for the answer and takes it: a later incarnation has to look it up.
    pub(super) async fn take(&self, key: &FlightKey, flight: &Arc<Flight>) -> EffectOutcome {
        let mut outcome = flight.outcome.clone();
        let answer = match outcome.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone(),
            Err(_) => None,
        };
        flight.taken.notify_one();
        self.forget(key, flight);
        answer.unwrap_or_else(|| EffectOutcome::Unknown {
            why: "the request's task broke off".to_owned(),
        })
    }

    fn forget(&self, key: &FlightKey, flight: &Arc<Flight>) {
        let mut all = self.lock();
        if all.get(key).is_some_and(|known| Arc::ptr_eq(known, flight)) {
            all.remove(key);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<FlightKey, Arc<Flight>>> {
        // The map is whole after a panic: every change is one insertion or removal.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    fn is_under_way(&self) -> bool {
        // Without a sender it is over as well: its task panicked.
        self.outcome.borrow().is_none() && self.outcome.has_changed().is_ok()
    }
}

#[cfg(test)]
mod tests;
