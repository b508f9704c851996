//! One user a role. The passwords of those who ask from outside stay the same over restarts of the host, so that who watches reconnects; those of the
//! host itself are of one start, so that it never talks to another's server, be that one on a copy of its directory.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

/// Who connects to a private server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The host: everything.
    Host,
    /// The host's API: it hears requests and answers into inboxes only, whatever a request names as the place of the reply. Otherwise a
    /// watcher could let the host say to JetStream what it may not say itself.
    Service,
    /// Who starts, decides, settles and cancels: the API and the feed.
    Operator,
    /// Who looks on: the feed, beats, and `tail` to fill a gap; nothing else.
    Watcher,
}

impl Role {
    /// The user's name.
    #[must_use]
    pub fn user(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Service => "service",
            Self::Operator => "operator",
            Self::Watcher => "watcher",
        }
    }

    /// The prefix of the subjects on which the role gets its answers. A watcher uses the prefix that every client library uses by itself;
    /// the others have their own, so that a watcher cannot listen to their answers.
    #[must_use]
    pub fn inbox_prefix(self) -> &'static str {
        match self {
            Self::Host => "_INBOX_host",
            Self::Service => "_INBOX_service",
            Self::Operator => "_INBOX_operator",
            Self::Watcher => "_INBOX",
        }
    }
}

/// How one role connects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleCredentials {
    /// The user's name.
    pub user: String,
    /// The secret.
    pub password: String,
    /// The prefix of the client's inboxes.
    pub inbox_prefix: String,
}

/// What is kept beside the server's configuration, and what is of one start.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The port of the last start, taken again if it is free.
    pub port: u16,
    /// The inode of the directory: in a copy of it these are another's port and passwords.
    #[serde(default)]
    inode: Option<u64>,
    operator: String,
    watcher: String,
    #[serde(skip)]
    once: Once,
}

/// What no other start has.
#[derive(Clone, Default)]
struct Once {
    server: String,
    host: String,
    service: String,
}

impl Kept {
    /// Reads what is kept in a directory's file, or makes it.
    pub fn load_or_make(directory: &Path, path: &Path) -> io::Result<Self> {
        let inode = fs::metadata(directory)?.ino();
        let found = match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).ok(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let own = found.filter(|kept: &Self| kept.inode.is_none_or(|of| of == inode));
        let (port, operator, watcher) = match own {
            Some(kept) => (kept.port, kept.operator, kept.watcher),
            None => (0, random_password()?, random_password()?),
        };
        Ok(Self {
            port,
            inode: Some(inode),
            operator,
            watcher,
            once: Once {
                server: format!("coppice-{}", random_password()?),
                host: random_password()?,
                service: random_password()?,
            },
        })
    }

    /// The name by which the server of this start is known.
    pub fn server(&self) -> &str {
        &self.once.server
    }

    pub fn save(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        write_secret(path, &text)
    }

    pub fn of(&self, role: Role) -> RoleCredentials {
        let password = match role {
            Role::Host => &self.once.host,
            Role::Service => &self.once.service,
            Role::Operator => &self.operator,
            Role::Watcher => &self.watcher,
        };
        RoleCredentials {
            user: role.user().to_owned(),
            password: password.clone(),
            inbox_prefix: role.inbox_prefix().to_owned(),
        }
    }
}

/// Writes a file that only its owner can read.
pub(super) fn write_secret(path: &Path, text: &[u8]) -> io::Result<()> {
    // A file that is there keeps its mode when it is opened; so it is replaced as a whole.
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)?;
    file.write_all(text)?;
    file.sync_data()?;
    fs::rename(&fresh, path)
}

fn random_password() -> io::Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
