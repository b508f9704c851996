//! `coppice status`: how the host is, or what is left of it.

use coppice_actors::api::{ListRequest, RunStateFilter, StatusReport};
use serde_json::json;

use crate::{
    args::Common,
    failure::Failure,
    out,
    reach::{Reach, Way, failed},
};

/// `coppice status`
pub async fn status(common: &Common) -> Result<(), Failure> {
    let reach = Reach::open(common).await?;
    let tenant = reach.tenant(None);
    let open = ListRequest {
        state: Some(RunStateFilter::Open),
        ..ListRequest::default()
    };
    let open = reach.all(&tenant, open).await?.len();
    let data = reach.data.display().to_string();
    match &reach.way {
        Way::Host(client) => {
            let status = client.status().await.map_err(failed)?;
            if common.json {
                return out::json(
                    &json!({ "alive": true, "data": data, "open": open, "host": status }),
                );
            }
            out::text(&alive(&status, open, &data))
        }
        Way::Log(opened) => {
            let pos = opened.position()?;
            if common.json {
                return out::json(
                    &json!({ "alive": false, "data": data, "open": open, "pos": pos }),
                );
            }
            out::line(format!(
                "no host runs in {data}; its log ends at position {pos}, {}",
                match open {
                    0 => "no run is unfinished".to_owned(),
                    1 => "1 run is unfinished: coppice resume goes on with it".to_owned(),
                    many => format!("{many} runs are unfinished: coppice resume goes on with them"),
                }
            ))
        }
    }
}

fn alive(status: &StatusReport, open: usize, data: &str) -> String {
    let degraded = if status.degraded.is_empty() {
        "no".to_owned()
    } else {
        status.degraded.join("; ")
    };
    let policies = match &status.policies {
        Some(set) => format!("{} of {}", set.version, set.directory),
        None => "none: envelopes and contracts alone decide".to_owned(),
    };
    format!(
        "host       {} (coppice {}, process {}) since {}\n\
         data       {data}, realm {}\n\
         degraded   {degraded}\n\
         policies   {policies}\n\
         position   {} in the log, which is message {} of the stream; {} on their way\n\
         runs       {open} open, {} awake, {} asleep\n\
         feed       {} events dropped\n\
         quarantine {} commits\n",
        status.host,
        status.version,
        status.pid,
        status.started_at,
        status.realm,
        status.pos,
        status.stream,
        status.waiting,
        status.awake,
        status.asleep,
        status.dropped,
        status.quarantined,
    )
}
