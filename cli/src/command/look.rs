//! Commands that look at what is recorded: `status`, `ls`, `show`, `watch`, `env`, `audit`.

mod env;
mod show;
mod status;
mod waiting;
mod watch;

pub use self::{env::env, show::show, status::status, watch::watch};

use coppice_actors::api::{Finding, ListRequest, RunRow, RunStateFilter};
use coppice_messages::ids::TenantId;

use crate::{
    args::{AuditArgs, Common, LsArgs},
    failure::Failure,
    out,
    reach::Reach,
};

/// `coppice ls`
pub async fn ls(args: &LsArgs, common: &Common) -> Result<(), Failure> {
    let reach = Reach::open(common).await?;
    let tenant = reach.tenant(args.tenant.as_ref());
    let request = ListRequest {
        tree: args.tree.clone(),
        state: match (args.open || args.waiting.is_some(), args.ended) {
            (true, _) => Some(RunStateFilter::Open),
            (_, true) => Some(RunStateFilter::Ended),
            (false, false) => None,
        },
        labels: args.labels.iter().cloned().collect(),
        roots: args.roots,
        after: None,
        limit: None,
    };
    let mut runs = reach.all(&tenant, request).await?;
    if runs.is_empty() {
        // Nothing is no answer to a name that is not there.
        if let Some(tree) = &args.tree {
            reach.runs_of(&tenant, tree).await?;
        } else if args.tenant.is_some() && tenant != TenantId::host() {
            reach.the_tree(&tenant, None).await?;
        }
    }
    runs.sort_by(|one, other| (one.opened_at, &one.run).cmp(&(other.opened_at, &other.run)));
    if let Some(awaited) = args.waiting {
        return waiting::waiting(&reach, &tenant, &runs, awaited.what(), common.json).await;
    }
    if common.json {
        return out::json(&runs);
    }
    let row = |row: &RunRow| {
        vec![
            row.run.to_string(),
            row.path.clone(),
            ending(row),
            row.opened_at.to_string(),
        ]
    };
    out::table(
        &["RUN", "PATH", "STATE", "OPENED"],
        &runs.iter().map(row).collect::<Vec<_>>(),
    )
}

fn ending(row: &RunRow) -> String {
    match (&row.reason, &row.class) {
        (None, _) => "open".to_owned(),
        (Some(reason), None) => reason.to_string(),
        (Some(reason), Some(class)) => format!("{reason} ({class})"),
    }
}

/// `coppice audit`
pub async fn audit(args: &AuditArgs, common: &Common) -> Result<(), Failure> {
    let reach = Reach::open(common).await?;
    let tenant = reach.tenant(args.tree.tenant.as_ref());
    let tree = reach.the_tree(&tenant, args.tree.tree.as_ref()).await?;
    let report = reach.audit(&tenant, &tree).await?;
    if common.json {
        out::json(&report)?;
    } else {
        findings(&report.findings)?;
        let found = match report.findings.len() {
            0 => "nothing is missing".to_owned(),
            1 => "1 finding".to_owned(),
            many => format!("{many} findings"),
        };
        out::line(format!(
            "{tree}: {}, {}: {found}",
            out::count(report.runs, "run"),
            out::count(report.events, "event")
        ))?;
    }
    none(&report.findings)
}

/// Findings, one line each.
pub fn findings(findings: &[Finding]) -> Result<(), Failure> {
    for finding in findings {
        let law = serde_json::to_value(finding.law).unwrap_or_default();
        let law = law.as_str().unwrap_or_default().to_owned();
        let run = finding
            .run
            .as_ref()
            .map_or(String::new(), |run| format!(" {run}"));
        let pos = finding
            .pos
            .map_or(String::new(), |pos| format!(" at {pos}"));
        out::line(format!("{law}{run}{pos}: {}", finding.what))?;
    }
    Ok(())
}

/// Holds when there is nothing to find.
pub fn none(findings: &[Finding]) -> Result<(), Failure> {
    if findings.is_empty() {
        Ok(())
    } else {
        Err(Failure::NotHeld)
    }
}
