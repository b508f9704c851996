//! A verdict for people.

use std::{fmt::Write as _, io::IsTerminal as _, path::Path};

use coppice_scenarios::verdict::{Report, Verdict};

use crate::{args::RunArgs, out};

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
    let m = &report.measures;
    let _written = writeln!(
        text,
        "duplicates {}, lost {}, diverged {}; {:.0} ms, {} steps, {} tokens, {} restarts, {} commits, {} events",
        m.duplicates,
        m.lost,
        if m.diverged { "yes" } else { "no" },
        m.latency_ms,
        m.steps,
        m.tokens,
        m.restarts,
        m.commits,
        m.events,
    );
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
    if let Some(tenant) = &args.tenant {
        let _written = write!(text, " --tenant {tenant}");
    }
    text.push('\n');
    text
}

/// Three commands that go on from here, with this run's ids. A directory that was chosen must be named to them.
pub fn next_commands(report: &Report, data: Option<&Path>) -> String {
    let program = invoked();
    let tree = &report.tree;
    let chosen = data.map_or(String::new(), |data| format!(" --data {}", data.display()));
    format!(
        "next:\n  {program} show {tree}{chosen}\n  {program} events --tree {tree} --kind 'effect.*'{chosen}\n  {program} log verify{chosen}\n"
    )
}
