//! The commits that both sides append.

use bytes::Bytes;
use coppice_messages::{
    Commit, Digest, Event,
    commit::{Entry, FORMAT},
    event::node,
    ids::{RunId, TenantId, TreeId},
};
use coppice_store::clock;

use crate::failure::{Failure, Problem};

/// One chain of commits of about 200 bytes.
pub(super) struct Chain {
    tenant: TenantId,
    tree: TreeId,
    run: RunId,
    seq: u64,
    prev: Digest,
}

impl Chain {
    pub fn new(tenant: &TenantId, side: &str, nth: u64) -> Result<Self, Failure> {
        let key = format!("{side}-{nth}").parse();
        let key = key.map_err(|error: coppice_messages::ids::InvalidId| {
            Failure::Environment(Problem::of(&error))
        })?;
        let run = RunId::root(tenant, &key);
        Ok(Self {
            tenant: tenant.clone(),
            tree: TreeId::of_root(&run),
            run,
            seq: 1,
            prev: Digest::ZERO,
        })
    }

    /// The next commit's bytes and hash; it extends the one before.
    pub fn next(&mut self) -> Result<(Bytes, Digest), Failure> {
        let started = node::Started {
            node: "measured"
                .parse()
                .map_err(|error: coppice_messages::ids::InvalidId| {
                    Failure::Environment(Problem::of(&error))
                })?,
            visit: 1,
        };
        let commit = Commit {
            v: FORMAT,
            tenant: self.tenant.clone(),
            tree: self.tree.clone(),
            run: self.run.clone(),
            seq: self.seq,
            epoch: 1,
            prev: self.prev,
            at: clock::now(),
            trace: String::new(),
            parent: None,
            events: vec![Entry {
                cause: None,
                event: Event::Node(node::Event::Started(started)),
            }],
        };
        let bytes = commit
            .encode()
            .map_err(|error| Failure::environment(&error))?;
        self.seq = commit.next_seq();
        self.prev = Digest::of(&bytes);
        Ok((bytes.into(), self.prev))
    }
}
