//! The policy set in force. It follows its files; a set that does not hold together never replaces one that does.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use coppice_kernel::governor::Governor;
use coppice_messages::Digest;
use coppice_topology::Diagnostics;

use super::{
    files::{PolicyFiles, PolicyFilesError},
    set::PolicySet,
};

/// The policy set of a host; cheap to clone. Without one, what envelope and contract allow is allowed.
#[derive(Clone, Default)]
pub struct Policies(Option<Arc<Live>>);

struct Live {
    directory: PathBuf,
    now: RwLock<Now>,
}

struct Now {
    set: Arc<PolicySet>,
    /// Version of the files that were refused last, and why.
    refused: Option<(Option<Digest>, String)>,
}

/// Why a policy set cannot be put in force.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Its files.
    #[error(transparent)]
    Files(#[from] PolicyFilesError),
    /// What stands in them.
    #[error(transparent)]
    Invalid(#[from] Diagnostics),
}

/// The policy set in force, as the status shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Where its files are.
    pub directory: PathBuf,
    /// Its version.
    pub version: Digest,
    /// Why the files there now are not in force.
    pub refused: Option<String>,
}

/// A set that holds together and is not in force yet.
pub struct Changed {
    set: Arc<PolicySet>,
}

impl Changed {
    /// Its version.
    #[must_use]
    pub fn version(&self) -> Digest {
        self.set.digest()
    }

    /// Its files with their digests.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, Digest> {
        self.set.files()
    }
}

impl Policies {
    /// No policy set.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The set of a directory.
    ///
    /// # Errors
    /// [`PolicyError`]: nothing is in force then.
    pub fn open(directory: &Path) -> Result<Self, PolicyError> {
        let set = read(directory)?;
        Ok(Self(Some(Arc::new(Live {
            directory: directory.to_owned(),
            now: RwLock::new(Now {
                set: Arc::new(set),
                refused: None,
            }),
        }))))
    }

    /// Whether there is a set, for the whole life of this value.
    #[must_use]
    pub fn are_set(&self) -> bool {
        self.0.is_some()
    }

    /// The set in force, to ask.
    #[must_use]
    pub fn governor(&self) -> Option<Arc<dyn Governor>> {
        let set: Arc<PolicySet> = self.set()?;
        Some(set)
    }

    fn set(&self) -> Option<Arc<PolicySet>> {
        let live = self.0.as_ref()?;
        let now = live.now.read().unwrap_or_else(PoisonError::into_inner);
        Some(now.set.clone())
    }

    /// What is in force; none without a policy set.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        let live = self.0.as_ref()?;
        let now = live.now.read().unwrap_or_else(PoisonError::into_inner);
        Some(Standing {
            directory: live.directory.clone(),
            version: now.set.digest(),
            refused: now.refused.as_ref().map(|(_, why)| why.clone()),
        })
    }

    /// The set in force, as if it had just been changed to.
    #[must_use]
    pub fn in_force(&self) -> Option<Changed> {
        self.set().map(|set| Changed { set })
    }

    /// Looks at the files: a set of another version than the one in force, if it holds together. If it does not, the one in force stays and
    /// [`Self::standing`] says why.
    #[must_use]
    pub fn look(&self) -> Option<Changed> {
        let live = self.0.as_ref()?;
        let files = PolicyFiles::read(&live.directory);
        let version = files.as_ref().ok().map(PolicyFiles::version);
        {
            let mut now = live.now.write().unwrap_or_else(PoisonError::into_inner);
            if version == Some(now.set.digest()) {
                now.refused = None;
                return None;
            }
            if let (Some((of, _)), Some(_)) = (&now.refused, version)
                && *of == version
            {
                return None;
            }
        }
        let read = files.map_err(PolicyError::from);
        match read.and_then(|files| Ok(PolicySet::load(&files)?)) {
            Ok(set) => Some(Changed { set: Arc::new(set) }),
            Err(error) => {
                let why = error.to_string();
                let mut now = live.now.write().unwrap_or_else(PoisonError::into_inner);
                if now.refused.as_ref().is_none_or(|(_, had)| *had != why) {
                    tracing::warn!(directory = %live.directory.display(), why, "the policies there are not in force");
                }
                now.refused = Some((version, why));
                None
            }
        }
    }

    /// Puts a set in force. What is decided from now on is decided by it.
    pub fn put(&self, changed: Changed) {
        if let Some(live) = &self.0 {
            let mut now = live.now.write().unwrap_or_else(PoisonError::into_inner);
            now.set = changed.set;
            now.refused = None;
        }
    }
}

fn read(directory: &Path) -> Result<PolicySet, PolicyError> {
    Ok(PolicySet::load(&PolicyFiles::read(directory)?)?)
}
