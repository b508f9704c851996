//! Where nats-server is: `$COPPICE_NATS_SERVER`, then the PATH, then where packages put it, then where `make demo` put it.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// There is no nats-server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The one that was named is not there, or cannot be run.
    #[error("COPPICE_NATS_SERVER names {path}, which is not a program: unset it or correct it")]
    Named {
        /// What it names.
        path: PathBuf,
    },
    /// None anywhere.
    #[error(
        "there is no nats-server: install it (make demo does; or apt-get install nats-server, brew install nats-server), name it in COPPICE_NATS_SERVER, or use --nats URL --realm NAME"
    )]
    Nowhere,
}

/// Directories of system packages, which are not on every user's PATH.
const SYSTEM_DIRECTORIES: [&str; 4] = [
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/opt/homebrew/bin",
];
/// Where `make demo` unpacks it, below the checkout.
const TOOLS: &str = ".tools/bin/nats-server";

/// Finds nats-server.
///
/// # Errors
/// [`NotFound`], which says how to get one.
pub fn find() -> Result<PathBuf, NotFound> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.map(PathBuf::from))
        .collect();
    let starts = [env::current_dir().ok(), env::current_exe().ok()];
    let starts: Vec<PathBuf> = starts.into_iter().flatten().collect();
    find_in(env::var_os("COPPICE_NATS_SERVER"), &directories, &starts)
}

/// The one that is named; else the first in these directories; else the first that lies in the tools' place above where this was started.
fn find_in(
    named: Option<OsString>,
    directories: &[PathBuf],
    starts: &[PathBuf],
) -> Result<PathBuf, NotFound> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        return if is_program(&path) {
            Ok(path)
        } else {
            Err(NotFound::Named { path })
        };
    }
    let in_directories = directories.iter().map(|d| d.join("nats-server"));
    let above = starts.iter().flat_map(|start| start.ancestors());
    in_directories
        .chain(above.map(|above| above.join(TOOLS)))
        .find(|candidate| is_program(candidate))
        .ok_or(NotFound::Nowhere)
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    /// A program in a directory of its own.
    fn program(below: &Path, name: &str, mode: u32) -> PathBuf {
        let path = below.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(&path, "").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        path
    }

    #[test]
    fn the_one_that_is_named_is_taken_and_another_is_not_when_it_is_missing() {
        let place = tempfile::tempdir().expect("a directory");
        let named = program(place.path(), "mine", 0o755);
        let other = program(place.path(), "bin/nats-server", 0o755);
        let directories = [other.parent().expect("a parent").to_owned()];
        let found = find_in(Some(named.clone().into()), &directories, &[]);
        assert_eq!(found, Ok(named));
        let path = place.path().join("missing");
        let found = find_in(Some(path.clone().into()), &directories, &[]);
        assert_eq!(found, Err(NotFound::Named { path }));
    }

    #[test]
    fn what_cannot_be_run_is_passed_over_and_the_tools_above_are_found_last() {
        let place = tempfile::tempdir().expect("a directory");
        let idle = program(place.path(), "etc/nats-server", 0o644);
        let tools = program(place.path(), TOOLS, 0o755);
        let below = place.path().join("a/b");
        let directories = [idle.parent().expect("a parent").to_owned()];
        let found = find_in(None, &directories, std::slice::from_ref(&below));
        assert_eq!(found, Ok(tools));
        let bin = program(place.path(), "bin/nats-server", 0o755);
        let directories = [bin.parent().expect("a parent").to_owned()];
        assert_eq!(find_in(Some("".into()), &directories, &[below]), Ok(bin));
    }

    #[test]
    fn where_there_is_none_it_is_said_how_to_get_one() {
        let place = tempfile::tempdir().expect("a directory");
        let missing = find_in(None, &[place.path().to_owned()], &[]);
        let said = missing.expect_err("there is none").to_string();
        assert!(
            said.contains("make demo") && said.contains("--nats"),
            "{said}"
        );
    }
}
