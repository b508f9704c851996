//! W2: fifty durable steps in a row in one run. The time of a step is from one commit to the next, as the host's clock wrote them.

use std::time::Duration;

use coppice_actors::api::TailRequest;
use coppice_messages::ids::TreeId;
use serde::Serialize;

use super::{
    line::Line,
    release::{self, STEPS_IN_A_ROW},
    subject::{Place, Subject, request, tenant},
    usage::PerRun,
    width::percentile_ms,
};
use crate::{failure::Failure, reach};

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Row {
    workload: &'static str,
    runs: u32,
    pub steps: u32,
    pub p50_ms: f64,
    pub p99_ms: f64,
    #[serde(flatten)]
    pub used: PerRun,
}

/// Runs so many of them, one after the other.
pub async fn measure(runs: u32, place: Place) -> Result<Line, Failure> {
    let bundle = release::row()?;
    let subject = Subject::start(place).await?;
    subject.complete(&request(&bundle, "w2-warm", 0)?).await?;
    let mark = subject.mark().await?;
    for nth in 0..runs {
        subject.complete(&request(&bundle, "w2", nth)?).await?;
    }
    let used = subject.since(&mark, runs).await?;
    let mut steps = Vec::new();
    for nth in 0..runs {
        let request = request(&bundle, "w2", nth)?;
        let run = coppice_messages::ids::RunId::root(&tenant(), &request.key);
        steps.extend(steps_of(&subject, TreeId::of_root(&run)).await?);
    }
    subject.stop().await?;
    Ok(Line::Row(Row {
        workload: "w2",
        runs,
        steps: STEPS_IN_A_ROW,
        p50_ms: percentile_ms(&mut steps, 50),
        p99_ms: percentile_ms(&mut steps, 99),
        used,
    }))
}

/// From each intent to its receipt.
async fn steps_of(subject: &Subject, tree: TreeId) -> Result<Vec<Duration>, Failure> {
    let mut request = TailRequest::default();
    request.filter.tree = Some(tree);
    let (mut steps, mut intended_at) = (Vec::new(), None);
    loop {
        let page = subject.client.tail(&tenant(), &request).await;
        let page = page.map_err(reach::failed)?;
        for event in page.events {
            match (event.kind.as_str(), intended_at) {
                ("effect.intended", _) => intended_at = Some(event.at.0),
                ("effect.landed", Some(at)) => {
                    let micros = u64::try_from(event.at.0.saturating_sub(at));
                    steps.push(Duration::from_micros(micros.unwrap_or(0)));
                }
                _ => {}
            }
        }
        if page.end {
            return Ok(steps);
        }
        request.from = page.next;
    }
}
