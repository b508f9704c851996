//! Releases: compiled once from the documents that the log pins, and kept by digest. Never from files: a resume runs what was started.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use coppice_messages::{Digest, ids::TenantId};
use coppice_store::LogReader;
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
#[error("the release {release} cannot be read")]
pub struct ReleaseError {
    /// Which.
    pub release: Digest,
    /// Why.
    #[source]
    pub source: CompileError,
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
        let document = |digest: &Digest| match log.blob(tenant, digest) {
            Ok(found) => found.map(|bytes| bytes.to_vec()),
            Err(error) => {
                tracing::warn!(%error, %digest, "a document of a release cannot be read");
                None
            }
        };
        let plan = compile(release, &document)
            .map(Arc::new)
            .map_err(|source| ReleaseError { release, source })?;
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
