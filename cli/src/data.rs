//! Data directories: where a run puts its data, how the latest is found, and how many are kept.
//!
//! ```text
//! .coppice/                  data of coppice up
//! .coppice/runs/TIME-NAME/   data of one coppice run; the last twenty are kept
//! .coppice/latest            leads to what was started last
//! ```
//!
//! Whoever reads and names none reads `.coppice` while a host lives there, else the latest.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use coppice_actors::endpoint::Endpoint;
use coppice_store::clock;

use crate::failure::{Failure, Problem};

const ROOT: &str = ".coppice";
const LATEST: &str = "latest";
/// Data of this many runs are kept.
const RUNS_KEPT: usize = 20;

/// What runs record is nobody else's to read.
const OWNER_ALONE: u32 = 0o700;

/// Makes a directory, and those above it, if they are missing.
pub fn make(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(OWNER_ALONE)
        .create(directory)
}

/// The directory of `coppice up`.
pub fn of_up(given: Option<&Path>) -> PathBuf {
    given.map_or_else(|| PathBuf::from(ROOT), Path::to_owned)
}

/// Makes the directory of a new run, and removes those of runs long past.
pub fn of_run(given: Option<&Path>, scenario: &str) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        make(given).map_err(|error| unusable(given, &error))?;
        return Ok(given.to_owned());
    }
    let runs = Path::new(ROOT).join("runs");
    make(&runs).map_err(|error| unusable(&runs, &error))?;
    let time: String = clock::now()
        .to_string()
        .chars()
        .filter(|letter| letter.is_ascii_digit() || *letter == 'T')
        .take("20260101T101010123".len())
        .collect();
    let mut nth = 1;
    let made = loop {
        let again = if nth == 1 {
            String::new()
        } else {
            format!("-{nth}")
        };
        let path = runs.join(format!("{time}-{scenario}{again}"));
        match fs::DirBuilder::new().mode(OWNER_ALONE).create(&path) {
            Ok(()) => break path,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => nth += 1,
            Err(error) => return Err(unusable(&path, &error)),
        }
    };
    forget_old(&runs);
    Ok(made)
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("the directory {} cannot be made: {error}", path.display());
    Failure::Environment(Problem::new(message).help("name another with --data DIR"))
}

/// Lets `.coppice/latest` lead to a directory, if it lies in `.coppice`: other directories are named by whoever chose them.
pub fn is_latest(path: &Path) {
    let root = Path::new(ROOT);
    // As they are on the disk: what was given may itself lead through `latest`.
    let (Ok(real), Ok(real_root)) = (fs::canonicalize(path), fs::canonicalize(root)) else {
        return;
    };
    let Ok(below) = real.strip_prefix(real_root) else {
        return;
    };
    let target = if below.as_os_str().is_empty() {
        Path::new(".")
    } else {
        below
    };
    let fresh = root.join(format!("{LATEST}.{}", std::process::id()));
    let linked = std::os::unix::fs::symlink(target, &fresh)
        .and_then(|()| fs::rename(&fresh, root.join(LATEST)));
    if let Err(error) = linked {
        tracing::warn!(%error, "{ROOT}/{LATEST} cannot be set");
    }
}

/// Removes the data of a run; `.coppice/latest` then leads to what is there.
pub fn discard(path: &Path) -> Result<(), Failure> {
    fs::remove_dir_all(path).map_err(|error| {
        let message = format!("{} cannot be removed: {error}", path.display());
        Failure::Environment(Problem::new(message))
    })?;
    let latest = Path::new(ROOT).join(LATEST);
    let leads_nowhere = latest.is_symlink() && !latest.exists();
    if leads_nowhere {
        match left() {
            Some(left) => is_latest(&left),
            None => {
                if let Err(error) = fs::remove_file(&latest) {
                    tracing::warn!(%error, "{ROOT}/{LATEST} cannot be removed");
                }
            }
        }
    }
    Ok(())
}

/// The directory that a reading command reads, and how it came to be that one.
#[derive(Debug)]
pub struct Chosen {
    /// Which.
    pub path: PathBuf,
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Named with --data.
    Given,
    /// A host lives there.
    Host,
    /// It was started last.
    Latest,
    /// It is the newest that is left.
    Left,
}

