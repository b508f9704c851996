//! The library: scenarios, topologies, contracts, tools, schemas and model scripts that are part of the program, and the order in which
//! a name is looked for: beside the file that names it, then here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use coppice_store::given;
use coppice_topology::{Document, DocumentKind, Documents};

static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// How a file of the library is named to people.
const SHOWN: &str = "library:";

/// The text of a library file by its path, such as `tools/create_ticket.yaml`.
#[must_use]
pub fn text(path: &str) -> Option<&'static str> {
    let found = FILES.binary_search_by_key(&path, |(name, _)| name).ok()?;
    FILES.get(found).map(|(_, text)| *text)
}

/// The names of all library files in a folder, without their endings.
#[must_use]
pub fn names(folder: &str) -> Vec<String> {
    let inside = |path: &'static str| path.strip_prefix(folder)?.strip_prefix('/');
    FILES
        .iter()
        .filter_map(|(path, _)| inside(path))
        .map(|file| file.rsplit_once('.').map_or(file, |(stem, _)| stem))
        .map(str::to_owned)
        .collect()
}

/// The texts of a library folder's files, by their names.
#[must_use]
pub fn folder(folder: &str) -> BTreeMap<String, String> {
    let inside = |path: &'static str| path.strip_prefix(folder)?.strip_prefix('/');
    let files = FILES.iter().filter_map(|(path, text)| {
        let name = inside(path).filter(|name| !name.contains('/'))?;
        Some((name.to_owned(), (*text).to_owned()))
    });
    files.collect()
}

/// A text that was read, and how its origin is named to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its file, as it was named, or its place in the library.
    pub file: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where the documents that it names are looked for first; none for the library's own.
    pub directory: Option<PathBuf>,
}

/// What was named is not there.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No such file in the library.
    #[error("there is no {what} {name:?}: {help}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// Under which name.
        name: String,
        /// What there is.
        help: String,
    },
    /// The file cannot be read.
    #[error("the file {path} cannot be read", path = path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn file(path: &Path) -> Result<Self, SourceError> {
        let bytes = given::read(path).map_err(|source| SourceError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            file: path.display().to_string(),
            bytes,
            directory: Some(home(path).to_owned()),
        })
    }

    /// What a person named: a path, or a name, which is looked for in the `folder` here, then in the library's.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn named(what: &'static str, folder: &str, name: &str) -> Result<Self, SourceError> {
        Self::beside(None, what, folder, name)
    }

    /// The same, where relative paths and names are looked for in a directory first.
    pub(crate) fn beside(
        directory: Option<&Path>,
        what: &'static str,
        folder: &str,
        name: &str,
    ) -> Result<Self, SourceError> {
        let place = directory.unwrap_or(Path::new(""));
        if looks_like_a_path(name) {
            return Self::file(&place.join(name));
        }
        let file = format!("{folder}/{name}.yaml");
        if directory.is_none()
            && let Some(found) = existing(Path::new(""), &file)
        {
            return Self::file(&found);
        }
        if let Some(directory) = directory
            && let Some(found) =
                existing(directory, &file).or_else(|| existing(directory, &format!("{name}.yaml")))
        {
            // What such a file names is found beside the file that led here.
            return Ok(Self {
                directory: Some(directory.to_owned()),
                ..Self::file(&found)?
            });
        }
        if let Some(text) = text(&file) {
            return Ok(Self {
                file: format!("{SHOWN}{file}"),
                bytes: text.as_bytes().to_vec(),
                directory: directory.map(Path::to_owned),
            });
        }
        Err(SourceError::Unknown {
            what,
            name: name.to_owned(),
            help: format!(
                "the library has {}; or write {file}",
                names(folder).join(", ")
            ),
        })
    }
}

/// Where the documents that a file names are looked for: in its directory, or, when it lies in a folder of its kind, beside that folder.
fn home(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(Path::new(""));
    match parent.file_name().and_then(|name| name.to_str()) {
        Some("scenarios" | "topologies") => parent.parent().unwrap_or(Path::new("")),
        _ => parent,
    }
}

fn existing(directory: &Path, file: &str) -> Option<PathBuf> {
    Some(directory.join(file)).filter(|path| path.is_file())
}

/// Whether a person means a file rather than a name of the library.
fn looks_like_a_path(name: &str) -> bool {
    let ending = Path::new(name).extension();
    name.contains('/') || ending.is_some_and(|ending| ending == "yaml" || ending == "yml")
}

/// Whether there is a file, however unusable.
fn is_there(error: &io::Error) -> bool {
    !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Finds the documents that a topology names: beside its file, then in the library.
#[derive(Debug, Clone, Default)]
pub struct Shelf {
    directory: Option<PathBuf>,
}

impl Shelf {
    /// Documents of a file that stands in `directory`, or of the library's own.
    #[must_use]
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self { directory }
    }
}

impl Documents for Shelf {
    fn find(&self, kind: DocumentKind, name: &str) -> Option<Document> {
        let path = kind.path(name);
        if let Some(directory) = &self.directory {
            let full = directory.join(&path);
            match given::read(&full) {
                Ok(bytes) => {
                    let file = full.display().to_string();
                    return Some(Document { file, bytes });
                }
                // One that is there and unusable is not replaced by the library's of the same name.
                Err(error) if is_there(&error) => return None,
                Err(_) => {}
            }
        }
        text(&path).map(|text| Document {
            file: format!("{SHOWN}{path}"),
            bytes: text.as_bytes().to_vec(),
        })
    }

    fn unusable(&self, kind: DocumentKind, name: &str) -> Option<String> {
        let full = self.directory.as_ref()?.join(kind.path(name));
        let error = given::read(&full).err()?;
        is_there(&error).then(|| format!("the file {} cannot be read: {error}", full.display()))
    }

    fn names(&self, kind: DocumentKind) -> Vec<String> {
        let example = kind.path("x");
        let folder = example.split('/').next().unwrap_or_default();
        let mut known: BTreeSet<String> = names(folder).into_iter().collect();
        let beside = self.directory.as_ref().map(|path| path.join(folder));
        for entry in beside.iter().flat_map(fs::read_dir).flatten().flatten() {
            let stem = entry
                .path()
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned());
            known.extend(stem);
        }
        known.into_iter().collect()
    }
}
