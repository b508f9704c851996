//! Releases: compiled once from the documents that the log pins, and kept by digest. Never from files: a resume runs what was started.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use coppice_messages::{Digest, ids::TenantId};
use coppice_store::{LogReader, ReadError};
use coppice_topology::{CompileError, Plan, compile};

use crate::limits::RELEASES_KEPT;

type Plans = BTreeMap<(TenantId, Digest), Arc<Plan>>;

/// Compiled releases; cheap to clone.
#[derive(Clone, Default)]
pub struct Releases {
    plans: Arc<Mutex<Plans>>,
}

/// Why a release cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// A document of it is missing, or this build refuses it.
    #[error("the release {release} cannot be read")]
    Refused {
        /// Which.
        release: Digest,
        /// Why.
        #[source]
        source: CompileError,
    },
    /// The log does not give a document of it. Whether it is there is not known.
    #[error("the release {release} cannot be read from the log")]
    Log {
        /// Which.
        release: Digest,
        /// What the log says.
        #[source]
        source: ReadError,
    },
}

impl Releases {
    /// None compiled yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The plan of a release that was had before: its documents are in the tenant's log.
    #[must_use]
    pub fn known(&self, tenant: &TenantId, release: Digest) -> Option<Arc<Plan>> {
        self.plans().get(&(tenant.clone(), release)).cloned()
    }

    /// The plan of a release whose documents are in the log.
    ///
    /// # Errors
    /// A document that is missing, or that this build refuses.
    pub fn plan(
        &self,
        log: &LogReader,
        tenant: &TenantId,
        release: Digest,
    ) -> Result<Arc<Plan>, ReleaseError> {
        if let Some(plan) = self.known(tenant, release) {
            return Ok(plan);
        }
        let unread = RefCell::new(None);
        let document = |digest: &Digest| match log.blob(tenant, digest) {
            Ok(found) => found.map(|bytes| bytes.to_vec()),
            Err(error) => {
                tracing::warn!(%error, %digest, "a document of a release cannot be read");
                *unread.borrow_mut() = Some(error);
                None
            }
        };
        let compiled = compile(release, &document);
        // Before what the compiler says: to it a document that cannot be read is not there.
        if let Some(source) = unread.take() {
            return Err(ReleaseError::Log { release, source });
        }
        let plan = compiled
            .map(Arc::new)
            .map_err(|source| ReleaseError::Refused { release, source })?;
        let mut plans = self.plans();
        if plans.len() >= RELEASES_KEPT {
            plans.clear();
        }
        // Two that compile the same at one time make the same.
        plans.insert((tenant.clone(), release), plan.clone());
        drop(plans);
        Ok(plan)
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
