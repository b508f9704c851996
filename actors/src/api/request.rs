//! What the verbs take.

use std::collections::BTreeMap;

use coppice_messages::{
    Digest, Value,
    event::KINDS,
    ids::{ClientKey, RunId, TreeId},
};
use coppice_topology::Bundle;
use serde::{Deserialize, Serialize};

use super::{ApiError, Code};

/// Start a tree. With the same key the same tree is met again, whatever else the request says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    /// The client's key.
    pub key: ClientKey,
    /// Digest of the release's manifest.
    pub release: Digest,
    /// The release's documents, the manifest among them, as their exact text. A release that the tenant's log has needs none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<String>,
    /// What the tree works on.
    pub input: Value,
    /// For whom: `user:NAME` or `workload:NAME`.
    pub principal: String,
    /// What is to be achieved; absent: the contract's unit of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// Free labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl StartRequest {
    /// A request for a bundled release.
    ///
    /// # Errors
    /// A document that is not text.
    pub fn new(
        key: ClientKey,
        bundle: &Bundle,
        input: Value,
        principal: impl Into<String>,
    ) -> Result<Self, ApiError> {
        let text = |(digest, bytes): (&Digest, &Vec<u8>)| {
            String::from_utf8(bytes.clone()).map_err(|_| {
                let message = format!("the document {digest} of this release is not UTF-8 text");
                ApiError::new(Code::InvalidRelease, message)
            })
        };
        Ok(Self {
            key,
            release: bundle.release,
            documents: bundle
                .documents
                .iter()
                .map(text)
                .collect::<Result<_, _>>()?,
            input,
            principal: principal.into(),
            objective: None,
            labels: BTreeMap::new(),
        })
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetRequest {
    /// Which.
    pub run: RunId,
}

/// Whether a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStateFilter {
    /// Not yet.
    Open,
    /// It is.
    Ended,
}

/// Runs, in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListRequest {
    /// Only of this tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeId>,
    /// Only open or only ended ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<RunStateFilter>,
    /// Only with all of these labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Only roots.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub roots: bool,
    /// Only after this run: the `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<RunId>,
    /// At most so many; absent: as many as fit a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Stop a run and everything below it. Asking again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Which.
    pub run: RunId,
    /// Why; recorded.
    pub why: String,
    /// Who asks: `user:NAME` or `workload:NAME`; recorded.
    pub by: String,
}

/// Something that a wait of a run may be for. The same id again changes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// Which run.
    pub run: RunId,
    /// Name of the signal.
    pub name: String,
    /// Its own id.
    pub id: String,
    /// What it says.
    #[serde(default)]
    pub value: Value,
}

/// Something that the outside says of a write of the tenant. The same id again changes nothing and is answered as the first time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallbackRequest {
    /// The operation's idempotency key, as the tool was told it: 64 hexadecimal digits.
    pub key: String,
    /// The callback's own id.
    pub id: String,
    /// What it says.
    #[serde(default)]
    pub value: Value,
}

/// The ownership tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeRequest {
    /// Which tree.
    pub tree: TreeId,
    /// As it was at this position of the log; absent: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// From this run of the picture on, counted from 0: the further pages of a large tree.
    #[serde(default)]
    pub from: u64,
}

impl TreeRequest {
    /// The whole tree as it is now.
    #[must_use]
    pub fn now(tree: TreeId) -> Self {
        Self {
            tree,
            at: None,
            from: 0,
        }
    }
}

/// Which events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EventFilter {
    /// Only of this tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeId>,
    /// Only of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Only of this kind: exact, or with `*` for any rest, such as `effect.*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

impl EventFilter {
    /// Whether its pattern takes any kind of event that there is.
    #[must_use]
    pub fn takes_some_kind(&self) -> bool {
        let wanted = self.kind.as_deref();
        wanted.is_none_or(|wanted| KINDS.iter().any(|(kind, _)| glob(wanted, kind)))
    }

    /// Whether an event is asked for.
    #[must_use]
    pub fn takes(&self, tree: &TreeId, run: &RunId, kind: &str) -> bool {
        self.tree.as_ref().is_none_or(|wanted| wanted == tree)
            && self.run.as_ref().is_none_or(|wanted| wanted == run)
            && self.kind.as_deref().is_none_or(|wanted| glob(wanted, kind))
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for anything. Takes the leftmost place of each part: no pattern takes long.
pub fn glob(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut rest) = text.strip_prefix(before) else {
        return false;
    };
    let (between, last) = after.rsplit_once('*').unwrap_or(("", after));
    for part in between.split('*') {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Recorded events from a position on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TailRequest {
    /// The first position that is wanted; 0 and 1 are the beginning.
    pub from: u64,
    /// Which events.
    pub filter: EventFilter,
    /// At most so many events; absent: as many as fit a page. A commit's events are never parted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Whether the log is whole and agrees with everything that was made from it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerifyRequest {
    /// Only this tree; absent: every chain of the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeId>,
}

/// Whether a tree kept the laws.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRequest {
    /// Which tree.
    pub tree: TreeId,
}

/// How the host is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StatusRequest {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_and_nothing() {
        for (pattern, text) in [
            ("effect.landed", "effect.landed"),
            ("effect.*", "effect.landed"),
            ("*", ""),
            ("*.landed", "effect.landed"),
            ("e*.*ed", "effect.landed"),
            ("*e*e*", "effect"),
            ("a**b", "ab"),
            ("root/research[*]/*", "root/research[2]/read"),
        ] {
            assert!(glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("effect", "effect.landed"),
            ("effect.*", "child.crashed"),
            ("ab*ba", "aba"),
            ("*x*", "effect"),
            ("a*b*c", "acb"),
            ("", "a"),
        ] {
            assert!(!glob(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_does_not_take_for_ever() {
        let pattern = format!("{}Z", "*".repeat(500));
        assert!(!glob(&pattern, &"effect.landed".repeat(50)));
    }
}
