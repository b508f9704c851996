//! What a host that was started again knows of the lives before: how often the events of its faults came, and where they came.

use std::path::Path;

use coppice_messages::Commit;
use coppice_store::{Log, log::Positioned};

use super::{book::BookError, strike::Known};

/// Goes through what the log has before this host records anything. A log that cannot be read now is for the host's start to name.
pub(super) fn recall(known: &mut Known, data: &Path) -> Result<(), BookError> {
    if known.armed.is_empty() {
        return Ok(());
    }
    let addresses: Vec<String> = known.armed.iter().map(|a| a.address.clone()).collect();
    let from = known.book.armed_from(&addresses);
    let mut last = 0;
    match Log::open(data) {
        Ok(log) => {
            for read in log.reader().commits_from(0) {
                let Ok(Positioned { pos, bytes, .. }) = read else {
                    break;
                };
                last = pos;
                // What cannot be decoded strikes nobody.
                if let Ok(commit) = Commit::decode(&bytes) {
                    known.recall(&commit, from.is_some_and(|from| pos > from));
                }
            }
        }
        Err(error) => {
            tracing::debug!(%error, "no log tells how often the events of faults came");
        }
    }
    match from {
        Some(_) => Ok(()),
        None => known.book.arm(addresses, last),
    }
}
