//! Plans of the library's topologies, and of topologies given as text.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use coppice_topology::{
    Plan,
    bundle::{Document, DocumentKind, Documents, bundle},
};

/// The library on disk.
struct Library;

fn library() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/library")
}

impl Documents for Library {
    fn find(&self, kind: DocumentKind, name: &str) -> Option<Document> {
        let path = kind.path(name);
        let bytes = std::fs::read(library().join(&path)).ok()?;
        Some(Document { file: path, bytes })
    }
}

/// The plan of a library topology.
fn plan(name: &str) -> Arc<Plan> {
    let path = library().join(format!("topologies/{name}.yaml"));
    let bytes = std::fs::read(&path).expect("a library topology");
    Arc::new(
        bundle(name, &bytes, &Library)
            .expect("a valid library topology")
            .plan,
    )
}

/// The plan of a topology given as text, with the library's documents.
pub fn plan_of(yaml: &str) -> Arc<Plan> {
    Arc::new(
        bundle("test.yaml", yaml.as_bytes(), &Library)
            .expect("a valid topology")
            .plan,
    )
}

/// The plan that most tests run.
pub fn comparison() -> Arc<Plan> {
    static PLAN: OnceLock<Arc<Plan>> = OnceLock::new();
    PLAN.get_or_init(|| plan("incident-comparison")).clone()
}
