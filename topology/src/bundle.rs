//! From a topology file to a release: every document that it names is found, pinned by the digest of its bytes, and compiled.
//!
//! The same [`compile`] reads a release at its start and after a restart, from the log's blobs and never from the files.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::{
    Contract, Digest, Value,
    ids::{SchemaName, ToolName},
};
use serde::Serialize;

use crate::{
    check,
    document::{ContractRef, Topology},
    load::{self, Diagnostic, Diagnostics, Loaded},
    plan::{Manifest, Plan},
};

mod compile;

pub use self::compile::{CompileError, compile};

/// The route prefix of models that are scripts.
pub const SCRIPTED: &str = "scripted/";

/// What a topology names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentKind {
    /// `contracts/NAME.yaml`
    Contract,
    /// `tools/NAME.yaml`
    Tool,
    /// `schemas/NAME.json`
    Schema,
    /// `models/NAME.yaml`, for the route `scripted/NAME`.
    Model,
}

impl DocumentKind {
    /// Where a document of this kind stands, relative to the file that names it or to the library. A name with a slash is a path.
    #[must_use]
    pub fn path(self, name: &str) -> String {
        if name.contains('/') {
            return name.to_owned();
        }
        match self {
            Self::Contract => format!("contracts/{name}.yaml"),
            Self::Tool => format!("tools/{name}.yaml"),
            Self::Schema => format!("schemas/{name}.json"),
            Self::Model => format!("models/{name}.yaml"),
        }
    }

    /// What people call it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::Tool => "tool",
            Self::Schema => "schema",
            Self::Model => "model script",
        }
    }
}

/// A document that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its file, as diagnostics show it.
    pub file: String,
    /// Its exact bytes.
    pub bytes: Vec<u8>,
}

/// Where named documents are found: beside the file, then in the library.
pub trait Documents {
    /// The document, if there is one.
    fn find(&self, kind: DocumentKind, name: &str) -> Option<Document>;

    /// Why a document that is there was not found: it cannot be read, or is too large.
    fn unusable(&self, _kind: DocumentKind, _name: &str) -> Option<String> {
        None
    }

    /// Every name of this kind, for suggestions; may be empty.
    fn names(&self, _kind: DocumentKind) -> Vec<String> {
        Vec::new()
    }
}

/// A release and the bytes of all its documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundle {
    /// Its documents by name.
    pub manifest: Manifest,
    /// Every document's bytes by their digest, the manifest's among them.
    pub documents: BTreeMap<Digest, Vec<u8>>,
    /// Digest of the manifest.
    pub release: Digest,
    /// What the kernel gets.
    pub plan: Plan,
}

/// Every document of a topology, read.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub topology: Loaded<Topology>,
    pub contract: Loaded<Contract>,
    pub tools: BTreeMap<ToolName, (Digest, Loaded<crate::tool::Tool>)>,
    pub schemas: BTreeMap<SchemaName, Loaded<Value>>,
    pub models: BTreeMap<String, Loaded<crate::script::Script>>,
}

/// Reads a topology and all that it names, checks it, and pins it.
///
/// # Errors
/// All that is wrong, each with its place.
pub fn bundle(file: &str, bytes: &[u8], documents: &dyn Documents) -> Result<Bundle, Diagnostics> {
    let topology = load::topology(file, bytes).map_err(|one| Diagnostics(vec![one]))?;
    let mut gathering = Gathering {
        source: documents,
        blobs: BTreeMap::new(),
        faults: Vec::new(),
    };
    let topology_digest = gathering.keep(bytes.to_vec());
    let contract = gathering.contract(&topology);
    let Some((contract_digest, contract)) = contract else {
        return Err(gathering.refuse());
    };
    let mut manifest = Manifest {
        topology: topology_digest,
        contract: contract_digest,
        ..Manifest::default()
    };
    let mut parts = Parts {
        topology,
        contract,
        tools: BTreeMap::new(),
        schemas: BTreeMap::new(),
        models: BTreeMap::new(),
    };
    for (name, at) in tools_named(&parts) {
        let read = gathering.read(DocumentKind::Tool, name.as_str(), &at, load::tool);
        if let Some((digest, tool)) = read {
            manifest.tools.insert(name.clone(), digest);
            parts.tools.insert(name, (digest, tool));
        }
    }
    for (name, at) in schemas_named(&parts.topology) {
        let read = gathering.read(DocumentKind::Schema, name.as_str(), &at, load::schema);
        if let Some((digest, schema)) = read {
            manifest.schemas.insert(name.clone(), digest);
            parts.schemas.insert(name, schema);
        }
    }
    for (route, at) in scripts_named(&parts.topology) {
        let name = route.strip_prefix(SCRIPTED).unwrap_or(&route);
        let read = gathering.read(DocumentKind::Model, name, &at, load::script);
        if let Some((digest, script)) = read {
            manifest.models.insert(route.clone(), digest);
            parts.models.insert(route, script);
        }
    }
    gathering.faults.extend(check::parts(&parts));
    if !gathering.faults.is_empty() {
        return Err(gathering.refuse());
    }
    let release = gathering.keep(canonical(&manifest));
    Ok(Bundle {
        plan: compile::plan(release, manifest.clone(), parts),
        manifest,
        documents: gathering.blobs,
        release,
    })
}

/// The canonical JSON (RFC 8785) of a manifest: the bytes over which a release's digest is made.
pub(crate) fn canonical<T: Serialize>(value: &T) -> Vec<u8> {
    // A manifest is text and maps with text keys: nothing that canonical JSON refuses.
    serde_json::to_vec(value)
        .ok()
        .and_then(|json| Value::parse(&json).ok())
        .map(|value| value.canonical())
        .unwrap_or_default()
}

