//! The data directory: one process owns it, and its format is known before anything in it is opened.
//!
//! ```text
//! <data>/lock      held by the process that owns the directory; holds its process id
//! <data>/format    version of the layout
//! <data>/log/      the fjall log
//! <data>/log.mark  how far the log had come
//! <data>/log.suspect  a host could not read something of the log: the next one looks it through
//! <data>/log.set-aside-<time>/  a log that did not open or was shorter than its mark
//! <data>/nats/     the private nats-server: configuration, credentials, store
//! <data>/unfinished  it is being made, or whoever made it was killed; nobody opens it
//! ```

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use coppice_messages::Timestamp;

use crate::limits::FORMAT;

/// The file that a directory has until all that belongs into it is on the disk.
const UNFINISHED: &str = "unfinished";

/// The file of a backup that holds its log.
pub const ARCHIVE_OF_BACKUP: &str = "log.archive";

/// An owned data directory; released when dropped.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    // The lock lasts as long as this file is open.
    _lock: File,
}

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process owns it.
    #[error(
        "the data directory {path} is in use by process {owner}: end that process, or use another --data"
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The owner's process id, as far as it is known.
        owner: String,
    },
    /// A newer build wrote it.
    #[error(
        "the data directory {path} has format {found}; this build knows formats up to {FORMAT}: use a newer build of coppice"
    )]
    NewerFormat {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Its format file says nothing usable.
    #[error("the file {path} should hold a format number but holds {found:?}")]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
    /// It is not there, and it was asked not to make it.
    #[error("there is no data directory at {path}")]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// It was never made to its end.
    #[error(
        "{path} is an unfinished data directory: the restore that made it is still at work, or was killed; restore once more, which removes it"
    )]
    Unfinished {
        /// Where.
        path: PathBuf,
    },
    /// A backup, which a host would fill beside what is kept.
    #[error("{path} is a backup and no data directory: make one of it with coppice restore {path} --data NEW", path = .path.display())]
    Backup {
        /// Where.
        path: PathBuf,
    },
    /// Something else has its name.
    #[error("{path} is a file, and a data directory is wanted", path = .path.display())]
    NotADirectory {
        /// Where.
        path: PathBuf,
    },
    /// The file system refuses.
    #[error("the data directory's {path} cannot be used")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

impl DataDirError {
    /// Whether the directory that was named is at fault, and not the environment: waiting would change nothing.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::NewerFormat { .. }
            | Self::UnknownFormat { .. }
            | Self::Unfinished { .. }
            | Self::Backup { .. }
            | Self::NotADirectory { .. } => true,
            Self::Locked { .. } | Self::Missing { .. } | Self::Io { .. } => false,
        }
    }
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> DataDirError + '_ {
    move |source| DataDirError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Makes it durable which names a directory holds.
pub(crate) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn check_finished(root: &Path) -> Result<(), DataDirError> {
    if DataDir::is_unfinished(root) {
        let path = root.to_owned();
        return Err(DataDirError::Unfinished { path });
    }
    Ok(())
}

