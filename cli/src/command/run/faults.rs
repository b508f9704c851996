//! `coppice faults`: runs a scenario without its faults, and lists every address that the run offered.

use coppice_actors::faults::{Offer, offers};
use coppice_messages::{Commit, event};
use coppice_store::Log;

use super::{found, once, seed};
use crate::{
    args::{BusArgs, Common, FaultsArgs, RunArgs},
    data,
    failure::{Failure, Problem},
    out,
    reach::unopened,
};

/// `coppice faults`
pub async fn faults(args: &FaultsArgs, common: &Common) -> Result<(), Failure> {
    let mut scenario = found(&args.scenario)?;
    scenario.document.faults.clear();
    let seed = seed(args.seed, &scenario);
    let run = RunArgs {
        scenario: args.scenario.clone(),
        seed: Some(seed),
        repeat: 1,
        faults: Vec::new(),
        dup_callback: None,
        cancels: Vec::new(),
        discard: true,
        tenant: None,
        bus: BusArgs::default(),
    };
    let report = once(&run, common.data.as_deref(), &scenario, seed).await?;
    let log = Log::open(&report.data).map_err(|error| unopened(&error, &report.data))?;
    let mut commits = Vec::new();
    for positioned in log.reader().commits_from(0) {
        let read = positioned.map_err(|error| Failure::Environment(Problem::of(&error)))?;
        let commit = Commit::decode(&read.bytes);
        commits.push(commit.map_err(|error| Failure::Environment(Problem::of(&error)))?);
    }
    drop(log);
    let found = offers(&report.tree, &commits);
    if common.data.is_none() {
        data::discard(&report.data)?;
    }
    if common.json {
        return out::json(&found);
    }
    out::table(
        &["ADDRESS", "COUNT"],
        &found.iter().map(row).collect::<Vec<_>>(),
    )?;
    out::line(format!(
        "\nA fault is ADDRESS[#n][:before|:after|:synced|:acked]=kill_host|kill_actor|panic|delay(500ms); {} kinds of events are known: coppice events --kinds.",
        event::KINDS.len()
    ))
}

fn row(offer: &Offer) -> Vec<String> {
    let tool = offer
        .tool
        .as_ref()
        .map_or(String::new(), |tool| format!("({tool})"));
    vec![
        format!("{}@{}{tool}", offer.path, offer.event),
        offer.count.to_string(),
    ]
}
