//! A log of which a living host could not read something is looked through, before the next host uses it.
//!
//! fjall checks a block of its files when it reads it, and a host reads at its start what is unfinished and not what is stored. So a block that is
//! damaged may be met at any time. The host then ends, and leaves a note beside the log; the next one reads the whole log first, and has it
//! read again from the stream if there is something that it cannot read.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// Whether the log is to be looked through.
pub(crate) fn is_noted(note: &Path) -> bool {
    note.exists()
}

/// The log is as it should be, or another one.
pub(crate) fn forget(note: &Path) {
    match fs::remove_file(note) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, note = %note.display(), "the note cannot be removed: the next host looks through the log again");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Leaves the note.
pub(crate) fn note(note: &Path) {
    let noted = File::create(note).and_then(|file| file.sync_all());
    if let Err(error) = noted {
        tracing::error!(%error, note = %note.display(), "that the log is to be looked through cannot be noted");
    }
}
