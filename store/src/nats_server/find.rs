//! Where nats-server is: `$COPPICE_NATS_SERVER`, then the PATH, then where packages put it, then where `make demo` put it.

use std::{
    env,
    path::{Path, PathBuf},
};

/// There is no nats-server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The one that was named is not there.
    #[error("COPPICE_NATS_SERVER names {path}, which is not a file: unset it or correct it")]
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
    if let Some(named) = env::var_os("COPPICE_NATS_SERVER").filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(NotFound::Named { path })
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let starts = [env::current_dir().ok(), env::current_exe().ok()];
    env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.map(PathBuf::from))
        .map(|directory| directory.join("nats-server"))
        .chain(
            starts
                .iter()
                .flatten()
                .flat_map(|start| start.ancestors())
                .map(|above| above.join(TOOLS)),
        )
        .find(|candidate| is_program(candidate))
        .ok_or(NotFound::Nowhere)
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
