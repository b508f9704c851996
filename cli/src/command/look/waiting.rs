//! `coppice ls --waiting`: which runs wait for something, since when, and until when.

use std::collections::BTreeSet;

use coppice_actors::api::{RunRow, TreeRequest};
use coppice_messages::{
    Timestamp,
    ids::{RunId, TenantId, TreeId},
};
use coppice_topology::tree::WaitingFor;
use serde::Serialize;

use crate::{failure::Failure, out, reach::Reach};

/// A run that waits.
#[derive(Serialize)]
struct Waits {
    tree: TreeId,
    run: RunId,
    path: String,
    what: WaitingFor,
    who: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
}

/// Of these runs those that wait for it.
pub(super) async fn waiting(
    reach: &Reach,
    tenant: &TenantId,
    open: &[RunRow],
    what: WaitingFor,
    json: bool,
) -> Result<(), Failure> {
    let meant: BTreeSet<&RunId> = open.iter().map(|row| &row.run).collect();
    let trees: BTreeSet<&TreeId> = open.iter().map(|row| &row.tree).collect();
    let mut found = Vec::new();
    for tree in trees {
        let frame = reach.tree(tenant, &TreeRequest::now(tree.clone())).await?;
        for run in frame.runs {
            if !meant.contains(&run.run) {
                continue;
            }
            let waits = run.waiting.into_iter().chain(run.also);
            for waiting in waits.filter(|waiting| waiting.what == what) {
                found.push(Waits {
                    tree: tree.clone(),
                    run: run.run.clone(),
                    path: run.path.clone(),
                    what,
                    who: waiting.who,
                    since: waiting.since,
                    until: waiting.until,
                });
            }
        }
    }
    found.sort_by(|one, other| (one.since, &one.run).cmp(&(other.since, &other.run)));
    if json {
        return out::json(&found);
    }
    let time = |at: Option<Timestamp>| at.map_or("-".to_owned(), |at| at.to_string());
    let row = |waits: &Waits| {
        vec![
            waits.run.to_string(),
            waits.path.clone(),
            waits.who.clone(),
            time(waits.since),
            time(waits.until),
        ]
    };
    out::table(
        &["RUN", "PATH", "WAITS FOR", "SINCE", "UNTIL"],
        &found.iter().map(row).collect::<Vec<_>>(),
    )
}
