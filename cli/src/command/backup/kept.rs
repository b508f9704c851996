//! The files of a data directory besides its log that a restored host would miss: a backup has them in one file, with a digest of all.
//!
//! The rest of a data directory is made anew (lock, endpoint, nats-server with its credentials, the mark), belongs to the outside world (desks) or
//! is about this very directory (the host's own words, faults on purpose).

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use coppice_actors::callback;
use coppice_messages::Digest;
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Failure, Problem},
    memo::{self, Memo},
};

/// Name of the file in a backup.
pub const FILE: &str = "host.files";

/// What a restored host goes on with.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The bytes of each file, by name.
    files: BTreeMap<String, Vec<u8>>,
}

/// Each file that is kept, and what of it.
type Take = fn(&Path) -> io::Result<Option<Vec<u8>>>;

const ALL: [(&str, Take); 2] = [
    // Whoever was given a secret signs with it on.
    (callback::FILE, |data| read(&data.join(callback::FILE))),
    (memo::FILE, memo_without_desk),
];

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whose trees they are. The store of the desk is not in a backup, and an empty one would say of every effect that it is not there.
fn memo_without_desk(data: &Path) -> io::Result<Option<Vec<u8>>> {
    let memo = Memo::read(data).map(|memo| Memo { desk: None, ..memo });
    Ok(memo.map(|memo| serde_json::to_vec(&memo)).transpose()?)
}

impl Kept {
    /// What there is in this data directory.
    pub fn of(data: &Path) -> Result<Self, Failure> {
        let mut files = BTreeMap::new();
        for (name, take) in ALL {
            let taken = take(data).map_err(|error| {
                let message = format!("{} cannot be read: {error}", data.join(name).display());
                Failure::Environment(Problem::new(message).help("no backup is kept"))
            })?;
            files.extend(taken.map(|bytes| (name.to_owned(), bytes)));
        }
        Ok(Self { files })
    }

    /// Writes them into a backup.
    pub fn write(&self, backup: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self)?;
        let all = format!("{}\n{text}", Digest::of(text.as_bytes()));
        owners_alone(&backup.join(FILE), all.as_bytes())
    }

    /// Reads them from a backup; of one that was made without them there are none.
    pub fn read(backup: &Path) -> Result<Option<Self>, Failure> {
        let path = backup.join(FILE);
        let refused = |why: &str| {
            let message = format!("{}: {why}", path.display());
            Failure::Input(Problem::new(message).help("nothing was restored; take another backup"))
        };
        let Some(bytes) = read(&path).map_err(|error| refused(&error.to_string()))? else {
            return Ok(None);
        };
        let altered = || refused("it was altered after it was written");
        let text = String::from_utf8(bytes).map_err(|_| altered())?;
        let (digest, text) = text.split_once('\n').ok_or_else(altered)?;
        if digest != Digest::of(text.as_bytes()).to_string() {
            return Err(altered());
        }
        let kept: Self = serde_json::from_str(text).map_err(|_| altered())?;
        let unknown = |name: &&String| !ALL.iter().any(|(known, _)| known == name);
        if let Some(name) = kept.files.keys().find(unknown) {
            let why = format!("it has {name}, which this build does not know: use a newer build");
            return Err(refused(&why));
        }
        Ok(Some(kept))
    }

    /// Puts them into a data directory.
    pub fn put(&self, data: &Path) -> io::Result<()> {
        let mut files = self.files.iter();
        files.try_for_each(|(name, bytes)| owners_alone(&data.join(name), bytes))
    }
}

/// Writes a file that nobody else may read.
fn owners_alone(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
