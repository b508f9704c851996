//! W3: the host is killed with SIGKILL while a hundred runs of W1 are in flight. The time counts from the start of the next host (nats-server's start
//! and fjall's reopening in it) to the end of the last run.

use std::sync::Arc;

use coppice_actors::api::{ListRequest, RunStateFilter, StartRequest};
use coppice_messages::{event::run::Reason, ids::RunId};
use coppice_store::clock;
use serde::Serialize;

use super::{
    line::Line,
    release::{self, CHILDREN, STEPS, Work},
    subject::{Place, Subject, request, rounded, tenant},
    usage::PerRun,
    witness,
};
use crate::{failure::Failure, reach};

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Crash {
    workload: &'static str,
    pub runs: u32,
    /// Trees that had not ended when the next host was up.
    pub in_flight: u32,
    pub restart_to_done_s: f64,
    /// Effects beyond the first of each key.
    pub duplicates: u64,
    /// Effects that are not there, and runs that did not succeed.
    pub lost: u64,
    #[serde(flatten)]
    pub used: PerRun,
}

/// Kills a host with so many runs in flight.
pub async fn measure(runs: u32, place: Place) -> Result<Line, Failure> {
    let bundle = Arc::new(release::tree("w3", CHILDREN, &Work::Steps)?);
    let subject = Arc::new(Subject::start(place).await?);
    subject.complete(&request(&bundle, "w3-warm", 0)?).await?;
    let requests = (0..runs).map(|nth| {
        let mut request = request(&bundle, "w3", nth)?;
        request.documents.clear();
        Ok(request)
    });
    let requests = requests.collect::<Result<Vec<StartRequest>, Failure>>()?;
    let beginning = requests.iter().cloned().map(|request| {
        let subject = subject.clone();
        tokio::spawn(async move { subject.begin(&request).await })
    });
    for begun in beginning.collect::<Vec<_>>() {
        begun.await.map_err(|e| Failure::environment(&e))??;
    }
    let Some(subject) = Arc::into_inner(subject) else {
        return Err(Failure::Environment(crate::failure::Problem::new(
            "a start of the workload still waits",
        )));
    };
    let place = subject.kill().await?;
    let from = clock::mono();
    let subject = Subject::start(place).await?;
    let mark = subject.mark().await?;
    let open = open_roots(&subject, &requests).await?;
    let in_flight = u32::try_from(open.len()).unwrap_or(u32::MAX);
    for ended in open {
        ended.await?;
    }
    let whole = from.elapsed();
    let used = subject.since(&mark, runs).await?;
    let failed = failed(&subject, &requests).await?;
    let seen = witness::read(&subject.place().witness).map_err(|e| Failure::environment(&e))?;
    subject.stop().await?;
    let wanted = u64::from((runs + 1) * CHILDREN * STEPS);
    Ok(Line::Crash(Crash {
        workload: "w3",
        runs,
        in_flight,
        restart_to_done_s: rounded(whole.as_secs_f64(), 1_000.0),
        duplicates: seen.duplicates,
        lost: wanted.saturating_sub(seen.effects) + failed,
        used,
    }))
}

/// The ends of the roots that have not ended.
async fn open_roots(
    subject: &Subject,
    requests: &[StartRequest],
) -> Result<Vec<impl Future<Output = Result<(), Failure>> + use<>>, Failure> {
    // Listened for first, so that none ends unheard.
    let ends = requests.iter().map(|request| {
        let run = RunId::root(&tenant(), &request.key);
        let ended = subject.ends.of(&run);
        (run, ended)
    });
    let mut ends: std::collections::BTreeMap<RunId, _> = ends.collect();
    let mut asked = ListRequest {
        state: Some(RunStateFilter::Ended),
        ..ListRequest::default()
    };
    loop {
        let page = subject.client.list(&tenant(), &asked).await;
        let page = page.map_err(reach::failed)?;
        for row in &page.runs {
            ends.remove(&row.run);
        }
        match page.next {
            Some(next) => asked.after = Some(next),
            None => return Ok(ends.into_values().collect()),
        }
    }
}

async fn failed(subject: &Subject, requests: &[StartRequest]) -> Result<u64, Failure> {
    let mut failed = 0;
    for request in requests {
        let run = RunId::root(&tenant(), &request.key);
        let view = subject.client.get(&tenant(), &run).await;
        let ended = view.map_err(reach::failed)?.ended;
        failed += u64::from(ended.is_none_or(|ended| ended.reason != Reason::Succeeded));
    }
    Ok(failed)
}
