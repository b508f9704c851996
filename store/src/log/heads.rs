//! The end of each chain: `<tenant> 0 <run> 0` → fixed fields, then the tree's id.

use coppice_messages::{
    Digest,
    ids::{RunId, TenantId, TreeId},
};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch};

use super::{ReadError, key};
use crate::admission::Head;

/// Moves the end of a chain.
pub(crate) fn put(
    batch: &mut WriteBatch,
    heads: &Keyspace,
    tenant: &TenantId,
    run: &RunId,
    head: &Head,
) {
    let mut value = Vec::with_capacity(64 + head.tree.as_str().len());
    for number in [head.pos, head.seq, head.next_seq, head.epoch] {
        value.extend_from_slice(&number.to_be_bytes());
    }
    value.extend_from_slice(&head.hash.0);
    value.extend_from_slice(head.tree.as_str().as_bytes());
    batch.insert(heads, key::of_run(tenant, run), value);
}

/// The end of a run's chain.
pub(crate) fn get(
    heads: &Keyspace,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<Head>, ReadError> {
    heads
        .get(key::of_run(tenant, run))?
        .map(|value| read(&value).ok_or_else(|| ReadError::unreadable("the end of a chain")))
        .transpose()
}

/// Every chain with its end.
pub(crate) fn all(
    heads: &Keyspace,
) -> impl Iterator<Item = Result<(TenantId, RunId, Head), ReadError>> + Send + 'static {
    heads.iter().map(|found| {
        let (key, value) = found.into_inner()?;
        let unreadable = || ReadError::unreadable("the end of a chain");
        let (tenant, run) = key::read_run(&key).ok_or_else(unreadable)?;
        Ok((tenant, run, read(&value).ok_or_else(unreadable)?))
    })
}

fn read(value: &[u8]) -> Option<Head> {
    let (pos, rest) = key::first_number(value)?;
    let (seq, rest) = key::first_number(rest)?;
    let (next_seq, rest) = key::first_number(rest)?;
    let (epoch, rest) = key::first_number(rest)?;
    let (hash, tree) = rest.split_first_chunk::<32>()?;
    let tree = std::str::from_utf8(tree).ok()?;
    let tree = if tree == RunId::system().as_str() {
        TreeId::of_root(&RunId::system())
    } else {
        tree.parse().ok()?
    };
    Some(Head {
        tree,
        seq,
        next_seq,
        epoch,
        hash: Digest(*hash),
        pos,
    })
}
