//! Rate and concurrency of each tool over the host, and requests at one time altogether.
//!
//! A lane belongs to the tool and the limits that its contract names: two versions of a contract with other limits have two lanes.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use coppice_store::clock::{self, Mono};
use coppice_topology::tool::Tool;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{RATE_WINDOW, REQUESTS_MAX};

#[derive(PartialEq, Eq, Hash)]
struct LaneName {
    namespace: String,
    tool: String,
    concurrency: Option<u32>,
    rate: Option<u32>,
}

/// One tool's places and its calls of the last minute.
struct Lane {
    places: Arc<Semaphore>,
    rate: Option<usize>,
    calls: Mutex<VecDeque<Mono>>,
}

/// All lanes.
pub(super) struct Lanes {
    all: Arc<Semaphore>,
    lanes: Mutex<HashMap<LaneName, Arc<Lane>>>,
}

/// A place for one request; given back when dropped.
pub(super) struct Place {
    _own: OwnedSemaphorePermit,
    _host: OwnedSemaphorePermit,
}

/// No place came free in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlace {
    #[error("the calls of this tool that its contract allows at one time are under way")]
    Concurrency,
    #[error("the calls of this tool that its contract allows in a minute are used up")]
    Rate,
    #[error("{REQUESTS_MAX} requests are under way on this host")]
    Host,
}

impl Lanes {
    pub(super) fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(REQUESTS_MAX)),
            lanes: Mutex::new(HashMap::new()),
        }
    }

    /// Waits for a place, at most until `latest`.
    pub(super) async fn enter(&self, tool: &Tool, latest: Option<Mono>) -> Result<Place, NoPlace> {
        let lane = self.lane(tool);
        let own = until(latest, lane.places.clone().acquire_owned())
            .await
            .ok_or(NoPlace::Concurrency)?;
        let host = until(latest, self.all.clone().acquire_owned())
            .await
            .ok_or(NoPlace::Host)?;
        while let Some(wait) = lane.count_call() {
            let in_time = latest.is_none_or(|latest| latest - clock::mono() > wait);
            if !in_time {
                return Err(NoPlace::Rate);
            }
            clock::pause(wait).await;
        }
        // The semaphores are never closed.
        let (Ok(own), Ok(host)) = (own, host) else {
            return Err(NoPlace::Host);
        };
        Ok(Place {
            _own: own,
            _host: host,
        })
    }

    /// Waits for a place among all requests of the host, for a question that no contract limits.
    pub(super) async fn enter_host(&self) -> Option<OwnedSemaphorePermit> {
        self.all.clone().acquire_owned().await.ok()
    }

    fn lane(&self, tool: &Tool) -> Arc<Lane> {
        let limits = tool.limits.as_ref();
        let concurrency = limits.and_then(|limits| limits.concurrency);
        let rate = limits.and_then(|limits| limits.rate_per_minute);
        let name = LaneName {
            namespace: tool.namespace.clone(),
            tool: tool.tool.to_string(),
            concurrency,
            rate,
        };
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry(name).or_insert_with(|| {
            let places = concurrency.map_or(REQUESTS_MAX, |most| (most as usize).min(REQUESTS_MAX));
            Arc::new(Lane {
                places: Arc::new(Semaphore::new(places)),
                rate: rate.map(|rate| rate as usize),
                calls: Mutex::default(),
            })
        });
        lane.clone()
    }
}

impl Lane {
    /// Counts a call, or says how long to wait before asking again.
    fn count_call(&self) -> Option<Duration> {
        let rate = self.rate?;
        let now = clock::mono();
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        while calls.front().is_some_and(|at| now - *at >= RATE_WINDOW) {
            calls.pop_front();
        }
        if calls.len() < rate {
            calls.push_back(now);
            return None;
        }
        let oldest = calls.front().copied();
        // A rate of 0 lets nothing through.
        Some(oldest.map_or(RATE_WINDOW, |at| (at + RATE_WINDOW) - now))
    }
}

async fn until<T>(latest: Option<Mono>, coming: impl Future<Output = T>) -> Option<T> {
    let Some(latest) = latest else {
        return Some(coming.await);
    };
    tokio::select! {
        biased;
        came = coming => Some(came),
        () = clock::pause(latest - clock::mono()) => None,
    }
}
