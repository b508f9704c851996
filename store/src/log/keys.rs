//! Which run intended a write under an idempotency key: `<tenant> 0 <key>` → run id. Two runs of one tree may come to one key, and one logical
//! effect for each key is the claim: the second is told who holds it before it sends.

use coppice_messages::ids::{EffectKey, RunId, TenantId};
use fjall::{Keyspace, OwnedWriteBatch as WriteBatch};

use super::{LogReader, ReadError, key};

fn of(tenant: &TenantId, effect: &EffectKey) -> Vec<u8> {
    let mut bytes = key::of_tenant(tenant);
    bytes.extend_from_slice(&effect.0.0);
    bytes
}

/// Notes the holder of a key; belongs in the same batch as the intent.
pub(crate) fn put(
    batch: &mut WriteBatch,
    keys: &Keyspace,
    (tenant, effect): (&TenantId, &EffectKey),
    run: &RunId,
) {
    batch.insert(keys, of(tenant, effect), run.as_str());
}

/// The run that holds a key.
pub(crate) fn get(
    keys: &Keyspace,
    tenant: &TenantId,
    effect: &EffectKey,
) -> Result<Option<RunId>, ReadError> {
    let Some(value) = keys.get(of(tenant, effect))? else {
        return Ok(None);
    };
    let run = std::str::from_utf8(&value)
        .ok()
        .and_then(|text| text.parse().ok());
    run.map(Some)
        .ok_or_else(|| ReadError::unreadable("the holder of a key"))
}

impl LogReader {
    /// The run that made a tenant's write under an idempotency key: of several the one that holds it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn holder(
        &self,
        tenant: &TenantId,
        effect: &EffectKey,
    ) -> Result<Option<RunId>, ReadError> {
        self.unread.seen(get(&self.tables.keys, tenant, effect))
    }
}
