//! From the documents of a release to the plan that the kernel gets.

use std::collections::BTreeMap;

use coppice_messages::{Digest, delegation::SchemaRef};

use super::Parts;
use crate::{
    load::{self, Diagnostic, Diagnostics},
    plan::{Graph, Manifest, PinnedTool, Plan},
};

/// Why a release cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A document's bytes are not there.
    #[error("the {what} of this release is not there: {digest}")]
    Missing {
        /// Which document.
        what: String,
        /// Its digest.
        digest: Digest,
    },
    /// The release's own document is not a manifest.
    #[error("{digest} is no manifest of a release")]
    Manifest {
        /// The release.
        digest: Digest,
        /// What the decoder says.
        #[source]
        source: serde_json::Error,
    },
    /// A document was valid when the release was made, and is not for this build.
    #[error("the documents of this release are refused by this build")]
    Invalid(#[source] Diagnostics),
}

/// Reads a release from the documents that its manifest pins. The static checks are not made again: a build that has learnt to refuse
/// more must still finish what an older one has started.
///
/// # Errors
/// A document that is not there or that this build refuses.
pub fn compile(
    release: Digest,
    get: &dyn Fn(&Digest) -> Option<Vec<u8>>,
) -> Result<Plan, CompileError> {
    let fetch = |what: String, digest: &Digest| {
        get(digest).ok_or(CompileError::Missing {
            what,
            digest: *digest,
        })
    };
    let manifest: Manifest = serde_json::from_slice(&fetch("manifest".to_owned(), &release)?)
        .map_err(|source| CompileError::Manifest {
            digest: release,
            source,
        })?;
    let invalid = |fault: Diagnostic| CompileError::Invalid(Diagnostics(vec![fault]));
    let topology = fetch("topology".to_owned(), &manifest.topology)?;
    let contract = fetch("contract".to_owned(), &manifest.contract)?;
    let mut parts = Parts {
        topology: load::topology("topology", &topology).map_err(invalid)?,
        contract: load::contract("contract", &contract).map_err(invalid)?,
        tools: BTreeMap::new(),
        schemas: BTreeMap::new(),
        models: BTreeMap::new(),
    };
    for (name, digest) in &manifest.tools {
        let what = format!("tool {name}");
        let bytes = fetch(what.clone(), digest)?;
        let tool = load::tool(&what, &bytes).map_err(invalid)?;
        parts.tools.insert(name.clone(), (*digest, tool));
    }
    for (name, digest) in &manifest.schemas {
        let what = format!("schema {name}");
        let bytes = fetch(what.clone(), digest)?;
        let schema = load::schema(&what, &bytes).map_err(invalid)?;
        parts.schemas.insert(name.clone(), schema);
    }
    for (route, digest) in &manifest.models {
        let what = format!("model {route}");
        let bytes = fetch(what.clone(), digest)?;
        let script = load::script(&what, &bytes).map_err(invalid)?;
        parts.models.insert(route.clone(), script);
    }
    Ok(plan(release, manifest, parts))
}

/// The plan of parts that were checked.
pub(super) fn plan(release: Digest, manifest: Manifest, parts: Parts) -> Plan {
    let topology = parts.topology.value;
    let result_schema = topology.result_schema.and_then(|name| {
        let digest = *manifest.schemas.get(&name)?;
        Some(SchemaRef { name, digest })
    });
    let children = topology.agents.iter();
    let children = children
        .map(|(name, agent)| (name.clone(), Graph::of_child(name, agent)))
        .collect();
    let pin = |(name, (digest, tool)): (_, (Digest, load::Loaded<_>))| {
        let contract = tool.value;
        (name, PinnedTool { digest, contract })
    };
    Plan {
        release,
        manifest,
        name: topology.topology,
        contract: parts.contract.value,
        agents: topology.agents,
        tools: parts.tools.into_iter().map(pin).collect(),
        result_schema,
        input_schema: topology.input.map(Into::into),
        root: Graph {
            nodes: topology.nodes,
        },
        children,
    }
}
