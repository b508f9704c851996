//! What importing an archive would do, found out before anything is written: every commit is judged by admission itself, against the log and
//! what the archive has brought before it.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    io::Read,
};

use coppice_messages::{
    Digest, Header,
    ids::{RunId, TenantId, TreeId},
};
use sha2::Digest as _;

use super::{Carried, Chunk, ReadArchiveError, Reader, Record, Tree};
use crate::{
    admission::{self, Head, Outcome, Reason, Stored, View},
    log::{LogReader, ReadError},
    wire,
};

/// What an import brings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Trees of the archive.
    pub trees: u64,
    /// Trees of which a run is not over.
    pub open: Vec<(TenantId, TreeId)>,
    /// Commits of the archive.
    pub commits: u64,
    /// Commits that the log does not have.
    pub new_commits: u64,
    /// Blobs of the archive.
    pub blobs: u64,
}

/// A commit that the log would not admit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Whose.
    pub tenant: TenantId,
    /// Which run.
    pub run: RunId,
    /// Number of its first event.
    pub seq: u64,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tenant,
            run,
            seq,
            reason,
        } = self;
        write!(f, "{tenant}/{run} event {seq}: {reason}")
    }
}

/// Why an archive cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The archive.
    #[error(transparent)]
    Archive(#[from] ReadArchiveError),
    /// The log cannot be read.
    #[error("the log cannot be read")]
    Log(
        #[from]
        #[source]
        ReadError,
    ),
    /// The log holds something else.
    #[error("it does not fit the log: {0}")]
    Conflict(Conflict),
    /// A commit of a newer build.
    #[error(
        "it has a commit of format {format}, which this build does not know: use a newer build of coppice"
    )]
    NewerCommit {
        /// Its format.
        format: u16,
    },
    /// Its frames are whole, and what they hold makes no sense.
    #[error("{tenant}/{tree}: {what}")]
    Senseless {
        /// Whose.
        tenant: TenantId,
        /// Which tree.
        tree: TreeId,
        /// What is wrong.
        what: String,
    },
    /// It holds no trees.
    #[error("it holds a whole log and no trees to import: coppice restore takes it")]
    OtherKind,
}

/// The log, and over it what the archive has brought of the tree under way. Trees cite nothing of each other.
struct Layered<'a> {
    log: Option<&'a LogReader>,
    heads: HashMap<RunId, Head>,
    stored: HashMap<RunId, Vec<Stored>>,
}

impl View for Layered<'_> {
    type Error = ReadError;

    fn head(&mut self, tenant: &TenantId, run: &RunId) -> Result<Option<Head>, ReadError> {
        match (self.heads.get(run), self.log) {
            (Some(head), _) => Ok(Some(head.clone())),
            (None, Some(log)) => log.head(tenant, run),
            (None, None) => Ok(None),
        }
    }

    fn holding(
        &mut self,
        tenant: &TenantId,
        run: &RunId,
        seq: u64,
    ) -> Result<Option<Stored>, ReadError> {
        let brought = self.stored.get(run);
        if let Some(found) = brought.and_then(|all| all.iter().rev().find(|s| s.holds(seq))) {
            return Ok(Some(found.clone()));
        }
        let Some(log) = self.log else {
            return Ok(None);
        };
        Ok(log.stored(tenant, run, seq)?.filter(|s| s.holds(seq)))
    }
}

/// The tree and the blob under way.
struct Planner<'a> {
    view: Layered<'a>,
    tree: Option<(Tree, u64)>,
    blob: Option<Blob>,
    whole: HashSet<(TenantId, Digest)>,
    plan: Plan,
}

struct Blob {
    tenant: TenantId,
    digest: Digest,
    next: u32,
    hasher: sha2::Sha256,
}

/// Reads a whole archive and says what importing it into this log would do; without a log, into an empty one.
///
/// # Errors
/// [`PlanError`]; nothing was written.
pub fn plan<R: Read>(
    archive: &mut Reader<R>,
    log: Option<&LogReader>,
    mut seen: impl FnMut(u64),
) -> Result<Plan, PlanError> {
    let mut planner = Planner {
        view: Layered {
            log,
            heads: HashMap::new(),
            stored: HashMap::new(),
        },
        tree: None,
        blob: None,
        whole: HashSet::new(),
        plan: Plan::default(),
    };
    if archive.header().trees.is_none() {
        return Err(PlanError::OtherKind);
    }
    while let Some(record) = archive.next() {
        match record? {
            Record::Tree(tree) => planner.begin(tree)?,
            Record::Commit(commit) => planner.commit(&commit)?,
            Record::Chunk(chunk) => planner.chunk(&chunk)?,
            Record::Header(_) | Record::Entry(_) | Record::End(_) => {
                return Err(planner.senseless("a record that has no place there"));
            }
        }
        seen(archive.bytes_read());
    }
    planner.end_tree()?;
    if archive.header().trees != Some(planner.plan.trees) {
        return Err(planner.senseless("its header names another number of trees"));
    }
    Ok(planner.plan)
}

