//! Where the tests find documents: a directory, laid out like the library.

use std::path::PathBuf;

use coppice_topology::{Document, DocumentKind, Documents};

/// A directory with `contracts/`, `tools/`, `schemas/`, `models/`.
pub struct Directory(pub PathBuf);

impl Directory {
    /// The library of the product.
    pub fn library() -> Self {
        Self(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scenarios/library"))
    }

    /// The bytes of one of its files.
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        let full = self.0.join(path);
        std::fs::read(&full).unwrap_or_else(|error| panic!("{}: {error}", full.display()))
    }
}

impl Documents for Directory {
    fn find(&self, kind: DocumentKind, name: &str) -> Option<Document> {
        let file = kind.path(name);
        let bytes = std::fs::read(self.0.join(&file)).ok()?;
        Some(Document { file, bytes })
    }

    fn names(&self, kind: DocumentKind) -> Vec<String> {
        let directory = self.0.join(kind.path("x")).parent().map(PathBuf::from);
        let entries = directory.and_then(|path| std::fs::read_dir(path).ok());
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
            .collect();
        names.sort();
        names
    }
}
