//! Refused commits, kept aside so that they can be looked at and can extend nothing: `<number>` → a MessagePack map. Oldest out.

use fjall::{Keyspace, OwnedWriteBatch as WriteBatch};
use serde::{Deserialize, Serialize};

use super::{ReadError, key};
use crate::{
    admission::Reason,
    limits::{QUARANTINE_BYTES_MAX, QUARANTINE_MAX},
};

/// A refused commit, or a message that held none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The subject on which it came.
    pub subject: String,
    /// Number of its message in the stream.
    pub message: u64,
    /// Its place in the message, from 0.
    pub index: u32,
    /// Why it was refused.
    pub reason: Reason,
    /// Its bytes, or as many as are kept.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// Adds a refused commit as number `number`, from 1, and lets the oldest go when there are too many.
pub(crate) fn put(
    batch: &mut WriteBatch,
    quarantine: &Keyspace,
    number: u64,
    refused: &Quarantined,
) -> Result<(), ReadError> {
    let mut kept = refused.clone();
    kept.bytes.truncate(QUARANTINE_BYTES_MAX);
    let value =
        rmp_serde::to_vec_named(&kept).map_err(|_| ReadError::unreadable("a refused commit"))?;
    batch.insert(quarantine, number.to_be_bytes(), value);
    if number > QUARANTINE_MAX {
        batch.remove(quarantine, (number - QUARANTINE_MAX).to_be_bytes());
    }
    Ok(())
}

/// How many were ever refused.
pub(crate) fn count(quarantine: &Keyspace) -> Result<u64, ReadError> {
    let Some(last) = quarantine.last_key_value() else {
        return Ok(0);
    };
    key::last_number(&last.key()?).ok_or_else(|| ReadError::unreadable("a refused commit's key"))
}

/// Those that are kept, oldest first.
pub(crate) fn all(
    quarantine: &Keyspace,
) -> impl Iterator<Item = Result<Quarantined, ReadError>> + Send + 'static {
    quarantine.iter().map(|found| {
        rmp_serde::from_slice(&found.value()?)
            .map_err(|_| ReadError::unreadable("a refused commit"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Tables;

    #[test]
    fn the_oldest_go_when_there_are_too_many_and_all_are_counted() {
        let directory = tempfile::tempdir().expect("a directory");
        let tables = Tables::open(directory.path()).expect("opens");
        let ever = QUARANTINE_MAX + 3;
        let mut batch = tables.db.batch();
        for number in 1..=ever {
            let refused = Quarantined {
                subject: "coppice.v1.local.commit.default".to_owned(),
                message: number,
                index: 0,
                reason: Reason::Malformed,
                bytes: Vec::new(),
            };
            put(&mut batch, &tables.quarantine, number, &refused).expect("put");
        }
        batch.commit().expect("written");
        assert_eq!(count(&tables.quarantine).expect("readable"), ever);
        let kept: Vec<u64> = all(&tables.quarantine)
            .map(|refused| refused.expect("readable").message)
            .collect();
        assert_eq!(kept.len() as u64, QUARANTINE_MAX);
        assert_eq!(kept.first(), Some(&4));
    }
}
