//! An import: what an archive holds goes through the stream into the log, like every other fact. So log and stream agree behind it, and an
//! import that was cut off is simply done again: what is there is absorbed.

use std::{io::Read, sync::Arc};

use bytes::BytesMut;
use coppice_messages::Digest;
use tokio::sync::{Semaphore, mpsc};

use super::{Carried, ReadArchiveError, Reader, Record};
use crate::{BlobError, Store, Verdict, limits::IMPORTS_UNDER_WAY};

/// What an import did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Commits that are in the log now.
    pub commits: u64,
    /// Blobs that are.
    pub blobs: u64,
}

/// Why an import ended halfway. What was imported stays, and the same import again goes on.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The archive is not the one that was looked at before.
    #[error(transparent)]
    Archive(#[from] ReadArchiveError),
    /// A blob is not stored.
    #[error("a blob is not stored")]
    Blob(
        #[from]
        #[source]
        BlobError,
    ),
    /// The log does not admit a commit.
    #[error("the log does not admit a commit: {said}")]
    Refused {
        /// Why.
        said: String,
    },
    /// The store stopped first.
    #[error("the store stopped before everything was recorded: import once more")]
    Stopped,
}

/// Sends the blobs of an archive that [`super::plan`] found good.
///
/// # Errors
/// [`ImportError`].
pub async fn blobs<R: Read>(archive: Reader<R>, store: &Store) -> Result<u64, ImportError> {
    let (mut sent, mut whole) = (0, BytesMut::new());
    for record in archive {
        let Record::Chunk(chunk) = record? else {
            continue;
        };
        whole.extend_from_slice(&chunk.data);
        if whole.len() as u64 == chunk.bytes {
            let bytes = std::mem::take(&mut whole).to_vec();
            store.put_blob(chunk.tenant, bytes).await?;
            sent += 1;
        }
    }
    Ok(sent)
}

/// Sends its commits, which cite the blobs.
///
/// # Errors
/// [`ImportError`].
pub async fn commits<R: Read>(
    mut archive: Reader<R>,
    store: &Store,
    mut seen: impl FnMut(u64),
) -> Result<u64, ImportError> {
    let room = Arc::new(Semaphore::new(IMPORTS_UNDER_WAY));
    let (tell, mut refused) = mpsc::unbounded_channel();
    let mut sent = 0;
    while let Some(record) = archive.next() {
        let Record::Commit(Carried { tenant, bytes }) = record? else {
            continue;
        };
        let place = Arc::clone(&room).acquire_owned().await;
        let place = place.map_err(|_| ImportError::Stopped)?;
        if let Ok(verdict) = refused.try_recv() {
            return Err(failed(verdict));
        }
        let (hash, tell) = (Digest::of(&bytes), tell.clone());
        let waiter = Box::new(move |verdict| {
            if !matches!(verdict, Verdict::Admitted { .. }) {
                // Whoever imports may have given up already.
                let _ = tell.send(verdict);
            }
            drop(place);
        });
        store.submit(tenant, bytes, hash, waiter);
        sent += 1;
        seen(archive.bytes_read());
    }
    let every = u32::try_from(IMPORTS_UNDER_WAY).unwrap_or(u32::MAX);
    let all = room.acquire_many(every).await;
    drop(all.map_err(|_| ImportError::Stopped)?);
    match refused.try_recv() {
        Ok(verdict) => Err(failed(verdict)),
        Err(_) => Ok(sent),
    }
}

fn failed(verdict: Verdict) -> ImportError {
    match verdict {
        Verdict::Refused(reason) => ImportError::Refused {
            said: reason.to_string(),
        },
        Verdict::Admitted { .. } | Verdict::Unknown => ImportError::Stopped,
    }
}

/// Both, one after the other: blobs first. `open` opens the archive anew from its beginning.
///
/// # Errors
/// [`ImportError`].
pub async fn import<R: Read>(
    open: impl Fn() -> Result<Reader<R>, ReadArchiveError>,
    store: &Store,
    seen: impl FnMut(u64),
) -> Result<Imported, ImportError> {
    Ok(Imported {
        blobs: blobs(open()?, store).await?,
        commits: commits(open()?, store, seen).await?,
    })
}