/// The marker goes last: what a removal that was cut off leaves is no data directory either.
pub(crate) fn remove_marked(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != UNFINISHED {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(root.join(UNFINISHED))?;
    fs::remove_dir(root)
}

impl DataDir {
    /// Whether a data directory can be made or taken here: where something else stands nothing is written.
    ///
    /// # Errors
    /// [`DataDirError::NotADirectory`] and [`DataDirError::Backup`].
    pub fn check_place(root: &Path) -> Result<(), DataDirError> {
        let path = || root.to_owned();
        if root.is_file() {
            return Err(DataDirError::NotADirectory { path: path() });
        }
        if root.join(ARCHIVE_OF_BACKUP).exists() && !root.join("format").exists() {
            return Err(DataDirError::Backup { path: path() });
        }
        Ok(())
    }

    /// Takes the directory, making it where there is none.
    ///
    /// # Errors
    /// [`DataDirError`].
    pub fn create_or_take(root: &Path) -> Result<Self, DataDirError> {
        Self::check_place(root)?;
        // What it holds is nobody else's to read.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(root);
        made.map_err(io_at(root))?;
        Self::take(root)
    }

    /// Takes a directory that is there.
    ///
    /// # Errors
    /// [`DataDirError`].
    pub fn take_existing(root: &Path) -> Result<Self, DataDirError> {
        check_finished(root)?;
        let has = |name: &str| root.join(name).exists();
        if !has("format") && !has("log") && !has("log.mark") {
            return Err(DataDirError::Missing {
                path: root.to_owned(),
            });
        }
        Self::take(root)
    }

    /// The process that owns a directory now; none when nobody does, or that cannot be read.
    #[must_use]
    pub fn owner(root: &Path) -> Option<u32> {
        let mut lock = File::open(root.join("lock")).ok()?;
        let mut owner = String::new();
        lock.read_to_string(&mut owner).ok()?;
        let held = matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock));
        owner.trim().parse().ok().filter(|_| held)
    }

    /// Begins a directory that nobody opens before it is [finished](Self::finish), whatever happens to whoever makes it.
    ///
    /// # Errors
    /// [`DataDirError`].
    pub(crate) fn begin(root: &Path) -> Result<Self, DataDirError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(root);
        made.map_err(io_at(root))?;
        let marker = root.join(UNFINISHED);
        File::create(&marker)
            .and_then(|file| file.sync_all())
            .and_then(|()| sync(root))
            .map_err(io_at(&marker))?;
        let directory = Self::own(root)?;
        directory.check_format()?;
        Ok(directory)
    }

    /// All that belongs into it is on the disk: from now on it is a data directory.
    ///
    /// # Errors
    /// [`DataDirError`].
    pub(crate) fn finish(root: &Path) -> Result<(), DataDirError> {
        let marker = root.join(UNFINISHED);
        sync(root)
            .and_then(|()| fs::remove_file(&marker))
            .and_then(|()| sync(root))
            .map_err(io_at(&marker))
    }

    /// Whether it was begun and not finished.
    pub(crate) fn is_unfinished(root: &Path) -> bool {
        root.join(UNFINISHED).exists()
    }

    /// Removes a directory that was begun and not finished, unless somebody is at work on it; and one that has nothing in it.
    ///
    /// # Errors
    /// [`DataDirError`]; what is something else is left as it is.
    pub(crate) fn discard(root: &Path) -> Result<(), DataDirError> {
        let removed = if Self::is_unfinished(root) {
            let _owned = Self::own(root)?;
            remove_marked(root)
        } else {
            fs::remove_dir(root)
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_at(root)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn take(root: &Path) -> Result<Self, DataDirError> {
        check_finished(root)?;
        let directory = Self::own(root)?;
        directory.check_format()?;
        Ok(directory)
    }

    /// Holds the lock, whatever the directory is.
    fn own(root: &Path) -> Result<Self, DataDirError> {
        let path = root.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(io_at(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = lock.read_to_string(&mut owner);
                return Err(DataDirError::Locked {
                    path: root.to_owned(),
                    owner: owner.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(io_at(&path)(source)),
        }
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(io_at(&path))?;
        Ok(Self {
            root: fs::canonicalize(root).map_err(io_at(root))?,
            _lock: lock,
        })
    }

    fn check_format(&self) -> Result<(), DataDirError> {
        let path = self.root.join("format");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if self.log().exists() {
                    tracing::warn!(path = %path.display(), "the file that says the layout's version is gone: it is written anew");
                }
                // As a whole or not at all: a directory whose format cannot be read is refused.
                let fresh = self.root.join("format.new");
                return File::create(&fresh)
                    .and_then(|mut file| {
                        writeln!(file, "{FORMAT}")?;
                        file.sync_all()
                    })
                    .and_then(|()| fs::rename(&fresh, &path))
                    .map_err(io_at(&path));
            }
            Err(e) => return Err(io_at(&path)(e)),
        };
        let found = text
            .trim()
            .parse::<u32>()
            .map_err(|_| DataDirError::UnknownFormat {
                path,
                found: text.chars().take(80).collect(),
            })?;
        if found > FORMAT {
            return Err(DataDirError::NewerFormat {
                path: self.root.clone(),
                found,
            });
        }
        Ok(())
    }

    /// Where it is, absolute.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the log lies.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Where the log's high-water mark lies.
    #[must_use]
    pub fn mark(&self) -> PathBuf {
        self.root.join("log.mark")
    }

    /// Whether anything shows that a store was ever open here, however little of it is left.
    pub(crate) fn was_used(&self) -> bool {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).any(|name| {
            let name = name.to_string_lossy();
            name == "nats" || name.starts_with("log.mark") || name.starts_with("log.set-aside")
        })
    }

    /// Where it is noted that the log is to be looked through.
    #[must_use]
    pub fn suspect(&self) -> PathBuf {
        self.root.join("log.suspect")
    }

    /// Where a log that cannot be used is kept.
    #[must_use]
    pub fn set_aside(&self, at: Timestamp) -> PathBuf {
        self.root.join(format!("log.set-aside-{}", at.0))
    }

    /// Logs that could not be used and were set aside, the oldest first.
    pub(crate) fn logs_set_aside(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let is_one = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("log.set-aside-")
        };
        let mut found: Vec<_> = entries.filter(is_one).map(|entry| entry.path()).collect();
        found.sort();
        found
    }

    /// Where the private nats-server lies.
    #[must_use]
    pub fn nats(&self) -> PathBuf {
        self.root.join("nats")
    }
}
