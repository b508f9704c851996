//! Hosts on real stores, real nats-servers and real sockets, and the library's release to run on them.

use std::path::{Path, PathBuf};

use coppice_actors::{
    api::{ApiClient, RunView, StartRequest, Started},
    host::{Host, HostOptions},
};
use coppice_messages::{
    Value,
    ids::{RunId, TenantId},
};
use coppice_store::GuardCommand;
use coppice_topology::{Bundle, Document, DocumentKind, Documents, bundle};
use tempfile::TempDir;

use crate::world::World;

/// The smallest program that is a host.
pub fn host_program() -> PathBuf {
    example("whole_host")
}

/// The program of an example, which cargo builds beside the tests.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own program");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("tests lie in <profile>/deps");
    let program = profile.join("examples").join(name);
    assert!(
        program.is_file(),
        "{} is missing: run the tests through cargo test or cargo nextest run -p coppice-actors, which build examples",
        program.display()
    );
    program
}

pub fn guard() -> GuardCommand {
    GuardCommand::new(host_program(), ["nats-guard"])
}

/// The library's documents.
pub struct Library;

/// A file of the library.
pub fn library(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../scenarios/library")
        .join(path)
}

impl Documents for Library {
    fn find(&self, kind: DocumentKind, name: &str) -> Option<Document> {
        let file = kind.path(name);
        let bytes = std::fs::read(library(&file)).ok()?;
        Some(Document { file, bytes })
    }
}

/// A release of the library.
pub fn release(topology: &str) -> Bundle {
    release_with(topology, &Library)
}

/// A topology of the library with documents from elsewhere.
pub fn release_with(topology: &str, documents: &impl Documents) -> Bundle {
    let file = format!("topologies/{topology}.yaml");
    let bytes = std::fs::read(library(&file)).unwrap();
    bundle(&file, &bytes, documents).unwrap()
}

/// A release of a topology given as text, with the library's documents.
pub fn release_of(yaml: &str) -> Bundle {
    bundle("test.yaml", yaml.as_bytes(), &Library).unwrap()
}

/// Two incidents and one ticket, for a request of its own.
pub fn comparison(key: &str) -> StartRequest {
    let input =
        format!(r#"{{"request_id": "r-{key}", "incidents": ["incident_104", "incident_119"]}}"#);
    start(key, &input)
}

pub fn start(key: &str, input: &str) -> StartRequest {
    StartRequest::new(
        key.parse().unwrap(),
        &release("incident-comparison"),
        Value::parse(input.as_bytes()).unwrap(),
        "user:test",
    )
    .unwrap()
}

pub fn tenant() -> TenantId {
    TenantId::default_tenant()
}

/// A data directory, a world, and hosts on both.
pub struct Place {
    pub data: TempDir,
    pub world: World,
}

impl Place {
    pub async fn new() -> Self {
        Self {
            data: tempfile::tempdir().unwrap(),
            world: World::start().await,
        }
    }

    pub fn options(&self) -> HostOptions {
        let mut options = HostOptions::new(self.data.path());
        options
            .endpoints
            .insert("desk".to_owned(), self.world.url.clone());
        options
    }

    /// Options with faults on purpose.
    pub fn faulty(&self, faults: &[&str]) -> HostOptions {
        let mut options = self.options();
        options.allow_faults = true;
        options.faults = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        options
    }

    pub async fn host(&self, options: HostOptions) -> Host {
        Host::start(options, guard()).await.unwrap()
    }

    pub async fn client(&self) -> ApiClient {
        ApiClient::of_data(self.data.path()).await.unwrap()
    }

    /// How often each kind of event of a tree stands in the log.
    pub async fn counts(&self, client: &ApiClient, tree: &Started) -> Counts {
        let mut counts = std::collections::BTreeMap::new();
        let mut request = coppice_actors::api::TailRequest::default();
        request.filter.tree = Some(tree.tree.clone());
        loop {
            let page = client.tail(&tenant(), &request).await.unwrap();
            for event in page.events {
                *counts.entry(event.kind).or_insert(0) += 1;
            }
            if page.end {
                return Counts(counts);
            }
            request.from = page.next;
        }
    }
}

pub struct Counts(std::collections::BTreeMap<String, u32>);

impl Counts {
    /// The kinds of which there are any.
    pub fn kinds(&self) -> std::collections::BTreeSet<String> {
        self.0.keys().cloned().collect()
    }

    pub fn of(&self, kind: &str) -> u32 {
        self.0.get(kind).copied().unwrap_or(0)
    }
}

/// Waits for the end of a run, within the time that any of these tests may take.
pub async fn ended(client: &ApiClient, run: &RunId) -> RunView {
    tokio::time::timeout(
        std::time::Duration::from_secs(60),
        client.wait_ended(&tenant(), run),
    )
    .await
    .expect("the run ends")
    .expect("the client is answered")
}

/// Asserts that nothing is wrong with what is recorded.
pub async fn whole(client: &ApiClient, tree: &Started) {
    let report = client
        .verify(&tenant(), &coppice_actors::api::VerifyRequest::default())
        .await
        .unwrap();
    assert_eq!(report.findings, []);
    let report = client.audit(&tenant(), &tree.tree).await.unwrap();
    assert_eq!(report.findings, []);
}
