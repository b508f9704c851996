//! Each expectation of a scenario, held against what is there.

use coppice_actors::{
    api::Compared,
    faults::{Action, Fault},
    schema::Schemas,
};
use coppice_messages::Value;

use super::{Check, Evidence, Measures, leeway::Leeway, near, seen::Seen, tree};
use crate::{
    desk::Delivery,
    scenario::{Count, DeskCount, EventKind},
};

/// Longest text of an answer that is shown whole.
const SHOWN_MAX: usize = 200;

pub(super) fn of(
    evidence: &Evidence<'_>,
    seen: &Seen,
    measures: &Measures,
    leeway: &mut Leeway,
) -> Vec<Check> {
    let expect = &evidence.scenario.document.expect;
    let ended = seen.ended.as_ref();
    let reason = ended.map_or("not ended".to_owned(), |ended| ended.reason.to_string());
    let mut checks = vec![same("reason", &expect.reason.to_string(), &reason)];
    if let Some(class) = &expect.class {
        let seen = ended.and_then(|ended| ended.class.as_deref());
        checks.push(same("class", class, seen.unwrap_or("none")));
    }
    for (what, count) in &expect.desk {
        let name = format!("desk.{}", what.name());
        let count = leeway.desk(&name, *what, *count);
        checks.push(counted(&name, count, at_the_desk(evidence, *what)));
    }
    for (kind, count) in &expect.events {
        let name = format!("events.{}", kind.as_str());
        let count = leeway.events(&name, kind, *count);
        checks.push(counted(&name, count, seen.count(kind.as_str())));
    }
    for kind in &expect.never {
        let name = format!("never.{}", kind.as_str());
        let none = leeway.events(&name, kind, Count::exactly(0));
        checks.push(counted(&name, none, seen.count(kind.as_str())));
    }
    answer(evidence, seen, &mut checks);
    if !expect.trajectory.is_empty() {
        checks.push(trajectory(&expect.trajectory, &seen.root, leeway));
    }
    tree::check(evidence, seen, &mut checks);
    if let Some(count) = expect.restarts {
        let count = leeway.more("restarts", count);
        checks.push(counted("restarts", count, measures.restarts));
    }
    struck(evidence, seen, &mut checks);
    if expect.rebuild.is_some() {
        checks.push(rebuild(evidence, measures));
    }
    let none = Count::exactly(0);
    checks.push(counted("duplicates", none, measures.duplicates));
    checks.push(counted("lost", none, measures.lost));
    checks.push(counted(
        "policy_violations",
        none,
        measures.policy_violations,
    ));
    checks.push(counted("evidence_missing", none, measures.evidence_missing));
    checks
}

fn same(name: &str, expected: &str, seen: &str) -> Check {
    Check {
        name: name.to_owned(),
        expected: expected.to_owned(),
        seen: seen.to_owned(),
        held: expected == seen,
    }
}

pub(super) fn counted(name: &str, expected: Count, seen: u64) -> Check {
    Check {
        name: name.to_owned(),
        expected: expected.to_string(),
        seen: seen.to_string(),
        held: expected.holds(seen),
    }
}

fn at_the_desk(evidence: &Evidence<'_>, what: DeskCount) -> u64 {
    let witness = evidence.witness;
    match what {
        DeskCount::Tickets => witness.tickets,
        DeskCount::Refunds => witness.refunds,
        DeskCount::Files => witness.files,
        DeskCount::Reads => witness.reads,
        DeskCount::Callbacks => {
            let answers = witness
                .callbacks
                .iter()
                .map(|sent| sent.answers.len() as u64);
            answers.sum()
        }
    }
}

