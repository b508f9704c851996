//! `coppice run --repeat N`: the share of runs that held, with its 95 % interval.

use coppice_scenarios::{
    scenario::Scenario,
    verdict::{Report, Verdict},
};
use serde::Serialize;

use super::{once, print};
use crate::{
    args::{Common, RunArgs},
    data,
    failure::Failure,
    out,
};

/// The quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_963_985;

/// What many runs showed.
#[derive(Debug, Serialize)]
struct Repeated {
    scenario: String,
    runs: u32,
    held: u32,
    share: f64,
    interval_95: [f64; 2],
    all: bool,
    reports: Vec<Report>,
}

/// Runs it many times, one seed after the other.
pub async fn repeat(
    args: &RunArgs,
    common: &Common,
    scenario: &Scenario,
    seed: u64,
) -> Result<(), Failure> {
    let mut reports = Vec::new();
    for nth in 0..args.repeat {
        let own = common
            .data
            .as_ref()
            .map(|data| data.join(format!("{:04}", nth + 1)));
        let seed = seed.wrapping_add(u64::from(nth));
        let report = once(args, own.as_deref(), scenario, seed).await?;
        if report.verdict == Verdict::NotHeld && !common.json {
            out::text(&print::report(&report))?;
            out::text(&print::again(args, &report))?;
        }
        // What did not hold is kept, to be looked at.
        if args.discard && report.verdict == Verdict::Held {
            data::discard(&report.data)?;
        }
        reports.push(report);
    }
    let held = reports
        .iter()
        .filter(|report| report.verdict == Verdict::Held);
    let held = u32::try_from(held.count()).unwrap_or(u32::MAX);
    let repeated = Repeated {
        scenario: scenario.document.scenario.to_string(),
        runs: args.repeat,
        held,
        share: f64::from(held) / f64::from(args.repeat),
        interval_95: wilson(held, args.repeat),
        all: held == args.repeat,
        reports,
    };
    if common.json {
        out::json(&repeated)?;
    } else {
        out::line(said(&repeated))?;
    }
    if repeated.all {
        Ok(())
    } else {
        Err(Failure::NotHeld)
    }
}

fn said(repeated: &Repeated) -> String {
    let [low, high] = repeated.interval_95;
    let all = if repeated.all {
        format!("all of {}", repeated.runs)
    } else {
        format!("{} of {}", repeated.held, repeated.runs)
    };
    format!(
        "verdict: {all} held; share {:.3}, 95 % interval {low:.3} to {high:.3}",
        repeated.share
    )
}

/// The Wilson score interval: sensible also when all held, or none.
fn wilson(held: u32, runs: u32) -> [f64; 2] {
    let (n, z2) = (f64::from(runs), Z * Z);
    let share = f64::from(held) / n;
    let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_share_and_says_little_of_few_runs() {
        let [low, high] = wilson(20, 20);
        assert!((0.83..0.85).contains(&low) && high > 0.999, "{low} {high}");
        let [low, high] = wilson(0, 20);
        assert!(low < 0.001 && (0.15..0.17).contains(&high), "{low} {high}");
        let [low, high] = wilson(5, 10);
        assert!(
            (0.23..0.24).contains(&low) && (0.76..0.77).contains(&high),
            "{low} {high}"
        );
    }
}
