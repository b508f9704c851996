//! The verdict on a run: each expectation checked against what is recorded and what the desk saw, and the measures.
//!
//! Nothing is taken on trust: events, answers and costs come from the log, what happened outside from the desk's own count, whether the
//! states agree from verify, and what evidence is missing from audit.

mod checks;
mod leeway;
mod measures;
mod near;
mod seen;
#[cfg(test)]
mod tests;
mod tree;

use std::{path::PathBuf, time::Duration};

use coppice_actors::{
    api::{AuditReport, VerifyReport},
    faults::Fault,
};
use coppice_messages::{
    event::run::Reason,
    ids::{TenantId, TreeId},
};
use coppice_store::{LogReader, ReadError};
use serde::Serialize;

pub use self::measures::Measures;
use self::{leeway::Leeway, seen::Seen};
use crate::{desk::Witness, scenario::Scenario};

/// Everything that is known of a run when it is over.
pub struct Evidence<'a> {
    /// What was run.
    pub scenario: &'a Scenario,
    /// With which seed.
    pub seed: u64,
    /// Whose tree it is.
    pub tenant: &'a TenantId,
    /// The tree.
    pub tree: &'a TreeId,
    /// Every fault: the scenario's and the command line's.
    pub faults: &'a [Fault],
    /// How many of them are the command line's: the scenario counts without these.
    pub faults_added: usize,
    /// The log.
    pub log: &'a LogReader,
    /// Its last position before the host was started for the tree: whatever is behind it belongs to the run.
    pub before: u64,
    /// What the desk saw.
    pub witness: &'a Witness,
    /// What verify found while the host lived.
    pub verify: &'a VerifyReport,
    /// What audit found.
    pub audit: &'a AuditReport,
    /// From asking for the start until its end was seen.
    pub latency: Duration,
    /// Where the data are.
    pub data: PathBuf,
}

/// The verdict, as `coppice run --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Which scenario.
    pub scenario: String,
    /// Whether everything expected held.
    pub verdict: Verdict,
    /// How the tree ended; absent when it has not.
    pub reason: Option<Reason>,
    /// The refinement of the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What the end says to people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The tree.
    pub tree: TreeId,
    /// The seed.
    pub seed: u64,
    /// Each expectation.
    pub checks: Vec<Check>,
    /// Names of the checks that were judged with leeway, for the faults of the command line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leeway: Vec<String>,
    /// What was measured.
    pub measures: Measures,
    /// Where the data are.
    pub data: PathBuf,
}

/// Whether everything expected held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It did.
    Held,
    /// Something did not.
    NotHeld,
}

/// One expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Which.
    pub name: String,
    /// What was expected.
    pub expected: String,
    /// What is there.
    pub seen: String,
    /// Whether that is as expected.
    pub held: bool,
}

/// Judges a run.
///
/// # Errors
/// The log cannot be read.
pub fn judge(evidence: &Evidence<'_>) -> Result<Report, ReadError> {
    let mut seen = Seen::read(
        evidence.log,
        evidence.tenant,
        evidence.tree,
        evidence.before,
    )?;
    let unstruck = |fault: &Fault| !seen.struck.contains(&fault.to_string());
    if evidence.faults.iter().any(unstruck) {
        seen.offered = near::offered(evidence.log, evidence.tree, evidence.before)?;
    }
    let measures = measures::of(evidence, &seen);
    let mut leeway = Leeway::of(evidence.faults_added);
    let checks = checks::of(evidence, &seen, &measures, &mut leeway);
    let held = checks.iter().all(|check| check.held);
    let ended = seen.ended.as_ref();
    Ok(Report {
        scenario: evidence.scenario.document.scenario.to_string(),
        verdict: if held {
            Verdict::Held
        } else {
            Verdict::NotHeld
        },
        reason: ended.map(|ended| ended.reason),
        class: ended.and_then(|ended| ended.class.clone()),
        message: ended.map(|ended| ended.message.clone()).unwrap_or_default(),
        tree: evidence.tree.clone(),
        seed: evidence.seed,
        checks,
        leeway: leeway.used(),
        measures,
        data: evidence.data.clone(),
    })
}
