//! The measures of a run.

use std::collections::BTreeSet;

use coppice_actors::api::{Compared, Law, VerifyReport};
use serde::Serialize;

use super::{Evidence, seen::Seen};
use crate::desk::Witness;

/// Events by which a person takes part in a run.
const BY_HAND: [&str; 4] = [
    "approval.granted",
    "approval.denied",
    "approval.revoked",
    "effect.settled",
];

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measures {
    /// Effects that happened more than once, as the desk counts them.
    pub duplicates: u64,
    /// Effects that the log knows and the desk has not, or the desk has and the log does not know.
    pub lost: u64,
    /// Whether live state, log and stream disagree.
    pub diverged: bool,
    /// From asking for the start until its end was seen.
    pub latency_ms: f64,
    /// Model calls and tool calls.
    pub steps: u64,
    /// Tokens in and out of models.
    pub tokens: u64,
    /// What models cost.
    pub cost_usd: f64,
    /// Decisions of people.
    pub hand_work: u64,
    /// Effects beyond an envelope, and envelopes beyond those that they came from.
    pub policy_violations: u64,
    /// Evidence that a run should have left and did not.
    pub evidence_missing: u64,
    /// The tree's commits.
    pub commits: u64,
    /// The tree's events.
    pub events: u64,
    /// Starts of the host or of an actor after the first.
    pub restarts: u64,
}

pub(super) fn of(evidence: &Evidence<'_>, seen: &Seen) -> Measures {
    let usage = seen.ended.as_ref().map(|ended| ended.usage.clone());
    let usage = usage.unwrap_or_default();
    let of_envelopes = |law: Law| law == Law::Envelope;
    let laws = || evidence.audit.findings.iter().map(|finding| finding.law);
    #[expect(
        clippy::cast_precision_loss,
        reason = "a figure for people: nobody spends 2^53 millionths"
    )]
    let cost_usd = usage.cost as f64 / 1e6;
    Measures {
        duplicates: evidence.witness.duplicates,
        lost: lost(evidence.witness, seen),
        diverged: diverged(evidence.verify),
        latency_ms: (evidence.latency.as_secs_f64() * 1e4).round() / 10.0,
        steps: usage.steps,
        tokens: usage.tokens,
        cost_usd,
        hand_work: hand_work(seen),
        policy_violations: seen.beyond_envelope
            + laws().filter(|law| of_envelopes(*law)).count() as u64,
        evidence_missing: laws().filter(|law| !of_envelopes(*law)).count() as u64,
        commits: seen.commits,
        events: seen.events,
        restarts: seen.host_restarts + seen.count("child.restarted"),
    }
}

/// Decisions of people.
pub(super) fn hand_work(seen: &Seen) -> u64 {
    BY_HAND.iter().map(|kind| seen.count(kind)).sum()
}

/// Both ways: what the log knows and the desk has not, and what the desk has and the log does not know.
pub(super) fn lost(witness: &Witness, seen: &Seen) -> u64 {
    let known: BTreeSet<String> = seen.landed.iter().map(ToString::to_string).collect();
    let writes = witness.requests.iter().filter(|row| row.route.writes());
    // A doubt that the log names is not lost, whichever way it turns out.
    let doubts: BTreeSet<String> = seen.in_doubt.iter().map(ToString::to_string).collect();
    let there: BTreeSet<String> = writes
        .filter(|row| row.committed > 0 && !doubts.contains(&row.key))
        .map(|row| row.key.clone())
        .collect();
    known.symmetric_difference(&there).count() as u64
}

pub(super) fn diverged(verify: &VerifyReport) -> bool {
    let compared = [verify.log, verify.live, verify.stream];
    !verify.findings.is_empty() || compared.contains(&Compared::Different)
}
