//! Commands that keep what is recorded: archives of trees, backups of whole logs.

use std::path::PathBuf;

use clap::Args;
use coppice_messages::{
    Millis, Timestamp,
    ids::{TenantId, TreeId},
};

use super::{BusArgs, reading::tenant};

/// A point in time: itself, or how long ago it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    At(Timestamp),
    Ago(Millis),
}

impl When {
    /// The time that is meant now.
    pub fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => now.minus(span),
        }
    }
}

pub(super) fn when(given: &str) -> Result<When, String> {
    let at = given.parse().map(When::At);
    at.or_else(|_| given.parse().map(When::Ago)).map_err(|_| {
        "expected a time, such as 2026-08-07T18:30:00Z, or how long ago, such as 30d, 12h, 90s"
            .to_owned()
    })
}

/// `coppice log export`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice log export all.archive
  coppice log export old.archive --ended-before 30d
  coppice log export - TREE | zstd > tree.archive.zst

Works while the host runs. A file is read back and verified before it gets its name.")]
pub struct ExportArgs {
    /// The file to write, which must not be there; - is stdout
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only these trees [default: all]
    #[arg(value_name = "TREE")]
    pub trees: Vec<TreeId>,
    /// Only of this tenant [default: of all]
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Only trees of which every run ended before: a time, or how long ago
    #[arg(long, value_name = "T", value_parser = when)]
    pub ended_before: Option<When>,
}

/// `coppice log import`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice log import all.archive --data restored
  zstd -d < tree.archive.zst | coppice log import - --data elsewhere

The whole archive is verified and compared with the log before anything is written. No host may run on the data directory.")]
pub struct ImportArgs {
    /// The archive; - is stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Also take trees that are not over: the next host here goes on with them, so no other may
    #[arg(long)]
    pub unfinished: bool,
    #[command(flatten)]
    pub bus: BusArgs,
}

/// `coppice log trim`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice log export old.archive --ended-before 30d
  coppice log trim --ended-before 30d --exported old.archive --dry-run
  coppice log trim --ended-before 30d --exported old.archive

A tree goes only when all its runs ended before, none of its effects is in doubt and an export has it as it is. Each of the others is named.
No host may run on the data directory. Blobs that nothing mentions any more go too, and the stream is made anew.")]
pub struct TrimArgs {
    /// Trees of which every run ended before: a time, or how long ago
    #[arg(long, value_name = "T", value_parser = when)]
    pub ended_before: When,
    /// An export that has them; may be given many times
    #[arg(long, value_name = "FILE", required = true)]
    pub exported: Vec<PathBuf>,
    /// Only of this tenant [default: of all]
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub tenant: Option<TenantId>,
    /// Say what would go, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `coppice backup`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice backup /backups/2026-08-07
  coppice backup nightly --data /var/lib/coppice --json

Works while the host runs, and is read back and verified before it gets its name. The outside world is not in it.")]
pub struct BackupArgs {
    /// The directory to make, which must not be there
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// `coppice restore`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  coppice restore /backups/2026-08-07 --data /var/lib/coppice && coppice up --data /var/lib/coppice

Every chain and blob is verified before the data directory is there; what is damaged is named, and nothing is left of it.
Do not start the host whose log was copied again: two hosts that drive one tree do everything twice.")]
pub struct RestoreArgs {
    /// The backup
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Nothing was done since the backup was made: send writes without looking them up first
    #[arg(long)]
    pub nothing_done_since: bool,
}