struct Gathering<'a> {
    source: &'a dyn Documents,
    blobs: BTreeMap<Digest, Vec<u8>>,
    faults: Vec<Diagnostic>,
}

impl Gathering<'_> {
    fn keep(&mut self, bytes: Vec<u8>) -> Digest {
        let digest = Digest::of(&bytes);
        self.blobs.insert(digest, bytes);
        digest
    }

    /// Finds and reads one document; what is wrong with it, or that it is not there, is kept.
    fn read<T>(
        &mut self,
        kind: DocumentKind,
        name: &str,
        named_at: &Diagnostic,
        read: fn(&str, &[u8]) -> Result<Loaded<T>, Diagnostic>,
    ) -> Option<(Digest, Loaded<T>)> {
        let Some(found) = self.source.find(kind, name) else {
            let mut fault = named_at.clone();
            if let Some(why) = self.source.unusable(kind, name) {
                fault.message = why;
                self.faults.push(fault);
                return None;
            }
            let known = self.source.names(kind);
            fault.message = format!("there is no {} {name:?}", kind.word());
            let place = format!("write {} beside the topology", kind.path(name));
            fault.help = Some(if known.is_empty() {
                place
            } else {
                let hint = load::suggestion(name, &known);
                match hint.strip_suffix('?') {
                    Some(question) => format!("{question}? Or {place}"),
                    None => format!("{hint}; or {place}"),
                }
            });
            self.faults.push(fault);
            return None;
        };
        match read(&found.file, &found.bytes) {
            Ok(loaded) => Some((self.keep(found.bytes), loaded)),
            Err(fault) => {
                self.faults.push(fault);
                None
            }
        }
    }

    /// The contract that is named, or the one that is written out: its document is then its canonical JSON.
    fn contract(&mut self, topology: &Loaded<Topology>) -> Option<(Digest, Loaded<Contract>)> {
        let at = topology.at_value(&["contract"], "");
        match &topology.value.contract {
            ContractRef::Named(name) => {
                self.read(DocumentKind::Contract, name, &at, load::contract)
            }
            ContractRef::Inline(contract) => {
                let digest = self.keep(canonical(contract));
                let loaded = Loaded {
                    value: Contract::clone(contract),
                    file: topology.file.clone(),
                    yaml: topology.yaml.find(&["contract"])?.clone(),
                };
                Some((digest, loaded))
            }
        }
    }

    fn refuse(mut self) -> Diagnostics {
        self.faults.sort();
        self.faults.dedup();
        Diagnostics(self.faults)
    }
}

/// Every tool that can be called under this release, with the place that names it first.
fn tools_named(parts: &Parts) -> Vec<(ToolName, Diagnostic)> {
    let (topology, contract) = (&parts.topology, &parts.contract);
    let mut named: BTreeMap<ToolName, Diagnostic> = BTreeMap::new();
    let mut add = |tool: &ToolName, at: Diagnostic| {
        named.entry(tool.clone()).or_insert(at);
    };
    for (name, node) in &topology.value.nodes {
        if let Some(call) = &node.call {
            let path = ["nodes", name.as_str(), "call", "tool"];
            add(&call.tool, topology.at_value(&path, ""));
        }
        for (nth, evidence) in node
            .end
            .iter()
            .flat_map(|end| end.evidence.iter().enumerate())
        {
            let nth = nth.to_string();
            let path = ["nodes", name.as_str(), "end", "evidence", &nth, "check"];
            add(&evidence.check, topology.at_value(&path, ""));
        }
    }
    for (name, agent) in &topology.value.agents {
        for tool in &agent.tools {
            let list = ["agents", name.as_str(), "tools"];
            add(tool, item(topology, &list, tool.as_str()));
        }
    }
    let authority = &contract.value.authority;
    for tool in &authority.tools {
        add(tool, item(contract, &["authority", "tools"], tool.as_str()));
    }
    for tool in &authority.may_delegate {
        let list = ["authority", "may_delegate"];
        add(tool, item(contract, &list, tool.as_str()));
    }
    named.into_iter().collect()
}

/// Where `wanted` stands in a list of texts; sets do not keep the order of the file.
pub(crate) fn item<T>(loaded: &Loaded<T>, list: &[&str], wanted: &str) -> Diagnostic {
    let items = loaded.yaml.find(list).map_or(&[][..], |yaml| yaml.items());
    let nth = items.iter().position(|item| item.as_text() == Some(wanted));
    let nth = nth.map(|nth| nth.to_string());
    let path: Vec<&str> = list.iter().copied().chain(nth.as_deref()).collect();
    loaded.at_value(&path, "")
}

fn schemas_named(topology: &Loaded<Topology>) -> Vec<(SchemaName, Diagnostic)> {
    let mut named: BTreeMap<SchemaName, Diagnostic> = BTreeMap::new();
    if let Some(name) = &topology.value.result_schema {
        named.insert(name.clone(), topology.at_value(&["result_schema"], ""));
    }
    for (agent, declared) in &topology.value.agents {
        named
            .entry(declared.result_schema.clone())
            .or_insert_with(|| topology.at_value(&["agents", agent.as_str(), "result_schema"], ""));
    }
    named.into_iter().collect()
}

fn scripts_named(topology: &Loaded<Topology>) -> Vec<(String, Diagnostic)> {
    let mut seen = BTreeSet::new();
    let agents = topology.value.agents.iter();
    agents
        .filter_map(|(name, agent)| Some((name, agent.model.as_ref()?)))
        .filter(|(_, model)| model.starts_with(SCRIPTED) && seen.insert(*model))
        .map(|(name, model)| {
            let at = topology.at_value(&["agents", name.as_str(), "model"], "");
            (model.clone(), at)
        })
        .collect()
}
