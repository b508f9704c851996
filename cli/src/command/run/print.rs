//! A verdict for people.

use std::{fmt::Write as _, io::IsTerminal as _};

use coppice_scenarios::verdict::{Report, Verdict};

use crate::{
    args::{BusArgs, RunArgs},
    out,
};

/// How this program was called: it may not be on the PATH.
pub fn invoked() -> String {
    std::env::args()
        .next()
        .unwrap_or_else(|| "coppice".to_owned())
}

/// The checks, the measures, the verdict.
pub fn report(report: &Report) -> String {
    let colourful = out::colourful(std::io::stdout().is_terminal());
    let paint = |text: &str, colour: u8| {
        if colourful {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    };
    let mut text = String::new();
    for check in &report.checks {
        let (mark, colour) = if check.held {
            ("held", 32)
        } else {
            ("NOT HELD", 31)
        };
        let mut line = format!("  {}  {}: {}", paint(mark, colour), check.name, check.seen);
        if !check.held {
            let _written = write!(line, " (expected {})", check.expected);
        }
        text.push_str(&line);
        text.push('\n');
    }
    if !report.leeway.is_empty() {
        let _written = writeln!(
            text,
            "  as at least (effect.landed: at most) what the scenario counts, for the faults of the command line: {}",
            report.leeway.join(", ")
        );
    }
    let m = &report.measures;
    let _written = writeln!(
        text,
        "duplicates {}, lost {}, diverged {}; {:.0} ms, {}, {}, {}; the tree has {}, {}",
        m.duplicates,
        m.lost,
        if m.diverged { "yes" } else { "no" },
        m.latency_ms,
        out::count(m.steps, "step"),
        out::count(m.tokens, "token"),
        out::count(m.restarts, "restart"),
        out::count(m.commits, "commit"),
        out::count(m.events, "event"),
    );
    if report
        .checks
        .iter()
        .any(|check| check.seen.starts_with("never struck"))
    {
        let _written = writeln!(
            text,
            "coppice faults {} lists where a fault can strike",
            report.scenario
        );
    }
    if !report.message.is_empty() {
        let _written = writeln!(text, "the run says: {}", report.message);
    }
    let (word, colour) = match report.verdict {
        Verdict::Held => ("held", 32),
        Verdict::NotHeld => ("not held", 31),
    };
    let reason = report
        .reason
        .map_or("not ended".to_owned(), |reason| reason.to_string());
    let _written = writeln!(
        text,
        "verdict: {} ({reason}, seed {}, data in {})",
        paint(word, colour),
        report.seed,
        report.data.display()
    );
    text
}

/// The one command that does the same again.
pub fn again(args: &RunArgs, report: &Report) -> String {
    let mut text = format!(
        "again:\n  {} run {} --seed {}",
        invoked(),
        args.scenario,
        report.seed
    );
    for fault in args.all_faults() {
        let _written = write!(text, " --fault '{fault}'");
    }
    for cancel in &args.cancels {
        let _written = write!(text, " --cancel '{cancel}'");
    }
    if let Some(tenant) = &args.tenant {
        let _written = write!(text, " --tenant {tenant}");
    }
    let BusArgs {
        nats,
        realm,
        nats_creds,
    } = &args.bus;
    if let (Some(url), Some(realm)) = (nats, realm) {
        let _written = write!(text, " --nats {url} --realm {realm}");
    }
    if let Some(file) = nats_creds {
        let _written = write!(text, " --nats-creds {}", file.display());
    }
    text.push('\n');
    text
}

/// Three commands that go on from here, with this run's ids, and with its directory: the latest will be another.
pub fn next_commands(report: &Report) -> String {
    let program = invoked();
    let tree = &report.tree;
    let chosen = format!(" --data {}", report.data.display());
    format!(
        "next:\n  {program} show {tree}{chosen}\n  {program} events --tree {tree} --kind 'effect.*'{chosen}\n  {program} log verify{chosen}\n"
    )
}
