//! `faults.jsonl`: every strike, one line, fsynced before it strikes; so what killed the host does not kill it again after the restart.
//!
//! A line is a note, or says how many of the notes before it are in the system chains, or which faults are armed from where on.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
};

use coppice_messages::{
    Timestamp,
    ids::{RunId, TenantId},
};
use serde::{Deserialize, Serialize};

/// Name of the file in the data directory.
const FILE: &str = "faults.jsonl";

/// One strike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The fault's address.
    pub address: String,
    /// Whose run.
    pub tenant: TenantId,
    /// Which run.
    pub run: RunId,
    /// When it was noted.
    pub noted_at: Timestamp,
}

/// Which faults a host was started with for the first time, and where the log was then: their events are counted from there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Arming {
    addresses: Vec<String>,
    from: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Struck(Note),
    Appended(usize),
    Armed(Arming),
}

/// Why strikes cannot be noted. Then no fault strikes: one that is not noted would strike again after each restart.
#[derive(Debug, thiserror::Error)]
#[error("{path}, where injected faults are noted, cannot be used")]
pub struct BookError {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    #[source]
    pub source: io::Error,
}

/// The file, open for further notes.
pub(super) struct Book {
    path: PathBuf,
    file: File,
    notes: Vec<Note>,
    appended: usize,
    armed: Option<Arming>,
    /// The last line may not be whole.
    is_torn: bool,
}

impl Book {
    /// Opens the book of a data directory.
    pub fn open(data: &Path) -> Result<Self, BookError> {
        let path = data.join(FILE);
        Self::open_at(&path).map_err(|source| BookError { path, source })
    }

    fn open_at(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        let (mut notes, mut appended, mut armed) = (Vec::new(), 0, None);
        for line in BufReader::new(&file).lines() {
            let line = line?;
            match serde_json::from_str(&line) {
                Ok(Line::Struck(note)) => notes.push(note),
                Ok(Line::Appended(count)) => appended = count.min(notes.len()),
                Ok(Line::Armed(arming)) => armed = Some(arming),
                Err(_) if line.is_empty() => {}
                // The host died while it wrote this line, so nothing struck for it.
                Err(error) => tracing::warn!(%error, "an unfinished note of a fault is skipped"),
            }
        }
        let mut book = Self {
            path: path.to_owned(),
            file,
            notes,
            appended,
            armed,
            is_torn: false,
        };
        // Ends an unfinished line, so that the next one stands alone.
        book.file.write_all(b"\n")?;
        Ok(book)
    }

    /// The position after which the events of these faults count; none when they were not armed before.
    pub fn armed_from(&self, addresses: &[String]) -> Option<u64> {
        let armed = self.armed.as_ref()?;
        (armed.addresses == addresses).then_some(armed.from)
    }

    /// These faults are armed for the first time.
    pub fn arm(&mut self, addresses: Vec<String>, from: u64) -> Result<(), BookError> {
        let arming = Arming { addresses, from };
        self.write(&Line::Armed(arming.clone()))?;
        self.armed = Some(arming);
        Ok(())
    }

    /// How often a fault has struck.
    pub fn struck(&self, address: &str) -> u32 {
        let count = self
            .notes
            .iter()
            .filter(|note| note.address == address)
            .count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Notes a strike; it is on the disk when this returns.
    pub fn note(&mut self, note: Note) -> Result<(), BookError> {
        self.write(&Line::Struck(note.clone()))?;
        self.notes.push(note);
        Ok(())
    }

    /// The notes that no system chain has yet.
    pub fn to_append(&self) -> Vec<Note> {
        self.notes[self.appended..].to_vec()
    }

    /// So many further notes are in the system chains.
    pub fn appended(&mut self, count: usize) -> Result<(), BookError> {
        self.appended = (self.appended + count).min(self.notes.len());
        self.write(&Line::Appended(self.appended))
    }

    fn write(&mut self, line: &Line) -> Result<(), BookError> {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        if self.is_torn {
            // Ends the line that a full disk cut off.
            text.insert(0, b'\n');
        }
        let written = self.file.write_all(&text);
        self.is_torn = written.is_err();
        written
            .and_then(|()| self.file.sync_data())
            .map_err(|source| BookError {
                path: self.path.clone(),
                source,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(address: &str) -> Note {
        Note {
            address: address.to_owned(),
            tenant: TenantId::default_tenant(),
            run: "run".parse().unwrap(),
            noted_at: Timestamp(1),
        }
    }

    #[test]
    fn what_is_armed_again_is_counted_from_where_it_was_armed_first() {
        let data = tempfile::tempdir().unwrap();
        let (one, other) = (vec!["a".to_owned()], vec!["b".to_owned()]);
        Book::open(data.path())
            .unwrap()
            .arm(one.clone(), 7)
            .unwrap();
        let book = Book::open(data.path()).unwrap();
        assert_eq!(
            (book.armed_from(&one), book.armed_from(&other)),
            (Some(7), None)
        );
    }

    #[test]
    fn notes_and_what_was_appended_survive_and_an_unfinished_line_is_skipped() {
        let data = tempfile::tempdir().unwrap();
        let mut book = Book::open(data.path()).unwrap();
        for address in ["a", "b", "a"] {
            book.note(note(address)).unwrap();
        }
        book.appended(2).unwrap();
        drop(book);
        let path = data.path().join(FILE);
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(br#"{"struck":{"address":"c","#);
        std::fs::write(&path, text).unwrap();

        let mut book = Book::open(data.path()).unwrap();
        assert_eq!(
            (book.struck("a"), book.struck("b"), book.struck("c")),
            (2, 1, 0)
        );
        assert_eq!(book.to_append(), [note("a")]);
        book.note(note("d")).unwrap();
        assert_eq!(
            Book::open(data.path()).unwrap().to_append(),
            [note("a"), note("d")]
        );
    }
}
