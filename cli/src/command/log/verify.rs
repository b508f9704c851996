//! `coppice log verify`: chains intact; log, stream and live state agree. Without a living host the stream is read by starting
//! nats-server on its store; no actor is started, nothing is appended.

use std::path::Path;

use coppice_actors::{
    api::{Compared, VerifyReport, VerifyRequest},
    inspect::{Inspect, differs},
};
use coppice_messages::ids::{InvalidId, TenantId};
use coppice_store::{BusOptions, GuardCommand, Options, Store, verify::VerifyStreamError};

use super::remedy::{self, remedy};
use crate::{
    args::Common,
    command::look::{findings, none},
    failure::{Failure, Problem},
    out,
    reach::{Reach, Way, failed, refused},
};

pub(super) async fn verify(common: &Common) -> Result<(), Failure> {
    let reach = Reach::open(common).await?;
    let tenant = reach.tenant(None);
    let request = VerifyRequest::default();
    let data = reach.data.clone();
    let report = match reach.way {
        Way::Host(client) => client.verify(&tenant, &request).await.map_err(failed)?,
        Way::Log(opened) if data.join("nats").is_dir() => {
            opened.close();
            with_stream(&data, &tenant, &request).await?
        }
        Way::Log(opened) => {
            let report = opened.inspect().verify(&tenant, &request);
            report.map_err(|error| refused(&error))?
        }
    };
    if common.json {
        out::json(&report)?;
    } else {
        findings(&report.findings)?;
        out::text(&said(&report))?;
    }
    if let Some(remedy) = remedy(&report.findings, &data) {
        // Also beside JSON: it is for whoever mends, and no finding.
        eprintln!("help: {remedy}");
    }
    none(&report.findings)
}

/// Opens the store, which starts the private nats-server on its own store, and holds the log against the stream.
async fn with_stream(
    data: &Path,
    tenant: &TenantId,
    request: &VerifyRequest,
) -> Result<VerifyReport, Failure> {
    let guard = GuardCommand::this_program().map_err(|error| Failure::environment(&error))?;
    let host = format!("verify-{}", std::process::id())
        .parse()
        .map_err(|error: InvalidId| Failure::environment(&error))?;
    let mut options = Options::new(data, host, BusOptions::Private { guard });
    options.feed = false;
    let store = Store::open(options)
        .await
        .map_err(|error| Failure::Environment(Problem::of(&error)))?;
    let report = Inspect::new(store.log().clone()).verify(tenant, request);
    let seen = store.verify_stream().await;
    store.close().await;
    let mut report = report.map_err(|error| refused(&error))?;
    let seen = match seen {
        Ok(seen) => seen,
        // It is named already what of the log cannot be read.
        Err(VerifyStreamError::Log(_)) if !report.findings.is_empty() => return Ok(report),
        Err(error) => return Err(not_compared(&error, data)),
    };
    report.stream = if seen.faults.is_empty() {
        Compared::Equal(seen.commits)
    } else {
        Compared::Different
    };
    report.findings.extend(seen.faults.iter().map(differs));
    Ok(report)
}

fn not_compared(error: &VerifyStreamError, data: &Path) -> Failure {
    let problem = Problem::of(error);
    Failure::Environment(match error {
        VerifyStreamError::Log(_) => problem.help(remedy::log(data)),
        VerifyStreamError::Stream { .. } => problem.help(format!(
            "verify once more; should it stay so: {}",
            remedy::stream(data)
        )),
    })
}

fn said(report: &VerifyReport) -> String {
    let compared = |compared: Compared, what: &str, skipped: &str| match compared {
        // Nothing was there to be compared with.
        Compared::Equal(0) => format!("not compared: no {what}"),
        Compared::Equal(count) => format!("equal ({count} {what})"),
        Compared::Different => "DIFFERENT".to_owned(),
        Compared::Skipped => format!("not compared: {skipped}"),
    };
    format!(
        "log     {}, {} commits, {} events of all chains, up to position {}\n\
         live    {}\n\
         stream  {}\n\
         state   {}\n\
         verified: {}\n",
        compared(report.log, "chains", "it cannot be read"),
        report.commits,
        report.events,
        report.pos,
        compared(report.live, "runs awake", "no host runs"),
        compared(
            report.stream,
            "commits",
            "there is none yet; the next host makes it from the log"
        ),
        report.state.hex_prefix(16),
        if report.findings.is_empty() {
            "the log is whole"
        } else {
            "NOT whole"
        },
    )
}
