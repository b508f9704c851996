//! Which trees an archive holds, and by what a tree of the log is known to be the same: before a tree is taken out of a log.

use std::{collections::BTreeMap, io::Read};

use coppice_messages::{
    Digest,
    ids::{TenantId, TreeId},
};

use super::{Chosen, ReadArchiveError, Reader, Record};
use crate::{
    log::{LogReader, ReadError},
    mark,
};

/// All commits of a tree, in whatever order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// How many.
    pub commits: u64,
    /// The sum of the hashes of their bytes.
    pub sum: Digest,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            commits: 0,
            sum: Digest::ZERO,
        }
    }
}

impl Held {
    fn add(&mut self, bytes: &[u8]) {
        self.commits += 1;
        self.sum = mark::plus(&self.sum, &Digest::of(bytes));
    }
}

/// The trees of an archive, which is read to its end.
///
/// # Errors
/// [`ReadArchiveError`].
pub fn held<R: Read>(
    archive: &mut Reader<R>,
) -> Result<BTreeMap<(TenantId, TreeId), Held>, ReadArchiveError> {
    let mut trees = BTreeMap::new();
    let mut under_way = None;
    for record in archive {
        match record? {
            Record::Tree(tree) => under_way = Some((tree.tenant, tree.tree)),
            Record::Commit(commit) => {
                if let Some(tree) = &under_way {
                    let held: &mut Held = trees.entry(tree.clone()).or_default();
                    held.add(&commit.bytes);
                }
            }
            Record::Header(_) | Record::Chunk(_) | Record::Entry(_) | Record::End(_) => {}
        }
    }
    Ok(trees)
}

/// The same of a tree of the log.
///
/// # Errors
/// [`ReadError`].
pub fn recorded(log: &LogReader, tree: &Chosen) -> Result<Held, ReadError> {
    let mut held = Held::default();
    for run in &tree.runs {
        for commit in log.chain(&tree.tenant, run) {
            held.add(&commit?.bytes);
        }
    }
    Ok(held)
}
