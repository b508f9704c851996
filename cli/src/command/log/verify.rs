//! `coppice log verify`: chains intact; log, stream and live state agree. Without a living host the stream is read by starting
//! nats-server on its store, as it is: no actor is started, nothing is appended and nothing put back.

use std::path::Path;

use coppice_actors::{
    api::{Compared, VerifyReport, VerifyRequest},
    inspect::differs,
    limits::FINDINGS_MAX,
};
use coppice_store::{
    GuardCommand,
    verify::{AtRest, AtRestError, VerifyStreamError, at_rest},
};

use super::{
    alone,
    remedy::{self, remedy},
};
use crate::{
    args::Common,
    command::look::{findings, none},
    data,
    failure::{Failure, Problem},
    out,
    reach::{Opened, Reach, Way, failed, refused},
};

pub(super) async fn verify(common: &Common) -> Result<(), Failure> {
    let chosen = data::to_read(common.data.as_deref())?;
    if !common.json {
        chosen.say();
    }
    let data = chosen.path.clone();
    let format = data.join("format");
    let had_none = !format.exists();
    let reached = Reach::of(chosen.path).await;
    if had_none && format.exists() {
        // Also beside JSON, and before whatever else is wrong.
        eprintln!(
            "{}, which says the layout's version, was missing and is written anew",
            format.display()
        );
    }
    let reach = match reached {
        Ok(reach) => reach,
        Err(failure) => return Err(alone::beside(failure, &data).await),
    };
    let tenant = reach.tenant(None);
    let request = VerifyRequest::default();
    let mut is_put_back = false;
    let report = match reach.way {
        Way::Host(client) => client.verify(&tenant, &request).await.map_err(failed)?,
        Way::Log(opened) => {
            let report = opened.inspect().verify(&tenant, &request);
            let mut report = report.map_err(|error| refused(&error))?;
            if data.join("nats").is_dir() {
                is_put_back = with_stream(&opened, &data, &mut report).await?;
            }
            report
        }
    };
    if common.json {
        out::json(&report)?;
    } else {
        findings(&report.findings)?;
        out::text(&said(&report))?;
    }
    if let Some(remedy) = remedy(&report.findings, &data, is_put_back) {
        // Also beside JSON: it is for whoever mends, and no finding.
        eprintln!("help: {remedy}");
    }
    none(&report.findings)
}

/// Starts the private nats-server on its own store and holds the log against the stream as it is. Whether the next host puts back by itself what
/// the stream lacks.
async fn with_stream(
    opened: &Opened,
    data: &Path,
    report: &mut VerifyReport,
) -> Result<bool, Failure> {
    let guard = GuardCommand::this_program().map_err(|error| Failure::environment(&error))?;
    let AtRest {
        seen,
        is_put_back,
        unread,
    } = match at_rest(opened.log(), guard).await {
        Ok(compared) => compared,
        // It is named already what of the log cannot be read.
        Err(AtRestError::Compare(VerifyStreamError::Log(_))) if !report.findings.is_empty() => {
            return Ok(false);
        }
        Err(error) => return Err(not_compared(&error, data)),
    };
    report.stream = if seen.faults.is_empty() {
        Compared::Equal(seen.commits)
    } else {
        Compared::Different
    };
    report.findings.extend(seen.faults.iter().map(differs));
    report.findings.truncate(FINDINGS_MAX);
    if unread > 0 {
        eprintln!(
            "{unread} messages of the stream are not in the log yet: the next host reads them"
        );
    }
    Ok(is_put_back)
}

fn not_compared(error: &AtRestError, data: &Path) -> Failure {
    let problem = Problem::of(error);
    Failure::Environment(match error {
        AtRestError::Compare(VerifyStreamError::Log(_)) => problem.help(remedy::log(data)),
        AtRestError::Compare(VerifyStreamError::Stream { .. }) => problem.help(format!(
            "verify once more; should it stay so: {}",
            remedy::stream(data)
        )),
        AtRestError::Open(_) | AtRestError::Server(_) | AtRestError::Bus(_) => problem,
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