impl Chosen {
    /// Says on stderr which it is, unless it was named.
    pub fn say(&self) {
        let why = match self.how {
            How::Given => return,
            How::Host => "a host lives there",
            How::Latest => "the latest",
            How::Left => "the newest that is left",
        };
        eprintln!("reading {} ({why})", self.path.display());
    }
}

/// The directory that a reading command reads: the one that was named, else that of a living `coppice up`, else the latest.
pub fn to_read(given: Option<&Path>) -> Result<Chosen, Failure> {
    let chosen = |path: &Path, how| Chosen {
        path: path.to_owned(),
        how,
    };
    if let Some(given) = given {
        return if has_data(given)? {
            Ok(chosen(given, How::Given))
        } else {
            Err(nothing_in(given))
        };
    }
    let root = Path::new(ROOT);
    if has_data(root)? && Endpoint::read(root).is_ok() && in_use(root) {
        return Ok(chosen(root, How::Host));
    }
    let found = match fs::canonicalize(root.join(LATEST)) {
        Ok(path) => Some(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(unreadable(&root.join(LATEST), &error)),
    };
    if let Some(found) = found
        && has_data(&found)?
    {
        // Shown to people: relative where it can be.
        let here = std::env::current_dir().unwrap_or_default();
        let path = found.strip_prefix(here).unwrap_or(&found);
        return Ok(chosen(path, How::Latest));
    }
    let left = left().map(|left| chosen(&left, How::Left));
    left.ok_or_else(|| nothing_in(root))
}

/// Every data directory below `.coppice`, the newest run first, that of `coppice up` last.
pub fn all() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let entries = fs::read_dir(root.join("runs"));
    let mut all: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    all.sort_by(|one, other| other.cmp(one));
    all.push(root.to_owned());
    all.retain(|path| matches!(has_data(path), Ok(true)));
    all
}

/// The newest data directory that there is.
fn left() -> Option<PathBuf> {
    all().into_iter().next()
}

/// Whether this is, or is becoming, a data directory.
fn has_data(path: &Path) -> Result<bool, Failure> {
    for file in ["format", "lock"] {
        match fs::metadata(path.join(file)) {
            Ok(found) if found.is_file() => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(path, &error)),
        }
    }
    Ok(false)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("the directory {} cannot be read: {error}", path.display());
    let help = "read it as the user who made it, or name another with --data DIR";
    Failure::Environment(Problem::new(message).help(help))
}

fn nothing_in(path: &Path) -> Failure {
    let message = format!("there is no data of coppice in {}", path.display());
    Failure::Input(Problem::new(message).help(
        "run a scenario first (coppice run fan-out-join), start a host (coppice up), or name a directory with --data DIR",
    ))
}

/// Removes the oldest runs beyond those that are kept; what a process still uses stays.
fn forget_old(runs: &Path) {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    let many = all.len().saturating_sub(RUNS_KEPT);
    for old in all.into_iter().take(many) {
        if in_use(&old) {
            continue;
        }
        if let Err(error) = fs::remove_dir_all(&old) {
            tracing::warn!(%error, path = %old.display(), "an old run cannot be removed");
        }
    }
}

/// Whether a process has this directory: a host, or a command that reads its log.
pub fn in_use(path: &Path) -> bool {
    File::open(path.join("lock")).is_ok_and(|lock| lock.try_lock().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_twenty_runs_are_kept_and_any_that_is_still_in_use() {
        let place = tempfile::tempdir().unwrap();
        for nth in 0..25 {
            fs::create_dir(place.path().join(format!("{nth:02}"))).unwrap();
        }
        let lock = File::create(place.path().join("01/lock")).unwrap();
        lock.try_lock().unwrap();
        forget_old(place.path());
        let mut left: Vec<String> = fs::read_dir(place.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let kept = (5..25).map(|nth| format!("{nth:02}"));
        assert_eq!(
            left,
            std::iter::once("01".to_owned())
                .chain(kept)
                .collect::<Vec<_>>()
        );
    }
}
