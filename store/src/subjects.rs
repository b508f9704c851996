//! The subjects of one realm (`spec/events.md`, Subjects). The only place where they are spelt.

use std::fmt;

use coppice_messages::ids::{HostId, RunId, TenantId, TreeId};

/// The name of the realm: a private server's is `local`.
#[derive(Clone, PartialEq, Eq)]
pub struct Realm(std::sync::Arc<str>);

/// A realm that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the realm {given:?} is not usable: {reason}")]
pub struct InvalidRealm {
    /// What was given.
    pub given: String,
    /// What is wrong, and what would be right.
    pub reason: &'static str,
}

impl fmt::Debug for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Realm {
    /// The realm of a private server.
    #[must_use]
    pub fn local() -> Self {
        Self("local".into())
    }

    /// The realm of a shared server, which must be named, so that an experiment never follows production.
    ///
    /// # Errors
    /// Other characters than `[A-Za-z0-9_-]{1,64}`, and `local`.
    pub fn shared(given: &str) -> Result<Self, InvalidRealm> {
        let refuse = |reason| {
            Err(InvalidRealm {
                given: given.chars().take(80).collect(),
                reason,
            })
        };
        if given == "local" {
            return refuse("local is the realm of private servers; name one of your own");
        }
        // The rules are those of every other id that stands in a subject.
        if given.parse::<HostId>().is_err() {
            return refuse("expected 1 to 64 of the characters A-Z a-z 0-9 _ - and no leading _");
        }
        Ok(Self(given.into()))
    }

    fn prefix(&self) -> String {
        format!("coppice.v1.{}", self.0)
    }

    /// The JetStream stream.
    #[must_use]
    pub fn stream(&self) -> String {
        format!("COPPICE_{}", self.0)
    }

    /// Commits of one tenant, before admission.
    #[must_use]
    pub fn commits(&self, tenant: &TenantId) -> String {
        format!("{}.commit.{tenant}", self.prefix())
    }

    /// Blob chunks of one tenant.
    #[must_use]
    pub fn blobs(&self, tenant: &TenantId) -> String {
        format!("{}.blob.{tenant}", self.prefix())
    }

    /// What the stream takes in.
    #[must_use]
    pub fn stream_subjects(&self) -> Vec<String> {
        let prefix = self.prefix();
        vec![format!("{prefix}.blob.*"), format!("{prefix}.commit.*")]
    }

    /// What stands before the kind in the subject of each event of a run.
    #[must_use]
    pub fn events_of_run(&self, tenant: &TenantId, tree: &TreeId, run: &RunId) -> String {
        format!("{}.event.{tenant}.{tree}.{run}.", self.prefix())
    }

    /// The feed of a tenant, of one of its trees, or of one of its runs; of one kind, which has tokens of its own, or of all.
    #[must_use]
    pub fn events(
        &self,
        tenant: &TenantId,
        tree: Option<&TreeId>,
        run: Option<&RunId>,
        kind: Option<&str>,
    ) -> String {
        let kind = kind.unwrap_or(">");
        let tree = tree.map_or("*", TreeId::as_str);
        let run = run.map_or("*", RunId::as_str);
        format!("{}.event.{tenant}.{tree}.{run}.{kind}", self.prefix())
    }

    /// Every event on the feed.
    #[must_use]
    pub fn all_events(&self) -> String {
        format!("{}.event.>", self.prefix())
    }

    /// One verb of the API for one tenant; `*` for every tenant.
    #[must_use]
    pub fn api(&self, tenant: &str, verb: &str) -> String {
        format!("{}.api.{tenant}.{verb}", self.prefix())
    }

    /// One verb of one host's API.
    #[must_use]
    pub fn host_api(&self, host: &str, verb: &str) -> String {
        format!("{}.host.{host}.api.{verb}", self.prefix())
    }

    /// Where the host of the realm answers who it is.
    #[must_use]
    pub fn present(&self) -> String {
        format!("{}.host.present", self.prefix())
    }

    /// Where one host answers the same.
    #[must_use]
    pub fn host_present(&self, host: &str) -> String {
        format!("{}.host.{host}.present", self.prefix())
    }

    /// A host's beat.
    #[must_use]
    pub fn beat(&self, host: &str) -> String {
        format!("{}.host.{host}.beat", self.prefix())
    }
}

/// Reads the subject of a message of the stream, whose own subjects say that it is of the realm.
pub(crate) fn parse_stream_subject(subject: &str) -> Option<(Lane, TenantId)> {
    let mut parts = subject.rsplitn(3, '.');
    let tenant = parts.next()?;
    let lane = match parts.next()? {
        "commit" => Lane::Commits,
        "blob" => Lane::Chunks,
        _ => return None,
    };
    let tenant = if tenant == TenantId::host().as_str() {
        TenantId::host()
    } else {
        tenant.parse().ok()?
    };
    Some((lane, tenant))
}

/// The two kinds of messages of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// An array of commits.
    Commits,
    /// One chunk of a blob.
    Chunks,
}
