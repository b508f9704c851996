//! Blobs as the values that they hold.

use coppice_messages::{Blobs, Digest, Value, ids::TenantId};

use super::LogReader;

/// The blobs of one tenant, as the JSON values that they hold.
#[derive(Clone)]
pub struct TenantBlobs {
    reader: LogReader,
    tenant: TenantId,
}

impl Blobs for TenantBlobs {
    fn value(&self, digest: &Digest) -> Option<Value> {
        match self.reader.blob(&self.tenant, digest) {
            Ok(found) => Value::parse(&found?).ok(),
            Err(error) => {
                tracing::warn!(%error, %digest, tenant = %self.tenant, "a blob cannot be read");
                None
            }
        }
    }
}

impl LogReader {
    /// A tenant's blobs as values.
    #[must_use]
    pub fn blobs_of(&self, tenant: &TenantId) -> TenantBlobs {
        TenantBlobs {
            reader: self.clone(),
            tenant: tenant.clone(),
        }
    }
}
