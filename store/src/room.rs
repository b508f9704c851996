//! Whether there is room for more: looked at once a second. Below a reserve no new trees and intents are taken, so that there is room for the
//! receipts, cancels and ends of what is under way.

use std::{io, path::Path, path::PathBuf};

use tokio::sync::watch;

use crate::{
    bus::Bus,
    clock, closing,
    limits::{DISK_BYTES_RESERVED, ROOM_LOOK, STREAM_PERCENT_MAX},
};

/// What is kept free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// Bytes on the disk of the log, and on that of a private server's stream.
    pub disk_bytes: u64,
    /// How full the stream may be, in percent of its `max_bytes`.
    pub stream_percent: u64,
}

impl Default for Reserve {
    fn default() -> Self {
        Self {
            disk_bytes: DISK_BYTES_RESERVED,
            stream_percent: STREAM_PERCENT_MAX,
        }
    }
}

/// Whether there is room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// There is.
    Ok,
    /// There is less than the reserve.
    Low {
        /// Of what, and how much.
        why: String,
    },
}

/// Notices when there is room again.
pub struct RoomWatch(watch::Receiver<Storage>);

impl RoomWatch {
    pub(crate) fn new(mut storage: watch::Receiver<Storage>) -> Self {
        storage.mark_unchanged();
        Self(storage)
    }

    /// Resolves when there was too little room and there is enough again, also when both came between two calls; never once the store is closed.
    pub async fn again(&mut self) {
        loop {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if *self.0.borrow_and_update() == Storage::Ok {
                return;
            }
        }
    }
}

/// Bytes that a process without privileges may still write where this path lies.
///
/// # Errors
/// The system does not say.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether the system says that fewer bytes than these may still be written there.
pub fn is_short(path: &Path, bytes: u64) -> bool {
    free_bytes(path).is_ok_and(|free| free < bytes)
}

/// The disks that are looked at.
pub(crate) fn on_disks(disks: &[PathBuf], reserve: Reserve) -> Storage {
    for disk in disks {
        match free_bytes(disk) {
            Ok(free) if free < reserve.disk_bytes => {
                return Storage::Low {
                    why: format!(
                        "{free} bytes are free at {}, the reserve is {}",
                        disk.display(),
                        reserve.disk_bytes
                    ),
                };
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, path = %disk.display(), "the system does not say how much space is free")
            }
        }
    }
    Storage::Ok
}

async fn look(bus: &Bus, disks: &[PathBuf], reserve: Reserve) -> Storage {
    let low = on_disks(disks, reserve);
    if low != Storage::Ok {
        return low;
    }
    // A stream that does not answer is no matter of space.
    let Ok(Some(info)) = bus.stream_info().await else {
        return Storage::Ok;
    };
    let max = u64::try_from(info.config.max_bytes).unwrap_or(u64::MAX);
    let used = info.state.bytes;
    if used / 100 * 100 >= max / 100 * reserve.stream_percent {
        let name = info.config.name;
        return Storage::Low {
            why: format!("the stream {name} has {used} of the {max} bytes that it may have"),
        };
    }
    Storage::Ok
}

/// Looks, while the store runs.
pub(crate) async fn watch(
    bus: Bus,
    disks: Vec<PathBuf>,
    reserve: Reserve,
    say: watch::Sender<Storage>,
    mut closing: watch::Receiver<bool>,
) {
    loop {
        let found = look(&bus, &disks, reserve).await;
        say.send_if_modified(|known| {
            let other = std::mem::discriminant(known) != std::mem::discriminant(&found);
            if other {
                tracing::warn!(storage = ?found, "storage");
            }
            let changed = *known != found;
            *known = found;
            changed
        });
        tokio::select! {
            () = closing::told(&mut closing) => return,
            () = clock::pause(ROOM_LOOK) => {}
        }
    }
}
