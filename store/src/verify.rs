//! Verification without folding: every chain, the order of the log, every blob; and the log against the stream, byte by byte.
//!
//! Whether the states that follow from equal bytes are equal is for the kernel's fold to say.

mod at_rest;
mod chains;
mod stream;

use std::fmt;

use coppice_messages::{
    Digest,
    ids::{RunId, TenantId},
};
use fjall::Readable as _;

pub use self::{
    at_rest::{AtRest, AtRestError, StreamAlone, at_rest, stream_alone},
    stream::{StreamFault, StreamVerified, VerifyStreamError},
};
pub(crate) use self::{chains::ChainWalk, stream::compare};
use crate::log::{LogReader, ReadError, blobs, commits, key, positions, rows, runs, trimmed};

/// What verification of the log found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// Chains, system chains among them.
    pub chains: u64,
    /// Commits.
    pub commits: u64,
    /// Events.
    pub events: u64,
    /// Whole blobs.
    pub blobs: u64,
    /// What is wrong; empty when the log is intact.
    pub faults: Vec<Fault>,
}

/// Something wrong with the log, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Whose chain or blob.
    pub tenant: Option<TenantId>,
    /// The chain's run.
    pub run: Option<RunId>,
    /// Number of the commit's first event.
    pub seq: Option<u64>,
    /// The position in the log.
    pub pos: Option<u64>,
    /// What is wrong.
    pub damage: Damage,
}

/// What can be wrong with the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// The bytes do not have the hash that was recorded with them.
    Altered,
    /// The bytes cannot be decoded.
    Undecodable,
    /// A commit names another tenant, run or number than the place where it lies.
    OtherPlace,
    /// Commits are missing before this one.
    Missing {
        /// The number that should come here.
        expected: u64,
    },
    /// Its predecessor is not the commit before it: one of the two was altered, removed or put elsewhere.
    BrokenChain,
    /// Its epoch does not follow from the one before.
    Epoch,
    /// The positions have a gap here.
    MissingPosition,
    /// No commit, or one that knows another position, lies at this position.
    OtherPosition,
    /// The log ends before the last position that was written.
    Ends {
        /// The last position that was written.
        recorded: u64,
    },
    /// The run is not listed by its tree, or is listed as unfinished and has ended, or the other way round.
    NotListed,
    /// A blob is incomplete, or its bytes do not have its digest.
    Blob(Digest),
    /// A file of the database is damaged: what a table has here, or, without a place, from here on, cannot be read.
    Unreadable {
        /// Which table.
        table: &'static str,
        /// What the database says.
        said: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pos) = self.pos {
            write!(f, "position {pos}: ")?;
        }
        if let (Some(tenant), Some(run)) = (&self.tenant, &self.run) {
            write!(f, "{tenant}/{run}")?;
            match self.seq {
                Some(seq) => write!(f, " event {seq}: ")?,
                None => f.write_str(": ")?,
            }
        }
        match &self.damage {
            Damage::Altered => f.write_str("the commit was altered after it was recorded"),
            Damage::Undecodable => f.write_str("the commit's bytes cannot be decoded"),
            Damage::OtherPlace => f.write_str("the commit belongs elsewhere"),
            Damage::Missing { expected } => {
                write!(f, "event {expected} and what follows it is missing")
            }
            Damage::BrokenChain => {
                f.write_str("the hash of the commit before is not the one that this commit cites")
            }
            Damage::Epoch => f.write_str("the epoch does not follow from the one before"),
            Damage::MissingPosition => f.write_str("no commit has this position"),
            Damage::OtherPosition => {
                f.write_str("the commit that should have this position is missing or has another")
            }
            Damage::Ends { recorded } => write!(
                f,
                "the log ends before it, although {recorded} positions were recorded"
            ),
            Damage::NotListed => {
                f.write_str("its row and the lists of runs by tree and of unfinished runs disagree")
            }
            Damage::Blob(digest) => write!(f, "the blob {digest} is damaged or incomplete"),
            Damage::Unreadable { table, said } => write!(
                f,
                "a file of the log is damaged: this, and perhaps what follows it in the table {table}, cannot be read ({said})"
            ),
        }
    }
}

impl Fault {
    fn at(pos: Option<u64>, damage: Damage) -> Self {
        Self {
            tenant: None,
            run: None,
            seq: None,
            pos,
            damage,
        }
    }

    fn of(tenant: TenantId, run: Option<RunId>, damage: Damage) -> Self {
        Self {
            tenant: Some(tenant),
            run,
            ..Self::at(None, damage)
        }
    }
}

