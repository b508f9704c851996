//! The records of chosen trees, read from the log one after the other. A chain only grows and a recorded commit never changes, so what was chosen
//! stays what it was while a host goes on.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    vec,
};

use bytes::Bytes;
use coppice_messages::{
    Digest, Timestamp,
    ids::{RunId, TenantId, TreeId},
};
use serde::{Deserialize, Serialize};

use super::{Carried, Chunk, GatherError, Record, Tree, cites::mentioned};
use crate::{
    log::{LogReader, ReadError, RowFilter},
    wire,
};

/// Which trees are wanted. Empty asks for all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    /// Only of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Only these, which must be there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trees: Vec<TreeId>,
    /// Only those of which every run ended before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_before: Option<Timestamp>,
}

/// A tree that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Whose.
    pub tenant: TenantId,
    /// Which.
    pub tree: TreeId,
    /// Its runs, in the order of their ids.
    pub runs: Vec<RunId>,
    /// When the last of its runs ended; none while one is open.
    pub ended: Option<Timestamp>,
}

/// The trees of a log that a selection takes, in the order of tenants and ids.
///
/// # Errors
/// [`GatherError`]; a named tree that is not there is one.
pub fn choose(reader: &LogReader, wanted: &Selection) -> Result<Vec<Chosen>, GatherError> {
    let named: BTreeSet<&TreeId> = wanted.trees.iter().collect();
    let filter = RowFilter {
        tenant: wanted.tenant.clone(),
        ..RowFilter::default()
    };
    let mut found: BTreeMap<(TenantId, TreeId), (Vec<RunId>, Option<Timestamp>)> = BTreeMap::new();
    for row in reader.rows(filter) {
        let row = row?;
        if !named.is_empty() && !named.contains(&row.tree) {
            continue;
        }
        let ended = row.ended.map(|end| end.at);
        let tree = found.entry((row.tenant, row.tree));
        let (runs, last) = tree.or_insert_with(|| (Vec::new(), Some(Timestamp(i64::MIN))));
        runs.push(row.run);
        *last = last.zip(ended).map(|(last, ended)| last.max(ended));
    }
    for tree in named {
        if !found.keys().any(|(_, found)| found == tree) {
            return Err(GatherError::NoTree { tree: tree.clone() });
        }
    }
    let before = |ended: Option<Timestamp>| match wanted.ended_before {
        None => true,
        Some(before) => ended.is_some_and(|ended| ended < before),
    };
    Ok(found
        .into_iter()
        .filter(|(_, (_, ended))| before(*ended))
        .map(|((tenant, tree), (runs, ended))| Chosen {
            tenant,
            tree,
            runs,
            ended,
        })
        .collect())
}

/// The records of trees: each tree, its commits in the order of the log up to a position, and the blobs that it brings.
pub struct TreeRecords {
    reader: LogReader,
    until: u64,
    trees: vec::IntoIter<Chosen>,
    ready: VecDeque<Record>,
    current: Option<Current>,
    /// Blobs that were given, of whatever tree.
    given: HashSet<(TenantId, Digest)>,
}

struct Current {
    tenant: TenantId,
    /// Position, run and number of each commit.
    places: vec::IntoIter<(u64, RunId, u64)>,
    /// Blobs that were mentioned and not given yet.
    cited: BTreeSet<Digest>,
}

impl TreeRecords {
    /// The records of these trees, without what lies behind position `until`.
    #[must_use]
    pub fn new(reader: LogReader, trees: Vec<Chosen>, until: u64) -> Self {
        Self {
            reader,
            until,
            trees: trees.into_iter(),
            ready: VecDeque::new(),
            current: None,
            given: HashSet::new(),
        }
    }

    fn begin(&mut self, chosen: Chosen) -> Result<(), ReadError> {
        let mut places = Vec::new();
        for run in &chosen.runs {
            for recorded in self.reader.chain(&chosen.tenant, run) {
                let recorded = recorded?;
                if recorded.pos <= self.until {
                    places.push((recorded.pos, run.clone(), recorded.seq));
                }
            }
        }
        // The order in which they were recorded: a child's first commit lies behind the one that it cites.
        places.sort();
        self.ready.push_back(Record::Tree(Tree {
            tenant: chosen.tenant.clone(),
            tree: chosen.tree,
            runs: chosen.runs.len() as u64,
            commits: places.len() as u64,
            ended: chosen.ended,
        }));
        self.current = Some(Current {
            tenant: chosen.tenant,
            places: places.into_iter(),
            cited: BTreeSet::new(),
        });
        Ok(())
    }

    /// The next commit or blob of the tree under way; nothing when it has no more.
    fn go_on(&mut self) -> Result<bool, GatherError> {
        let Some(current) = &mut self.current else {
            return Ok(false);
        };
        let tenant = current.tenant.clone();
        if let Some((pos, run, seq)) = current.places.next() {
            let damaged = || GatherError::Damaged {
                tenant: tenant.clone(),
                run: run.clone(),
                pos,
            };
            let found = self.reader.commit_at(&tenant, &run, seq)?;
            let found = found
                .filter(|found| found.seq == seq && Digest::of(&found.bytes) == found.hash)
                .ok_or_else(damaged)?;
            current.cited.extend(mentioned(&found.bytes));
            let bytes = found.bytes;
            self.ready
                .push_back(Record::Commit(Carried { tenant, bytes }));
            return Ok(true);
        }
        let Some(blob) = current.cited.pop_first() else {
            self.current = None;
            return Ok(false);
        };
        let key = (tenant.clone(), blob);
        if self.given.contains(&key) || self.reader.blob_size(&tenant, &blob)?.is_none() {
            // Given before, or the digest of something else.
            return Ok(true);
        }
        self.given.insert(key);
        let whole = match self.reader.blob(&tenant, &blob) {
            Ok(Some(whole)) => whole,
            Ok(None) | Err(ReadError::Unreadable { .. }) => {
                return Err(GatherError::Blob { tenant, blob });
            }
            Err(error) => return Err(error.into()),
        };
        current.cited.extend(mentioned(&whole));
        self.ready.extend(chunks(&tenant, blob, &whole));
        Ok(true)
    }
}

/// A blob in chunks.
fn chunks(tenant: &TenantId, blob: Digest, whole: &Bytes) -> Vec<Record> {
    (0..wire::Chunk::count(whole.len()))
        .map(|index| {
            let chunk = wire::Chunk::of(blob, whole, index);
            Record::Chunk(Chunk {
                tenant: tenant.clone(),
                blob,
                bytes: chunk.bytes,
                index,
                data: whole.slice_ref(chunk.data),
            })
        })
        .collect()
}

impl Iterator for TreeRecords {
    type Item = Result<Record, GatherError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(record));
            }
            match self.go_on() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
            let chosen = self.trees.next()?;
            if let Err(error) = self.begin(chosen) {
                return Some(Err(error.into()));
            }
        }
    }
}
