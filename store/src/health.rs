//! What nobody else would notice, looked at once a second: a log that takes no writes any more, and a private nats-server that stores nothing.
//!
//! nats-server stores nothing any more, for good, once its disk was full: publishing and every question about the stream time out on a connection
//! that stands. While its disk is full the host ends, and is started again when there is space; when there is space already, the server is started
//! again.

use std::{path::PathBuf, sync::Arc, time::Duration};

use fjall::PersistMode;
use tokio::sync::watch;

use crate::{
    bus::Link,
    clock, closing,
    fatal::{Fatal, FatalCell},
    limits::{
        ACK_WAIT, DISK_BYTES_LEAST, FLUSH_BYTES, ROOM_LOOK, SERVER_RESTARTS_MAX, SERVER_STUCK,
        SERVER_STUCK_LONGEST,
    },
    log::{self, Log, Tables},
    nats_server::Restarter,
    publisher::Publisher,
    room,
};

/// The private server, and where it stores.
#[derive(Clone)]
pub(crate) struct PrivateServer {
    pub restarter: Restarter,
    pub disk: PathBuf,
}

/// The log, and where it lies.
#[derive(Clone)]
pub(crate) struct LogDisk {
    pub tables: Arc<Tables>,
    pub disk: PathBuf,
}

impl LogDisk {
    pub fn of(log: &Log) -> Self {
        Self {
            tables: Arc::clone(&log.reader().tables),
            disk: log.directory().log(),
        }
    }

    /// What ends the host after a write that failed. fjall says of all writes behind the first that failed only that they did; that one may have been
    /// of a thread of its own that moves what is in memory to the disk, which needs space too.
    pub fn fault(&self, error: &fjall::Error) -> Fatal {
        let follows = matches!(error, fjall::Error::Poisoned);
        if log::is_disk_full(error) || (follows && room::is_short(&self.disk, FLUSH_BYTES)) {
            return Fatal::DiskFull;
        }
        let system = log::system_error(error).map(ToString::to_string);
        Fatal::LogWrite {
            said: system.unwrap_or_else(|| error.to_string()),
        }
    }
}

/// What there is to be seen of the server.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// For how long it has stored nothing of what was sent, or has not been there although something waits; the stream's own bound aside.
    stuck_for: Duration,
    disk_is_full: bool,
    /// How often it was started again without storing anything since.
    restarts: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Wait,
    DiskFull,
    Restart,
    GiveUp,
}

fn step(seen: Seen) -> Step {
    if seen.stuck_for < ACK_WAIT {
        Step::Wait
    } else if seen.disk_is_full {
        Step::DiskFull
    } else if seen.stuck_for < clock::backoff(seen.restarts, SERVER_STUCK, SERVER_STUCK_LONGEST) {
        Step::Wait
    } else if seen.restarts < SERVER_RESTARTS_MAX {
        Step::Restart
    } else {
        Step::GiveUp
    }
}

/// Who looks.
pub(crate) struct Health {
    pub log: LogDisk,
    pub publisher: Publisher,
    pub link: watch::Receiver<Link>,
    /// None where the server is the operator's.
    pub server: Option<PrivateServer>,
    pub fatal: FatalCell,
}

impl Health {
    /// Looks, while the store runs.
    pub async fn watch(mut self, mut closing: watch::Receiver<bool>) {
        let (mut stored, mut restarts, mut down) = (0, 0, None);
        loop {
            tokio::select! {
                () = closing::told(&mut closing) => return,
                () = clock::pause(ROOM_LOOK) => {}
            }
            self.look_at_log().await;
            let Some(server) = self.server.clone() else {
                continue;
            };
            if self.publisher.stored() != stored {
                (stored, restarts) = (self.publisher.stored(), 0);
            }
            if self.link.has_changed().unwrap_or(false) {
                // What is sent now goes to another server.
                self.publisher.forget_unstored();
            }
            let link = *self.link.borrow_and_update();
            down = if link.is_up() {
                None
            } else {
                down.or_else(|| Some(clock::mono()))
            };
            let seen = Seen {
                stuck_for: self.stuck_for(down),
                disk_is_full: room::is_short(&server.disk, DISK_BYTES_LEAST),
                restarts,
            };
            match step(seen) {
                Step::Wait => {}
                Step::DiskFull => self.fatal.set(Fatal::StreamDiskFull),
                Step::Restart => {
                    restarts += 1;
                    let (said, after) = (self.said(), seen.stuck_for.as_secs());
                    tracing::warn!(
                        said,
                        after,
                        restarts,
                        "nats-server stores nothing: it is started again"
                    );
                    self.publisher.forget_unstored();
                    server.restarter.restart();
                }
                Step::GiveUp => self.fatal.set(Fatal::ServerStuck { said: self.said() }),
            }
        }
    }

    /// A server that is away is started again by its supervisor, which it may not survive on a full disk.
    fn stuck_for(&self, down: Option<clock::Mono>) -> Duration {
        match (down, self.publisher.unstored()) {
            (Some(down), _) if self.publisher.waiting() > 0 => down.elapsed().min(ACK_WAIT),
            (None, Some(unstored)) if !unstored.is_full_stream() => unstored.elapsed(),
            _ => Duration::ZERO,
        }
    }

    fn said(&self) -> String {
        let unstored = self.publisher.unstored();
        unstored.map(|unstored| unstored.said).unwrap_or_default()
    }

    /// fjall refuses every write once one failed, also one that nobody waited for; who only reads would not notice.
    async fn look_at_log(&self) {
        let db = self.log.tables.db.clone();
        let written = tokio::task::spawn_blocking(move || db.persist(PersistMode::Buffer)).await;
        if let Ok(Err(error)) = written {
            self.fatal.set(self.log.fault(&error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, disk_is_full: bool, restarts: u32) -> Step {
        step(Seen {
            stuck_for: Duration::from_secs(seconds),
            disk_is_full,
            restarts,
        })
    }

    #[test]
    fn a_server_that_stores_nothing_is_started_again_ever_later_and_a_bounded_number_of_times() {
        let first = SERVER_STUCK.as_secs();
        assert_eq!(at(0, false, 0), Step::Wait);
        assert_eq!(at(first - 1, false, 0), Step::Wait);
        assert_eq!(at(first, false, 0), Step::Restart);
        assert_eq!(at(first, false, 1), Step::Wait);
        assert_eq!(at(2 * first, false, 1), Step::Restart);
        let longest = SERVER_STUCK_LONGEST.as_secs();
        assert_eq!(at(longest, false, SERVER_RESTARTS_MAX - 1), Step::Restart);
        assert_eq!(at(longest, false, SERVER_RESTARTS_MAX), Step::GiveUp);
    }

    #[test]
    fn a_server_whose_disk_is_full_ends_the_host_once_it_stores_nothing_and_not_before() {
        assert_eq!(at(0, true, 0), Step::Wait);
        assert_eq!(at(ACK_WAIT.as_secs(), true, 0), Step::DiskFull);
        assert_eq!(
            at(ACK_WAIT.as_secs(), true, SERVER_RESTARTS_MAX),
            Step::DiskFull
        );
    }
}
