//! Arguments of `coppice sim`.

use std::{ops::RangeInclusive, path::PathBuf, str::FromStr};

use clap::{Args, Subcommand};

/// `coppice sim`
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Show that one seed is one history: run seeds twice and compare
    #[command(after_help = "Examples:
  coppice sim meta
  coppice sim meta --seeds 1..100")]
    Meta {
        /// Which seeds
        #[arg(long, value_name = "A..B", default_value = "1..20")]
        seeds: Seeds,
    },
    /// Run seeds; each that breaks a law leaves a file
    Run(SimRunArgs),
    /// Repeat what a failing seed's file says
    #[command(after_help = "Examples:
  coppice sim replay .coppice/sim/seed-7.json")]
    Replay {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// `coppice sim run`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  coppice sim run
  coppice sim run --seeds 1..10000 --at-most 1
  coppice sim run --seeds 7 --failures /tmp/failures      one seed")]
pub struct SimRunArgs {
    /// Which seeds, both ends included
    #[arg(long, value_name = "A..B", default_value = "1..500")]
    pub seeds: Seeds,
    /// Where failing seeds leave their files
    #[arg(long, value_name = "DIR", default_value = ".coppice/sim")]
    pub failures: PathBuf,
    /// Stop after so many failing seeds
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub at_most: usize,
}

/// A range of seeds, as people write it: `1..500`, both ends included, or one number.
#[derive(Debug, Clone)]
pub struct Seeds(pub RangeInclusive<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let (from, to) = given.split_once("..").unwrap_or((given, given));
        let number = |text: &str| text.trim_start_matches('=').parse::<u64>();
        match (number(from), number(to)) {
            (Ok(from), Ok(to)) if from <= to => Ok(Self(from..=to)),
            _ => Err(format!(
                "{given:?} is no range of seeds: write 1..500, or one number"
            )),
        }
    }
}
