//! The files of a policy set: read within bounds, and what their version is.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use coppice_messages::{Digest, Value, digest::LengthPrefixed};
use coppice_store::given;

use crate::limits::{POLICY_BYTES_MAX, POLICY_FILES_MAX};

/// The file with the schema.
pub const SCHEMA_FILE: &str = "schema.cedarschema";
/// The file with entities that no run brings along: users, roles, resources.
pub const ENTITIES_FILE: &str = "entities.json";

/// The files of a policy set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFiles {
    /// How the directory is named to people.
    pub(super) shown: String,
    pub(super) files: BTreeMap<String, String>,
}

/// Why the files of a policy set cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFilesError {
    /// The directory or a file in it.
    #[error("{path} cannot be read", path = path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file that is no text.
    #[error("{path} is not UTF-8", path = path.display())]
    NoText {
        /// Which.
        path: PathBuf,
    },
    /// There is no schema, so it is no policy set.
    #[error(
        "{directory} has no {SCHEMA_FILE}: a policy set is a directory with *.cedar, {SCHEMA_FILE} and, if wanted, {ENTITIES_FILE}; coppice new policy NAME begins one",
        directory = directory.display()
    )]
    NoSchema {
        /// Which directory.
        directory: PathBuf,
    },
    /// More than a policy set may have.
    #[error(
        "{directory} has more than {POLICY_FILES_MAX} files or {POLICY_BYTES_MAX} bytes of policies",
        directory = directory.display()
    )]
    TooLarge {
        /// Which directory.
        directory: PathBuf,
    },
}

impl PolicyFiles {
    /// Reads a directory; what is no part of a policy set is left alone.
    ///
    /// # Errors
    /// [`PolicyFilesError`].
    pub fn read(directory: &Path) -> Result<Self, PolicyFilesError> {
        let too_large = || PolicyFilesError::TooLarge {
            directory: directory.to_owned(),
        };
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            |source| PolicyFilesError::Unreadable { path, source }
        };
        let mut files = BTreeMap::new();
        let mut left = POLICY_BYTES_MAX;
        for entry in fs::read_dir(directory).map_err(unreadable(directory))? {
            let path = entry.map_err(unreadable(directory))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if !is_part(name) {
                continue;
            }
            let bytes = given::read(&path).map_err(unreadable(&path))?;
            left = left.checked_sub(bytes.len()).ok_or_else(too_large)?;
            let text = String::from_utf8(bytes)
                .map_err(|_| PolicyFilesError::NoText { path: path.clone() })?;
            files.insert(name.to_owned(), text);
            if files.len() > POLICY_FILES_MAX {
                return Err(too_large());
            }
        }
        if !files.contains_key(SCHEMA_FILE) {
            return Err(PolicyFilesError::NoSchema {
                directory: directory.to_owned(),
            });
        }
        Ok(Self::of(&directory.display().to_string(), files))
    }

    /// Files that are at hand, by their names; `shown` is how their place is named to people.
    #[must_use]
    pub fn of(shown: &str, files: BTreeMap<String, String>) -> Self {
        Self {
            shown: shown.to_owned(),
            files,
        }
    }

    /// The version: a digest over the names and the canonical contents. Line ends and the layout of the entities make no version.
    #[must_use]
    pub fn version(&self) -> Digest {
        let parts = self.digests();
        let parts = parts
            .iter()
            .fold(LengthPrefixed::new(), |hash, (name, of)| {
                hash.part(name.as_bytes()).part(&of.0)
            });
        parts.finish()
    }

    /// The digest of each file.
    #[must_use]
    pub fn digests(&self) -> BTreeMap<String, Digest> {
        let digest = |(name, text): (&String, &String)| {
            let entities = (name == ENTITIES_FILE).then(|| Value::parse(text.as_bytes()).ok());
            let digest = match entities.flatten() {
                Some(entities) => entities.digest(),
                None => Digest::of(text.replace("\r\n", "\n").as_bytes()),
            };
            (name.clone(), digest)
        };
        self.files.iter().map(digest).collect()
    }

    /// How a file is named to people.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.shown)
    }

    /// The files by name.
    #[must_use]
    pub fn texts(&self) -> &BTreeMap<String, String> {
        &self.files
    }
}

/// Whether a file of this name belongs to a policy set.
pub(super) fn is_part(name: &str) -> bool {
    name == SCHEMA_FILE || name == ENTITIES_FILE || name.ends_with(".cedar")
}