fn answer(evidence: &Evidence<'_>, seen: &Seen, checks: &mut Vec<Check>) {
    let Some(expected) = &evidence.scenario.document.expect.answer else {
        return;
    };
    let payload = seen.ended.as_ref().and_then(|ended| ended.answer.as_ref());
    let blobs = evidence.log.blobs_of(evidence.tenant);
    let given = payload.and_then(|payload| payload.resolve(&blobs));
    let shown = given.as_ref().map_or("no answer".to_owned(), shown);
    if let Some(name) = &expected.schema {
        let bytes = evidence.scenario.answer_schema.as_deref();
        let checked = given
            .as_ref()
            .zip(bytes)
            .map(|(given, bytes)| Schemas::new().check_document(bytes, given));
        checks.push(Check {
            name: "answer.schema".to_owned(),
            expected: name.to_string(),
            held: matches!(checked, Some(Ok(()))),
            seen: match checked {
                Some(Err(mismatch)) => mismatch.to_string(),
                Some(Ok(())) | None => shown.clone(),
            },
        });
    }
    if let Some(value) = &expected.equals {
        checks.push(Check {
            name: "answer.equals".to_owned(),
            expected: self::shown(value),
            held: given.as_ref() == Some(value),
            seen: shown,
        });
    }
}

fn shown(value: &Value) -> String {
    let text = String::from_utf8_lossy(&value.canonical()).into_owned();
    if text.chars().count() <= SHOWN_MAX {
        return text;
    }
    let start: String = text.chars().take(SHOWN_MAX).collect();
    format!("{start}…")
}

/// Whether the kinds came in this order, with others in between.
fn trajectory(expected: &[EventKind], root: &[String], leeway: &mut Leeway) -> Check {
    let mut came = root.iter();
    let missing = expected.iter().find(|kind| {
        let rest = came.clone();
        let there = came.any(|seen| seen == kind.as_str());
        let passed = !there && leeway.may_miss(kind.as_str());
        if passed {
            came = rest;
        }
        !there && !passed
    });
    let words: Vec<_> = expected.iter().map(EventKind::as_str).collect();
    Check {
        name: "trajectory".to_owned(),
        expected: words.join(", "),
        seen: match missing {
            None => "in this order".to_owned(),
            Some(kind) => format!("no {} at its place", kind.as_str()),
        },
        held: missing.is_none(),
    }
}

/// Every fault did strike: a scenario whose fault never came shows nothing.
fn struck(evidence: &Evidence<'_>, seen: &Seen, checks: &mut Vec<Check>) {
    for fault in evidence.faults {
        let address = fault.to_string();
        let times = if fault.is_of_callbacks() {
            befell(fault, &evidence.witness.callbacks)
        } else {
            let times = seen.struck.iter().filter(|struck| **struck == address);
            times.count()
        };
        checks.push(Check {
            name: format!("fault {address}"),
            expected: "struck".to_owned(),
            seen: match times {
                // A callback is no event of the tree.
                0 if fault.is_of_callbacks() => "never struck".to_owned(),
                0 => near::hint(&address, &seen.offered),
                1 => "struck".to_owned(),
                more => format!("struck {more} times"),
            },
            held: times > 0,
        });
    }
}

/// How many callbacks a fault befell: as the desk says, which delivers them.
fn befell(fault: &Fault, callbacks: &[Delivery]) -> usize {
    let wanted = fault.times() as usize;
    let struck = |sent: &&Delivery| match fault.action() {
        Action::Duplicate => sent.answers.len() >= wanted,
        Action::Drop => sent.lost >= fault.times() && !sent.answers.is_empty(),
        Action::Delay(span) => sent.delay_ms >= span.0 && !sent.answers.is_empty(),
        Action::KillHost | Action::KillActor | Action::Panic => false,
    };
    callbacks.iter().filter(struck).count()
}

fn rebuild(evidence: &Evidence<'_>, measures: &Measures) -> Check {
    let verify = evidence.verify;
    let said = |what: &str, compared: Compared| match compared {
        Compared::Equal(0) => format!("{what} not compared (nothing was awake)"),
        Compared::Equal(count) => format!("{what} equal ({count})"),
        Compared::Different => format!("{what} different"),
        Compared::Skipped => format!("{what} not compared"),
    };
    let first = verify.findings.first();
    Check {
        name: "rebuild".to_owned(),
        expected: "log, live state and stream equal".to_owned(),
        seen: first.map_or_else(
            || {
                [
                    said("log", verify.log),
                    said("live state", verify.live),
                    said("stream", verify.stream),
                ]
                .join(", ")
            },
            |finding| finding.what.clone(),
        ),
        held: !measures.diverged
            && verify.log != Compared::Skipped
            && verify.stream != Compared::Skipped,
    }
}
