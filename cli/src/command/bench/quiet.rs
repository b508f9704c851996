//! W4: a parent with many waiting children is cancelled. The time counts from the request to the end of the parent, which comes when everything below it
//! has ended.

use coppice_actors::api::CancelRequest;
use coppice_messages::ids::RunId;
use coppice_store::clock;
use serde::Serialize;

use super::{
    ends::{counted, events},
    line::Line,
    release::{self, Work},
    subject::{Place, Subject, request, rounded, tenant},
    usage::PerRun,
};
use crate::{failure::Failure, reach};

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Quiet {
    workload: &'static str,
    pub children: u32,
    pub quiet_ms: f64,
    /// From the request to start the tree until its last child waits.
    pub spread_ms: f64,
    /// Memory of the host while all wait, in MB.
    pub waiting_rss_mb: Option<f64>,
    #[serde(flatten)]
    pub used: PerRun,
}

/// Cancels a parent of so many.
pub async fn measure(children: u32, place: Place) -> Result<Line, Failure> {
    let bundle = release::tree("w4", children, &Work::Wait)?;
    let subject = Subject::start(place).await?;
    let request = request(&bundle, "w4", 0)?;
    let run = RunId::root(&tenant(), &request.key);
    let ended = subject.ends.of(&run);
    // Each child's first node, and the parent's.
    let waits = events(&subject.client, "node.started").await?;
    let mark = subject.mark().await?;
    let from = clock::mono();
    subject.begin(&request).await?;
    counted(waits, children + 1).await;
    let spread = from.elapsed();
    let waiting_rss_mb = subject.processes().host_now_mb();
    let cancel = CancelRequest {
        run,
        why: "the benchmark has seen enough".to_owned(),
        by: "workload:bench".to_owned(),
    };
    let from = clock::mono();
    let told = subject.client.cancel(&tenant(), &cancel).await;
    told.map_err(reach::failed)?;
    ended.await?;
    let quiet = from.elapsed();
    let used = subject.since(&mark, 1).await?;
    subject.stop().await?;
    Ok(Line::Quiet(Quiet {
        workload: "w4",
        children,
        quiet_ms: rounded(quiet.as_secs_f64() * 1e3, 10.0),
        spread_ms: rounded(spread.as_secs_f64() * 1e3, 10.0),
        waiting_rss_mb,
        used,
    }))
}
