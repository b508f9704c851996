//! The records of a whole log: a snapshot of every key family, so that a copy has the same positions, and the same account of the stream.

use std::io::Read;

use bytes::Bytes;
use coppice_messages::{Digest, ids::TenantId};
use fjall::Readable as _;
use sha2::Digest as _;

use super::{Entry, GatherError, ReadArchiveError, Reader, Record};
use crate::{
    log::{LogReader, ReadError, blobs, commits, key, meta::Total, trimmed},
    mark,
    verify::{ChainWalk, Damage, Fault, Verified},
};

/// The entries of a log as it was at one moment.
pub struct WholeRecords {
    tables: std::vec::IntoIter<(&'static str, fjall::Iter)>,
    current: Option<(&'static str, fjall::Iter)>,
    pos: u64,
}

impl WholeRecords {
    /// What the log is now.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn new(reader: &LogReader) -> Result<Self, ReadError> {
        let snapshot = reader.tables.db.snapshot();
        let last = snapshot.last_key_value(&reader.tables.positions);
        let pos = match last {
            None => 0,
            Some(last) => {
                key::last_number(&last.key()?).ok_or_else(|| ReadError::unreadable("a position"))?
            }
        };
        let trimmed = trimmed::get(&reader.tables.meta)?.positions.last();
        let pos = pos.max(trimmed.unwrap_or_default());
        let tables = reader
            .tables
            .kept()
            .map(|(name, table)| (name, snapshot.iter(table)));
        Ok(Self {
            tables: Vec::from(tables).into_iter(),
            current: None,
            pos,
        })
    }

    /// The last position in it.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.pos
    }
}

impl Iterator for WholeRecords {
    type Item = Result<Record, GatherError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((table, entries)) = &mut self.current
                && let Some(found) = entries.next()
            {
                return Some(match found.into_inner() {
                    Ok((key, value)) => Ok(Record::Entry(Entry {
                        table: (*table).to_owned(),
                        key: Bytes::copy_from_slice(&key),
                        value: Bytes::copy_from_slice(&value),
                    })),
                    Err(error) => Err(ReadError::from(error).into()),
                });
            }
            self.current = Some(self.tables.next()?);
        }
    }
}

/// Why an archive of a whole log is not good.
#[derive(Debug, thiserror::Error)]
pub enum WholeError {
    /// The archive.
    #[error(transparent)]
    Archive(#[from] ReadArchiveError),
    /// It holds trees.
    #[error("it holds trees and no whole log: coppice log import takes it")]
    OtherKind,
    /// An entry makes no sense.
    #[error("it holds something unreadable in {table}")]
    Unreadable {
        /// Where.
        table: String,
    },
    /// A chain or a blob is damaged.
    #[error("the log in it is damaged: {first}{}", more(*.others))]
    Damaged {
        /// The first fault.
        first: String,
        /// How many others there are.
        others: usize,
    },
}

fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        others => format!(", and {others} further faults"),
    }
}

/// Names the first of the faults, if there is one.
pub(super) fn named(faults: &[Fault]) -> Result<(), WholeError> {
    match faults.split_first() {
        None => Ok(()),
        Some((first, others)) => Err(WholeError::Damaged {
            first: first.to_string(),
            others: others.len(),
        }),
    }
}

/// Reads an archive of a whole log to its end: every frame, every chain, every blob, and that the order of the log is that of its commits.
///
/// # Errors
/// [`WholeError`].
pub fn check<R: Read>(
    archive: &mut Reader<R>,
    mut seen: impl FnMut(u64),
) -> Result<Verified, WholeError> {
    if archive.header().trees.is_some() {
        return Err(WholeError::OtherKind);
    }
    let mut checker = Checker::default();
    while let Some(record) = archive.next() {
        let Record::Entry(entry) = record? else {
            return Err(WholeError::OtherKind);
        };
        let read = checker.take(&entry);
        read.ok_or(WholeError::Unreadable { table: entry.table })?;
        seen(archive.bytes_read());
    }
    checker.finish()
}

/// What was seen so far. Sums instead of sets: what is compared does not fit into memory.
#[derive(Default)]
struct Checker {
    walk: ChainWalk,
    found: Verified,
    blob: Option<Blob>,
    /// Over the hashes of all commits.
    commits: Digest32,
    /// Over position and place of each commit, as the commits say and as the order of the log says.
    places: Digest32,
    order: Digest32,
    total: Option<Total>,
}

/// A sum of digests.
struct Digest32(Digest);

impl Default for Digest32 {
    fn default() -> Self {
        Self(Digest::ZERO)
    }
}

impl Digest32 {
    fn add(&mut self, digest: &Digest) {
        self.0 = mark::plus(&self.0, digest);
    }
}

struct Blob {
    tenant: TenantId,
    digest: Digest,
    bytes: u64,
    left: u32,
    hasher: sha2::Sha256,
}

impl Checker {
    fn take(&mut self, Entry { table, key, value }: &Entry) -> Option<()> {
        match table.as_str() {
            "commits" => {
                let run = key::read_run(key)?;
                let recorded = commits::read(key, value).ok()?;
                self.commits.add(&recorded.hash);
                self.places.add(&place(recorded.pos, key));
                self.walk.take(run, &recorded, &mut self.found);
            }
            "positions" => self.order.add(&place(key::last_number(key)?, value)),
            "blobs" => self.blob(key, value)?,
            "meta" if key.as_ref() == b"total" => {
                self.total = Some(rmp_serde::from_slice(value).ok()?);
            }
            "meta" if key.as_ref() == b"trimmed" => {
                self.commits.add(&trimmed::read(value).ok()?.sum);
            }
            _ => {}
        }
        Some(())
    }

    fn blob(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match blobs::read_key(key)? {
            (tenant, digest, None) => {
                self.end_blob();
                let (bytes, chunks) = blobs::read_size(value)?;
                self.found.blobs += 1;
                self.blob = Some(Blob {
                    tenant,
                    digest,
                    bytes,
                    left: chunks,
                    hasher: sha2::Sha256::new(),
                });
            }
            // Chunks of a blob that was on its way have no whole before them.
            (tenant, digest, Some(_)) => {
                if let Some(blob) = &mut self.blob
                    && blob.tenant == tenant
                    && blob.digest == digest
                {
                    blob.left = blob.left.checked_sub(1)?;
                    blob.bytes = blob.bytes.checked_sub(value.len() as u64)?;
                    blob.hasher.update(value);
                }
            }
        }
        Some(())
    }

    fn end_blob(&mut self) {
        let Some(blob) = self.blob.take() else {
            return;
        };
        let is = Digest(blob.hasher.finalize().into());
        if is != blob.digest || blob.left > 0 || blob.bytes > 0 {
            self.found.faults.push(Fault {
                tenant: Some(blob.tenant),
                run: None,
                seq: None,
                pos: None,
                damage: Damage::Blob(blob.digest),
            });
        }
    }

    fn finish(mut self) -> Result<Verified, WholeError> {
        self.end_blob();
        named(&self.found.faults)?;
        let unreadable = |table: &str| WholeError::Unreadable {
            table: table.to_owned(),
        };
        if self.places.0 != self.order.0 {
            return Err(unreadable("the order of the log"));
        }
        if self.total.is_some_and(|total| total.sum != self.commits.0) {
            return Err(unreadable("the log's account of itself"));
        }
        Ok(self.found)
    }
}

fn place(pos: u64, key: &[u8]) -> Digest {
    Digest::of(&[&pos.to_be_bytes()[..], key].concat())
}
