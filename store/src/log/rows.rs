//! One row a run, for listing without folding: `<tenant> 0 <run> 0` → a MessagePack map.

use std::collections::BTreeMap;

use coppice_messages::{
    Timestamp,
    event::run::Reason,
    ids::{RunId, TenantId, TreeId},
};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch};
use serde::{Deserialize, Serialize};

use super::{ReadError, Tables, key, runs};

/// What is known of a run without reading its chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Whose run.
    pub tenant: TenantId,
    /// Its tree.
    pub tree: TreeId,
    /// The run.
    pub run: RunId,
    /// The run that delegated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// The readable place in the tree.
    pub path: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// How it ended, when it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RowEnd>,
    /// Free labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Row {
    /// Whether something is still to be done about the run: it has not ended, or effects of it are in doubt.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        RowState::Open.is_of(self) || RowState::InDoubt.is_of(self)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowEnd {
    /// Which of the seven reasons.
    pub reason: Reason,
    /// Its refinement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// When.
    pub at: Timestamp,
    /// Its effects whose outcome was unknown at the end and is not known since.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_doubt: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Which rows are asked for. Empty asks for all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowFilter {
    /// Of this tenant only.
    pub tenant: Option<TenantId>,
    /// Of this tree only.
    pub tree: Option<TreeId>,
    /// In this state only.
    pub state: Option<RowState>,
}

/// What a run's row is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// It has not ended.
    Open,
    /// It has.
    Ended,
    /// It has, and effects of it are in doubt.
    InDoubt,
}

impl RowState {
    /// Whether a row's run is in this state.
    #[must_use]
    pub fn is_of(self, row: &Row) -> bool {
        match self {
            Self::Open => row.ended.is_none(),
            Self::Ended => row.ended.is_some(),
            Self::InDoubt => row.ended.as_ref().is_some_and(|end| end.in_doubt > 0),
        }
    }
}

impl RowFilter {
    /// Whether a row is asked for.
    #[must_use]
    pub fn takes(&self, row: &Row) -> bool {
        self.tenant.as_ref().is_none_or(|t| *t == row.tenant)
            && self.tree.as_ref().is_none_or(|t| *t == row.tree)
            && self.state.is_none_or(|state| state.is_of(row))
    }
}

/// Writes a row, and lists the run by its tree and among the unfinished ones.
pub(crate) fn put(batch: &mut WriteBatch, tables: &Tables, row: &Row) -> Result<(), ReadError> {
    let value = rmp_serde::to_vec_named(row).map_err(|_| ReadError::unreadable("a row"))?;
    batch.insert(&tables.rows, key::of_run(&row.tenant, &row.run), value);
    runs::put(batch, (&tables.trees, &tables.open), row);
    Ok(())
}

fn read(value: &[u8]) -> Result<Row, ReadError> {
    rmp_serde::from_slice(value).map_err(|_| ReadError::unreadable("a row"))
}

/// A run's row.
pub(crate) fn get(
    rows: &Keyspace,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<Row>, ReadError> {
    rows.get(key::of_run(tenant, run))?
        .map(|value| read(&value))
        .transpose()
}

type Found<T> = Box<dyn Iterator<Item = Result<T, ReadError>> + Send>;

/// The rows that a filter takes, by tenant and run. Those of one tree, and those of unfinished runs, cost what they are and not what is
/// stored.
pub(crate) fn all(
    tables: &Tables,
    filter: RowFilter,
) -> impl Iterator<Item = Result<Row, ReadError>> + Send + 'static {
    let tenant = filter.tenant.as_ref();
    let listed: Option<Found<(TenantId, RunId)>> = match (tenant, &filter.tree, filter.state) {
        (Some(tenant), Some(tree), _) => Some(Box::new(runs::of(&tables.trees, tenant, tree))),
        (_, _, Some(RowState::Open | RowState::InDoubt)) => {
            Some(Box::new(runs::open(&tables.open, tenant)))
        }
        (_, _, Some(RowState::Ended) | None) => None,
    };
    let rows = tables.rows.clone();
    let found: Found<Row> = match (listed, tenant) {
        (Some(listed), _) => Box::new(listed.map(move |run| {
            let (tenant, run) = run?;
            get(&rows, &tenant, &run)?.ok_or_else(|| ReadError::unreadable("the row of a run"))
        })),
        (None, Some(tenant)) => Box::new(stored(rows.prefix(key::of_tenant(tenant)))),
        (None, None) => Box::new(stored(rows.iter())),
    };
    found.filter(move |row| row.as_ref().map_or(true, |row| filter.takes(row)))
}

/// The rows of these entries.
pub(crate) fn stored(
    entries: fjall::Iter,
) -> impl Iterator<Item = Result<Row, ReadError>> + Send + 'static {
    entries.map(|entry| read(&entry.value()?))
}
