//! The resource that a call touches, and its version as it was read at the moment of use.

use coppice_store::clock::Mono;
use coppice_topology::tool::{Resource, Tool};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::{
    ToolBroker,
    moment::Withheld,
    outgoing::Asking,
    probe::{Look, Looked},
    request,
};

const RESOURCE: HeaderName = HeaderName::from_static("coppice-resource");
const VERSION: HeaderName = HeaderName::from_static("coppice-resource-version");

/// What a call is about, percent-encoded, so that it fits into a header.
pub(super) struct Target {
    kind: String,
    id: String,
    version: Option<String>,
}

impl Target {
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let mut put = |name, text: &str| {
            // A kind or version with signs that no header takes is left away: the tool is then told less, and checks less.
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        put(RESOURCE, &format!("{}/{}", self.kind, self.id));
        if let Some(version) = &self.version {
            put(VERSION, version);
        }
    }
}

impl ToolBroker {
    /// The resource that the contract names, read now; one that is not there is not acted upon.
    pub(super) async fn target(
        &self,
        tool: &Tool,
        asking: Asking<'_>,
        latest: Mono,
    ) -> Result<Option<Target>, Withheld> {
        let Some(Resource { kind, id, version }) = &tool.resource else {
            return Ok(None);
        };
        let id = request::id(tool, id, self.inner.filling(asking));
        let id = id.map_err(|unsendable| Withheld::Withdrawn(unsendable.to_string()))?;
        let version = match version {
            None => None,
            Some(read) => {
                let look = Look {
                    method: read.method,
                    url: &read.url,
                };
                let withdrawn = |why: String| {
                    Withheld::Withdrawn(format!("resource version: {kind} {id}: {why}"))
                };
                match self.look_until(tool, look, asking, latest).await {
                    Looked::Body(body) => {
                        let found = body.at(&read.at).and_then(super::answer::plain);
                        let none =
                            || withdrawn(format!("its answer has no version at {}", read.at));
                        Some(found.ok_or_else(none)?)
                    }
                    Looked::Nothing(seen) => return Err(withdrawn(seen)),
                    Looked::Useless(why) => return Err(withdrawn(why)),
                    Looked::Silent(why) => {
                        return Err(Withheld::NotSent(format!(
                            "resource version: {kind} {id} could not be read in time: {why}"
                        )));
                    }
                }
            }
        };
        Ok(Some(Target {
            kind: kind.clone(),
            id,
            version,
        }))
    }
}