impl Planner<'_> {
    fn senseless(&self, what: &str) -> PlanError {
        let (tenant, tree) = self.tree.as_ref().map_or_else(
            || {
                let none = TreeId::of_root(&RunId::system());
                (TenantId::default_tenant(), none)
            },
            |(tree, _)| (tree.tenant.clone(), tree.tree.clone()),
        );
        PlanError::Senseless {
            tenant,
            tree,
            what: what.to_owned(),
        }
    }

    fn begin(&mut self, tree: Tree) -> Result<(), PlanError> {
        self.end_tree()?;
        self.view.heads.clear();
        self.view.stored.clear();
        self.plan.trees += 1;
        if tree.ended.is_none() {
            let open = (tree.tenant.clone(), tree.tree.clone());
            self.plan.open.push(open);
        }
        self.tree = Some((tree, 0));
        Ok(())
    }

    fn end_tree(&mut self) -> Result<(), PlanError> {
        if self.blob.is_some() {
            return Err(self.senseless("a blob is incomplete"));
        }
        match &self.tree {
            Some((tree, commits)) if tree.commits != *commits => {
                let what = format!("it has {commits} commits instead of {}", tree.commits);
                Err(self.senseless(&what))
            }
            _ => Ok(()),
        }
    }

    fn commit(&mut self, commit: &Carried) -> Result<(), PlanError> {
        let Ok(header) = Header::decode(&commit.bytes) else {
            return Err(self.senseless("a commit cannot be read"));
        };
        match &mut self.tree {
            Some((tree, commits)) if tree.tenant == commit.tenant && tree.tree == header.tree => {
                *commits += 1;
            }
            _ => return Err(self.senseless("a commit of another tree stands in it")),
        }
        let hash = Digest::of(&commit.bytes);
        let judged =
            admission::admit(&mut self.view, &commit.tenant, &commit.bytes, hash, &header)?;
        self.plan.commits += 1;
        match judged {
            Outcome::Admitted(head) => {
                self.plan.new_commits += 1;
                let stored = Stored {
                    pos: 0,
                    hash,
                    seq: header.seq,
                    kinds: header.events.into_iter().map(|event| event.kind).collect(),
                };
                let chain = self.view.stored.entry(header.run.clone());
                chain.or_default().push(stored);
                self.view.heads.insert(header.run, head);
                Ok(())
            }
            Outcome::Duplicate { .. } => Ok(()),
            Outcome::Stop { format } => Err(PlanError::NewerCommit { format }),
            Outcome::Quarantined(reason) => Err(PlanError::Conflict(Conflict {
                tenant: commit.tenant.clone(),
                run: header.run,
                seq: header.seq,
                reason,
            })),
        }
    }

    fn chunk(&mut self, chunk: &Chunk) -> Result<(), PlanError> {
        let wrong = |planner: &Self| {
            planner.senseless(&format!("the blob {} is not what it should be", chunk.blob))
        };
        let mut blob = match self.blob.take() {
            Some(blob) if blob.digest == chunk.blob && blob.tenant == chunk.tenant => blob,
            Some(_) => return Err(wrong(self)),
            None => Blob {
                tenant: chunk.tenant.clone(),
                digest: chunk.blob,
                next: 0,
                hasher: sha2::Sha256::new(),
            },
        };
        let on_the_wire = wire::Chunk {
            v: wire::CHUNK_FORMAT,
            blob: chunk.blob,
            bytes: chunk.bytes,
            index: chunk.index,
            data: &chunk.data,
        };
        // The same rules as for a chunk that comes over the stream.
        if blob.next != chunk.index || wire::Chunk::decode(&on_the_wire.encode()).is_err() {
            return Err(wrong(self));
        }
        blob.next += 1;
        blob.hasher.update(&chunk.data);
        if !on_the_wire.is_last() {
            self.blob = Some(blob);
            return Ok(());
        }
        if Digest(blob.hasher.finalize().into()) != chunk.blob {
            return Err(wrong(self));
        }
        self.whole.insert((blob.tenant, blob.digest));
        self.plan.blobs += 1;
        Ok(())
    }
}
