//! The high-water mark: how far the log had come, kept beside it, so that a log that was made shorter is known.
//!
//! fjall checks what it reads, but a flipped bit at the end of its journal looks like a write that never happened, and a removed file like a
//! log that never was. The mark is written after the batch and fsynced at most once a second and at stop: it may lag, it never leads.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use coppice_messages::Digest;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    clock, closing,
    log::{LogReader, ReadError, meta::Total},
    recorder::Progress,
};

/// The mark is written at most once in this time.
const EVERY: Duration = Duration::from_secs(1);

/// What the file holds: the log's own account of itself, and a digest of that, since a bit of the mark can flip too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    total: Total,
    check: Digest,
}

fn check(total: &Total) -> Digest {
    let mut said = [
        &total.pos.to_be_bytes()[..],
        &total.writes.to_be_bytes(),
        &total.sum.0,
    ]
    .concat();
    if total.trimmed > 0 {
        said.extend_from_slice(&total.trimmed.to_be_bytes());
    }
    Digest::of(&said)
}

/// A log that has less than its mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Shorter {
    /// It ends before.
    #[error("the log ends at position {found}, but had come to position {marked}")]
    Ends {
        /// Its last position.
        found: u64,
        /// The mark's.
        marked: u64,
    },
    /// Something was written that is no commit (a blob, the position in the stream), and it is not there.
    #[error("the log has {found} writes, but {marked} were made")]
    Writes {
        /// Those that it has.
        found: u64,
        /// The mark's.
        marked: u64,
    },
    /// It is as long, and holds something else.
    #[error("the log up to position {marked} is not the one that was recorded")]
    Other {
        /// The mark's position.
        marked: u64,
    },
}

/// Reads the mark. One that cannot be read says nothing.
pub(crate) fn read(path: &Path) -> Option<Total> {
    let bytes = fs::read(path).ok()?;
    let found = serde_json::from_slice::<Written>(&bytes).ok();
    let total = found
        .filter(|w| w.check == check(&w.total))
        .map(|w| w.total);
    if total.is_none() {
        tracing::warn!(path = %path.display(), "the log's high-water mark cannot be read: it is written anew");
    }
    total
}

/// Writes the mark, as a whole or not at all.
pub(crate) fn write(path: &Path, total: &Total) -> io::Result<()> {
    let written = Written {
        total: *total,
        check: check(total),
    };
    // Not `log.new`, where a log is made.
    let fresh = path.with_extension("mark.new");
    let mut file = File::create(&fresh)?;
    file.write_all(&serde_json::to_vec(&written)?)?;
    file.sync_data()?;
    fs::rename(&fresh, path)
}

/// Compares a log with its mark.
pub(crate) fn compare(reader: &LogReader, mark: &Total) -> Result<Result<(), Shorter>, ReadError> {
    let (found, marked) = (reader.position()?, mark.pos);
    let total = reader.total()?;
    if found < marked || total.pos < marked {
        return Ok(Err(Shorter::Ends { found, marked }));
    }
    if total.writes < mark.writes {
        let (found, marked) = (total.writes, mark.writes);
        return Ok(Err(Shorter::Writes { found, marked }));
    }
    // What came after the mark is taken away again: a second's worth of commits, as a rule.
    let mut sum = mark.sum;
    for commit in reader.commits_from(marked + 1) {
        let commit = commit?;
        if commit.pos <= total.pos {
            sum = plus(&sum, &commit.hash);
        }
    }
    Ok(if sum == total.sum {
        Ok(())
    } else {
        Err(Shorter::Other { marked })
    })
}

/// The sum of two digests as numbers of 256 bits: the same for the same commits in whatever order, since a log that was read from the stream
/// again may have another.
#[must_use]
pub(crate) fn plus(one: &Digest, other: &Digest) -> Digest {
    let mut sum = [0; 32];
    let mut carry = 0;
    for at in (0..32).rev() {
        let digit = u16::from(one.0[at]) + u16::from(other.0[at]) + carry;
        sum[at] = digit.to_be_bytes()[1];
        carry = digit >> 8;
    }
    Digest(sum)
}

/// Keeps the mark while the store runs.
pub(crate) async fn keep(
    path: PathBuf,
    mut progress: watch::Receiver<Progress>,
    mut closing: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            () = closing::told(&mut closing) => return,
            changed = progress.changed() => if changed.is_err() { return },
        }
        let total = progress.borrow_and_update().total;
        let to = path.clone();
        let written = tokio::task::spawn_blocking(move || write(&to, &total)).await;
        if !matches!(written, Ok(Ok(()))) {
            tracing::warn!(path = %path.display(), "the log's high-water mark cannot be written");
        }
        tokio::select! {
            () = closing::told(&mut closing) => return,
            () = clock::pause(EVERY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_digests_does_not_depend_on_their_order() {
        let all: Vec<Digest> = (0..40_u8).map(|n| Digest::of(&[n])).collect();
        let add = |sum: Digest, next: &Digest| plus(&sum, next);
        let there = all.iter().fold(Digest::ZERO, add);
        let back = all.iter().rev().fold(Digest::ZERO, add);
        assert_eq!(there, back);
        assert_eq!(plus(&Digest([255; 32]), &Digest([255; 32])).0[31], 254);
    }

    #[test]
    fn a_mark_that_was_not_written_whole_is_in_nobodys_way() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("log.mark");
        // Its place is taken, so that it fails as on a full disk, and leaves what it left there.
        fs::create_dir(place.path().join("log.mark.new")).expect("made");
        assert!(write(&path, &Total::default()).is_err());
        assert!(!place.path().join("log.new").exists());
        assert_eq!(read(&path), None);
    }

    #[test]
    fn a_mark_with_a_flipped_bit_says_nothing() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("log.mark");
        let total = Total {
            pos: 7,
            writes: 9,
            sum: Digest::of(b"sum"),
            trimmed: 3,
        };
        write(&path, &total).expect("written");
        assert_eq!(read(&path), Some(total));
        let whole = fs::read(&path).expect("readable");
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).expect("written");
            assert_ne!(read(&path).map(|t| t == total), Some(false), "bit {bit}");
        }
    }
}
