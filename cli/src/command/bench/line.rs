//! The results: a line of JSON each, or one table with what is aimed at beside what was measured.

use serde::Serialize;

use super::{
    crash::Crash, hot_path::Loop, quiet::Quiet, rebuild::Rebuild, row::Row, usage::PerRun,
    width::Width,
};

/// One result.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Line {
    /// Bare loop and product.
    Loop(Loop),
    /// W1 and W5.
    Width(Width),
    /// W2.
    Row(Row),
    /// W3.
    Crash(Crash),
    /// W4.
    Quiet(Quiet),
    /// Rebuild.
    Rebuild(Rebuild),
}

/// A figure beside what is aimed at.
struct Figure {
    what: String,
    measured: String,
    aim: String,
}

fn figure(what: &str, measured: String, aim: &str) -> Figure {
    Figure {
        what: what.to_owned(),
        measured,
        aim: aim.to_owned(),
    }
}

impl Line {
    /// Rows of the table: workload, figure, measured, aimed at.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let (workload, figures) = match self {
            Self::Loop(line) => of_loop(line),
            Self::Width(line) => of_width(line),
            Self::Row(line) => of_row(line),
            Self::Crash(line) => of_crash(line),
            Self::Quiet(line) => of_quiet(line),
            Self::Rebuild(line) => of_rebuild(line),
        };
        let row = |figure: Figure| vec![workload.clone(), figure.what, figure.measured, figure.aim];
        figures.into_iter().map(row).collect()
    }
}

fn of_loop(line: &Loop) -> (String, Vec<Figure>) {
    let feed = if line.feed { "on" } else { "off" };
    let aim = if line.feed { "0.5" } else { "0.67" };
    let measured = format!(
        "{:.2} ({:.0} of {:.0} commits/s)",
        line.ratio, line.coppice_per_s, line.bare_per_s
    );
    let workload = format!("loop, {} chains, feed {feed}", line.concurrency);
    let aim = format!("at least {aim}");
    (workload, vec![figure("of the bare loop", measured, &aim)])
}

fn of_width(line: &Width) -> (String, Vec<Figure>) {
    let workload = format!("{}, {} at one time", line.workload, line.concurrency);
    let counts = line.workload == "w1";
    let aim = |aim: &'static str| if counts { aim } else { "" };
    let (rate, cpu) = match line.concurrency {
        1 => (aim("at least 200"), aim("at most 0.004")),
        16 => (aim("at least 600"), aim("at most 0.0025")),
        64 => (aim("at least 700"), aim("at most 0.0025")),
        _ => ("", ""),
    };
    let p50 = if line.concurrency == 1 {
        aim("at most 5 ms")
    } else {
        ""
    };
    let memory = if line.concurrency == 64 {
        aim("under 250 MB")
    } else {
        ""
    };
    let mut figures = vec![
        figure("runs/s", format!("{:.0}", line.runs_per_s), rate),
        figure("p50", format!("{:.1} ms", line.p50_ms), p50),
        figure("p99", format!("{:.1} ms", line.p99_ms), ""),
    ];
    if let Some(over) = &line.over_w1 {
        let aim = "at most 1.5";
        figures.push(figure("time over w1", format!("{:.2}", over.time), aim));
        let cpu = over
            .cpu
            .map_or("unknown".to_owned(), |cpu| format!("{cpu:.2}"));
        figures.push(figure("CPU over w1", cpu, aim));
    }
    figures.extend(of_usage(&line.used, cpu, memory));
    (workload, figures)
}

fn of_row(line: &Row) -> (String, Vec<Figure>) {
    let mut figures = vec![
        figure(
            "p50 of a step",
            format!("{:.3} ms", line.p50_ms),
            "at most 0.4 ms",
        ),
        figure("p99 of a step", format!("{:.3} ms", line.p99_ms), ""),
    ];
    figures.extend(of_usage(&line.used, "", ""));
    (format!("w2, {} steps", line.steps), figures)
}

fn of_crash(line: &Crash) -> (String, Vec<Figure>) {
    let done = format!("{:.2} s", line.restart_to_done_s);
    let mut figures = vec![
        figure("restart to done", done, "at most 1 s"),
        figure("effects done twice", line.duplicates.to_string(), "0"),
        figure("effects or runs lost", line.lost.to_string(), "0"),
    ];
    figures.extend(of_usage(&line.used, "", ""));
    let workload = format!("w3, {} of {} runs in flight", line.in_flight, line.runs);
    (workload, figures)
}

fn of_quiet(line: &Quiet) -> (String, Vec<Figure>) {
    let (aim, memory) = match line.children {
        1_000 => ("at most 100 ms", "under 150 MB"),
        10_000 => ("at most 12 times that of 1,000", ""),
        _ => ("", ""),
    };
    let mut figures = vec![
        figure("quiet", format!("{:.0} ms", line.quiet_ms), aim),
        figure("spread", format!("{:.0} ms", line.spread_ms), ""),
        figure(
            "host's memory while all wait",
            megabytes(line.waiting_rss_mb),
            memory,
        ),
    ];
    figures.extend(of_usage(&line.used, "", ""));
    (format!("w4, {} children", line.children), figures)
}

fn of_rebuild(line: &Rebuild) -> (String, Vec<Figure>) {
    let measured = format!("{:.0}", line.events_per_s);
    let workload = format!("rebuild, {} events of {} runs", line.events, line.runs);
    let opened = format!("{:.0} ms", line.open_ms);
    let figures = vec![
        figure("events/s", measured, "at least 500000"),
        figure("opening the log", opened, ""),
    ];
    (workload, figures)
}

fn of_usage(used: &PerRun, cpu: &str, memory: &str) -> [Figure; 7] {
    let cpu_s = used
        .cpu_s_per_run
        .map_or("unknown".to_owned(), |s| format!("{s:.4}"));
    let kib = used.disk_bytes_per_run as f64 / 1024.0;
    [
        figure("CPU s a run", cpu_s, cpu),
        figure("host's memory at most", megabytes(used.host_rss_mb), memory),
        figure(
            "nats-server's memory at most",
            megabytes(used.nats_rss_mb),
            "",
        ),
        figure("disk a run", format!("{kib:.0} KiB"), ""),
        figure("fsyncs a run", format!("{:.1}", used.fsyncs_per_run), ""),
        figure("commits a run", format!("{:.1}", used.commits_per_run), ""),
        figure(
            "messages a run",
            format!("{:.1}", used.messages_per_run),
            "",
        ),
    ]
}

fn megabytes(number: Option<f64>) -> String {
    number.map_or("unknown".to_owned(), |number| format!("{number:.0} MB"))
}

/// A table in Markdown.
pub fn markdown(headings: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<&str> = cells.collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(&mut headings.iter().copied());
    text.push_str(&line(&mut headings.iter().map(|_| "---")));
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}