fn unreadable(table: &'static str, error: &ReadError) -> Damage {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let said = cause.unwrap_or_else(|| error.to_string());
    Damage::Unreadable { table, said }
}

/// Verifies the log. What its database cannot read is a fault of its own place, and the rest is still looked at.
///
/// # Errors
/// The database cannot say how far the log had come.
pub fn log(reader: &LogReader) -> Result<Verified, ReadError> {
    let mut found = Verified::default();
    chains(reader, &mut found);
    order(reader, &mut found)?;
    lists(reader, &mut found);
    blobs_of(reader, &mut found);
    Ok(found)
}

fn blobs_of(reader: &LogReader, found: &mut Verified) {
    for blob in blobs::all(&reader.tables.blobs) {
        let (tenant, digest) = match blob {
            Ok(blob) => blob,
            Err(error) => {
                let damage = unreadable("blobs", &error);
                found.faults.push(Fault::at(None, damage));
                return;
            }
        };
        found.blobs += 1;
        if !matches!(
            blobs::get(&reader.tables.blobs, &tenant, &digest),
            Ok(Some(_))
        ) {
            let fault = Fault::of(tenant, None, Damage::Blob(digest));
            found.faults.push(fault);
        }
    }
}

fn chains(reader: &LogReader, found: &mut Verified) {
    let mut walk = ChainWalk::default();
    let mut last = None;
    for entry in commits::all(&reader.tables.commits) {
        match entry {
            Ok((tenant, run, recorded)) => {
                last = Some((tenant.clone(), run.clone(), recorded.seq, recorded.pos));
                walk.take((tenant, run), &recorded, found);
            }
            // Which commits that hides is said by their positions.
            Err(error) => {
                let damage = unreadable("commits", &error);
                let fault = match last {
                    Some((tenant, run, seq, pos)) => Fault {
                        seq: Some(seq),
                        pos: Some(pos),
                        ..Fault::of(tenant, Some(run), damage)
                    },
                    None => Fault::at(None, damage),
                };
                found.faults.push(fault);
                return;
            }
        }
    }
}

/// Positions without a gap, each with the commit that knows it.
fn order(reader: &LogReader, found: &mut Verified) -> Result<(), ReadError> {
    let trimmed = trimmed::get(&reader.tables.meta)?.positions;
    // Before the positions are gone through: what is recorded meanwhile must not look as if it were missing.
    let recorded = reader.total()?.pos;
    let mut expected = 1;
    for entry in positions::from(&reader.tables.positions, 0) {
        let (pos, commit_key) = match entry {
            Ok(entry) => entry,
            Err(error) => {
                let damage = unreadable("positions", &error);
                found.faults.push(Fault::at(Some(expected), damage));
                return Ok(());
            }
        };
        let missing = (expected..pos).find(|pos| !trimmed.contains(*pos));
        found
            .faults
            .extend(missing.map(|missing| Fault::at(Some(missing), Damage::MissingPosition)));
        expected = pos + 1;
        let damage = match commits::at_key(&reader.tables.commits, &commit_key) {
            Ok(Some(commit)) if commit.pos == pos => continue,
            Ok(_) => Damage::OtherPosition,
            Err(error) => unreadable("commits", &error),
        };
        let (tenant, run) = key::read_run(&commit_key).unzip();
        found.faults.push(Fault {
            tenant,
            run,
            seq: key::last_number(&commit_key),
            ..Fault::at(Some(pos), damage)
        });
    }
    if (expected..=recorded).any(|pos| !trimmed.contains(pos)) {
        found
            .faults
            .push(Fault::at(Some(expected), Damage::Ends { recorded }));
    }
    Ok(())
}

/// Each row is found by its tree, and among the unfinished exactly while it is.
fn lists(reader: &LogReader, found: &mut Verified) {
    let tables = &reader.tables;
    // A run that ends meanwhile has its end in the row and in the lists, or in none of them.
    let now = tables.db.snapshot();
    for row in rows::stored(now.iter(&tables.rows)) {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                let fault = Fault::at(None, unreadable("rows", &error));
                found.faults.push(fault);
                return;
            }
        };
        let damage = match runs::is_listed(&now, (&tables.trees, &tables.open), &row) {
            Ok(true) => continue,
            Ok(false) => Damage::NotListed,
            Err(error) => unreadable("trees", &error),
        };
        let fault = Fault::of(row.tenant, Some(row.run), damage);
        found.faults.push(fault);
    }
}
