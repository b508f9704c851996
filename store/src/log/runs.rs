//! Runs by tree: `<tenant> 0 <tree> 0 <run> 0` → nothing; and the unfinished ones, which have not ended or are in doubt: `<tenant> 0 <run> 0` →
//! nothing. What concerns one tree, or what is unfinished, is found without reading the rows of everything that is stored. Written with the
//! rows (`rows.rs`), never alone.

use coppice_messages::ids::{RunId, TenantId, TreeId};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch, PersistMode, Readable as _, Snapshot};

use super::{ReadError, Row, Tables, key, meta, rows};
use crate::limits::BATCH_COMMITS_MAX;

/// `<tenant> 0 <tree> 0`
fn of_tree(tenant: &TenantId, tree: &TreeId) -> Vec<u8> {
    let mut key = key::of_tenant(tenant);
    key.extend_from_slice(tree.root().as_str().as_bytes());
    key.push(0);
    key
}

fn in_tree(row: &Row) -> Vec<u8> {
    let mut key = of_tree(&row.tenant, &row.tree);
    key.extend_from_slice(row.run.as_str().as_bytes());
    key.push(0);
    key
}

/// Lists the runs of a log that was written by a build which did not list them.
pub(crate) fn list_all(tables: &Tables) -> Result<(), ReadError> {
    if meta::are_runs_listed(&tables.meta)? {
        return Ok(());
    }
    let mut batch = tables.db.batch();
    for row in rows::stored(tables.rows.iter()) {
        put(&mut batch, (&tables.trees, &tables.open), &row?);
        if batch.len() > BATCH_COMMITS_MAX {
            std::mem::replace(&mut batch, tables.db.batch()).commit()?;
        }
    }
    // Written last: one who dies halfway begins anew.
    meta::put_runs_listed(&mut batch, &tables.meta);
    Ok(batch.durability(Some(PersistMode::SyncData)).commit()?)
}

/// Lists a run where it belongs.
pub(super) fn put(batch: &mut WriteBatch, (trees, open): (&Keyspace, &Keyspace), row: &Row) {
    batch.insert(trees, in_tree(row), []);
    let key = key::of_run(&row.tenant, &row.run);
    if row.is_unfinished() {
        batch.insert(open, key, []);
    } else {
        batch.remove(open, key);
    }
}

/// Whether a run is listed where it belongs.
pub(crate) fn is_listed(
    now: &Snapshot,
    (trees, open): (&Keyspace, &Keyspace),
    row: &Row,
) -> Result<bool, ReadError> {
    let is_open = now.contains_key(open, key::of_run(&row.tenant, &row.run))?;
    Ok(now.contains_key(trees, in_tree(row))? && is_open == row.is_unfinished())
}

/// The runs of a tree.
pub(super) fn of(
    trees: &Keyspace,
    tenant: &TenantId,
    tree: &TreeId,
) -> impl Iterator<Item = Result<(TenantId, RunId), ReadError>> + Send + 'static {
    let (prefix, tenant) = (of_tree(tenant, tree), tenant.clone());
    let before = prefix.len();
    trees.prefix(prefix).map(move |entry| {
        let key = entry.key()?;
        let run = key::read_run_alone(&key[before..]);
        run.map(|run| (tenant.clone(), run))
            .ok_or_else(|| ReadError::unreadable("a run of a tree"))
    })
}

/// The unfinished runs, by tenant and run.
pub(super) fn open(
    open: &Keyspace,
    tenant: Option<&TenantId>,
) -> impl Iterator<Item = Result<(TenantId, RunId), ReadError>> + Send + 'static {
    let found = match tenant {
        Some(tenant) => open.prefix(key::of_tenant(tenant)),
        None => open.iter(),
    };
    found.map(|entry| {
        let key = entry.key()?;
        key::read_run(&key).ok_or_else(|| ReadError::unreadable("an unfinished run"))
    })
}
