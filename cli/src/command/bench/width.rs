//! W1: a parent delegates 16 children, each does three durable steps, the parent joins. W5: the same on a host with policies, which judge every
//! step; what that costs is its ratio to W1.

use std::{sync::Arc, time::Duration};

use coppice_store::clock;
use serde::Serialize;

use super::{
    line::Line,
    release::{self, CHILDREN, Work},
    subject::{Place, Subject, request, rounded},
    usage::PerRun,
};
use crate::failure::{Failure, Problem};

/// What came of one level of concurrency.
#[derive(Debug, Clone, Serialize)]
pub struct Width {
    pub workload: &'static str,
    pub concurrency: u32,
    runs: u32,
    pub runs_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    #[serde(flatten)]
    pub used: PerRun,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_w1: Option<Over>,
}

/// How many times as much as W1 at the same concurrency.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Over {
    /// Time of a run.
    pub time: f64,
    /// CPU of a run; unknown when the system does not say.
    pub cpu: Option<f64>,
}

impl Over {
    fn of(runs_per_s: f64, used: &PerRun, w1: &Width) -> Self {
        let cpu = used.cpu_s_per_run.zip(w1.used.cpu_s_per_run);
        Self {
            time: rounded(w1.runs_per_s / runs_per_s, 100.0),
            cpu: cpu.map(|(now, then)| rounded(now / then, 100.0)),
        }
    }
}

/// Runs that come before those that count.
const WARMING: u32 = 10;

/// Runs so many trees at each concurrency, on one host; `w1` is what W1 came to, for the ratio.
pub async fn measure(
    workload: &'static str,
    w1: &[Width],
    (runs, levels): (u32, &[u32]),
    place: Place,
    say: &mut (dyn FnMut(Line) -> Result<(), Failure> + Send),
) -> Result<(Place, Vec<Width>), Failure> {
    let bundle = Arc::new(release::tree(workload, CHILDREN, &Work::Steps)?);
    let mut measured = Vec::new();
    let subject = Arc::new(Subject::start(place).await?);
    let mut begun = 0;
    for nth in 0..WARMING {
        subject.complete(&request(&bundle, workload, nth)?).await?;
        begun += 1;
    }
    for concurrency in levels {
        let mark = subject.mark().await?;
        let from = clock::mono();
        let numbers = Numbers::of(begun, runs);
        let lanes = (0..*concurrency).map(|_| {
            let (subject, bundle, numbers) = (subject.clone(), bundle.clone(), numbers.clone());
            tokio::spawn(async move {
                let mut took = Vec::new();
                while let Some(nth) = numbers.next() {
                    let mut request = request(&bundle, workload, nth)?;
                    request.documents.clear();
                    took.push(subject.complete(&request).await?);
                }
                Ok::<_, Failure>(took)
            })
        });
        let mut took = Vec::new();
        for lane in lanes.collect::<Vec<_>>() {
            took.extend(lane.await.map_err(|e| Failure::environment(&e))??);
        }
        let whole = from.elapsed();
        begun += runs;
        let used = subject.since(&mark, runs).await?;
        let runs_per_s = rounded(f64::from(runs) / whole.as_secs_f64(), 10.0);
        let same = w1.iter().find(|w1| w1.concurrency == *concurrency);
        let width = Width {
            workload,
            concurrency: *concurrency,
            runs,
            runs_per_s,
            p50_ms: percentile_ms(&mut took, 50),
            p99_ms: percentile_ms(&mut took, 99),
            over_w1: same.map(|w1| Over::of(runs_per_s, &used, w1)),
            used,
        };
        say(Line::Width(width.clone()))?;
        measured.push(width);
    }
    match Arc::into_inner(subject) {
        Some(subject) => Ok((subject.stop().await?, measured)),
        None => Err(Failure::Environment(Problem::new(
            "a lane of the workload still runs",
        ))),
    }
}

/// Numbers that many lanes take, each once.
#[derive(Clone)]
struct Numbers(Arc<std::sync::Mutex<std::ops::Range<u32>>>);

impl Numbers {
    fn of(first: u32, many: u32) -> Self {
        Self(Arc::new(std::sync::Mutex::new(first..first + many)))
    }

    fn next(&self) -> Option<u32> {
        let mut left = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        left.next()
    }
}

/// The time that so many of a hundred are not above.
pub fn percentile_ms(times: &mut [Duration], of_100: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len() * of_100 / 100).min(times.len().saturating_sub(1));
    let time = times.get(at).copied().unwrap_or_default();
    rounded(time.as_secs_f64() * 1e3, 1_000.0)
}
