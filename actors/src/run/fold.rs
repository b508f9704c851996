//! A run's state from its chain, as the log has it.

use std::sync::Arc;

use coppice_kernel::{FoldError, State};
use coppice_messages::{
    Commit, Digest, Event, ParentRef,
    commit::DecodeError,
    event::run,
    ids::{RunId, TenantId},
};
use coppice_store::{LogReader, ReadError, log::Recorded};
use coppice_topology::Plan;

use crate::{
    broker::{MissingFunction, UnknownEndpoint},
    release::{ReleaseError, Releases},
};

/// A folded chain.
pub(crate) struct Folded {
    pub state: State,
    pub trace: String,
    pub parent: Option<ParentRef>,
    /// Position of its last commit.
    pub pos: u64,
}

/// Why a chain cannot be folded. The run is then blocked; the others are not.
#[derive(Debug, thiserror::Error)]
pub enum FoldChainError {
    /// The log refuses.
    #[error("the chain cannot be read")]
    Read(
        #[from]
        #[source]
        ReadError,
    ),
    /// Bytes that are no commit.
    #[error("the commit at position {pos} cannot be decoded")]
    Decode {
        /// Where.
        pos: u64,
        /// What the decoder says.
        #[source]
        source: DecodeError,
    },
    /// Bytes that are not those that were recorded.
    #[error("the commit at position {pos} was altered after it was recorded")]
    Altered {
        /// Where.
        pos: u64,
    },
    /// A commit that is not the successor of the one before it.
    #[error("the commit at position {pos} does not cite the one before it")]
    Broken {
        /// Where.
        pos: u64,
    },
    /// It does not begin with `run.opened`.
    #[error("the chain does not begin with run.opened")]
    NotOpened,
    /// Its release.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// Its release needs a function that this host does not have; one that has it goes on.
    #[error(transparent)]
    Function(#[from] MissingFunction),
    /// A tool of it names a base URL that this host was not told; one that was goes on.
    #[error(transparent)]
    Endpoint(#[from] UnknownEndpoint),
    /// An event that this build does not know, or that breaks a law.
    #[error(transparent)]
    Fold(#[from] FoldError),
}

impl FoldChainError {
    /// Whether the chain itself is damaged, so that no build can ever extend it.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Altered { .. } | Self::Broken { .. } | Self::NotOpened => true,
            Self::Decode { source, .. } => !matches!(source, DecodeError::NewerFormat { .. }),
            Self::Fold(error) => !matches!(error, FoldError::UnknownEvent { .. }),
            Self::Read(_) | Self::Release(_) | Self::Function(_) | Self::Endpoint(_) => false,
        }
    }
}

/// Folds a chain; none when nothing of the run is recorded.
pub(crate) fn fold(
    log: &LogReader,
    releases: &Releases,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<Folded>, FoldChainError> {
    walk(log, releases, tenant, run, &mut |_, _, _| {})
}

/// Folds a chain up to the commit with this hash, or whole when it has none such.
pub(crate) fn fold_until(
    log: &LogReader,
    releases: &Releases,
    (tenant, run): (&TenantId, &RunId),
    until: Digest,
) -> Result<Option<Folded>, FoldChainError> {
    let mut folding = Folding::default();
    for recorded in log.chain(tenant, run) {
        folding.step(log, releases, &recorded?)?;
        if folding.prev == until {
            break;
        }
    }
    Ok(folding.folded)
}

/// Folds a chain and shows the state after each commit; what was folded before an error is shown too.
pub(crate) fn walk(
    log: &LogReader,
    releases: &Releases,
    tenant: &TenantId,
    run: &RunId,
    show: &mut dyn FnMut(&State, &Commit, u64),
) -> Result<Option<Folded>, FoldChainError> {
    let mut folding = Folding::default();
    for recorded in log.chain(tenant, run) {
        let recorded = recorded?;
        let (state, commit) = folding.step(log, releases, &recorded)?;
        show(state, &commit, recorded.pos);
    }
    Ok(folding.folded)
}

#[derive(Default)]
struct Folding {
    folded: Option<Folded>,
    prev: Digest,
}

impl Folding {
    fn step(
        &mut self,
        log: &LogReader,
        releases: &Releases,
        recorded: &Recorded,
    ) -> Result<(&State, Commit), FoldChainError> {
        let pos = recorded.pos;
        let hash = Digest::of(&recorded.bytes);
        if hash != recorded.hash {
            return Err(FoldChainError::Altered { pos });
        }
        let commit = Commit::decode(&recorded.bytes)
            .map_err(|source| FoldChainError::Decode { pos, source })?;
        if commit.prev != self.prev {
            return Err(FoldChainError::Broken { pos });
        }
        self.prev = hash;
        let folded = match &mut self.folded {
            Some(folded) => folded,
            none => none.insert(first(log, releases, &commit)?),
        };
        folded.state.fold(&commit, self.prev)?;
        folded.pos = pos;
        Ok((&folded.state, commit))
    }
}

fn first(log: &LogReader, releases: &Releases, commit: &Commit) -> Result<Folded, FoldChainError> {
    let Some(Event::Run(run::Event::Opened(opened))) =
        commit.events.first().map(|entry| &entry.event)
    else {
        return Err(FoldChainError::NotOpened);
    };
    let plan: Arc<Plan> = releases.plan(log, &commit.tenant, opened.release)?;
    Ok(Folded {
        state: State::new(
            plan,
            commit.tenant.clone(),
            commit.tree.clone(),
            commit.run.clone(),
        ),
        trace: commit.trace.clone(),
        parent: commit.parent.clone(),
        pos: 0,
    })
}
