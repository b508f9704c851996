//! Rebuild: every chain of a log folded anew, on one thread, by a process that has just opened the log.

use coppice_actors::inspect::Inspect;
use coppice_store::{Log, clock};
use serde::Serialize;

use super::{
    line::Line,
    subject::{Place, rounded, tenant},
};
use crate::{failure::Failure, reach};

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Rebuild {
    workload: &'static str,
    pub runs: u64,
    pub events: u64,
    pub events_per_s: f64,
    /// How long the log took to open.
    pub open_ms: f64,
}

/// Folds the log that a workload has left.
pub fn measure(place: &Place) -> Result<Line, Failure> {
    let from = clock::mono();
    let log = Log::open(&place.data).map_err(|error| reach::unopened(&error, &place.data))?;
    let opened = from.elapsed();
    let inspect = Inspect::new(log.reader());
    let from = clock::mono();
    let rebuilt = inspect.rebuild(&tenant());
    let rebuilt = rebuilt.map_err(|error| reach::refused(&error))?;
    let took = from.elapsed().as_secs_f64();
    Ok(Line::Rebuild(Rebuild {
        workload: "rebuild",
        runs: rebuilt.runs,
        events: rebuilt.events,
        events_per_s: (rebuilt.events as f64 / took).round(),
        open_ms: rounded(opened.as_secs_f64() * 1e3, 10.0),
    }))
}
