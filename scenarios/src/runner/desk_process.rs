//! The desk in a process of its own.

use std::{
    fs::{DirBuilder, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{ChildStdin, Command},
    sync::watch,
};

use crate::desk::{Outside, World};

/// A running desk; it ends when this is dropped, since its standard input closes.
pub struct DeskProcess {
    stdin: Option<ChildStdin>,
    url: String,
    dir: PathBuf,
    /// How it ended, once it has.
    ended: watch::Receiver<Option<String>>,
}

/// A desk ended while it was needed: tools that name it find nobody, and nobody testifies.
#[derive(Debug, thiserror::Error)]
#[error("the desk ended by itself ({how}): what it had stored is in {}", dir.display())]
pub struct DeskGone {
    /// How it ended.
    how: String,
    /// Directory of its store.
    dir: PathBuf,
}

/// Why a desk does not run.
#[derive(Debug, thiserror::Error)]
pub enum DeskProcessError {
    /// Its process cannot be started.
    #[error("the desk's process cannot be started from {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Where it calls back to cannot be written down for it.
    #[error("the file {}, which tells the desk where to call back, cannot be written", path.display())]
    Outside {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("the desk does not start in {}: its own words stand above", dir.display())]
    NotReady {
        /// Directory of its store.
        dir: PathBuf,
    },
}

#[derive(Deserialize)]
struct Ready {
    desk: String,
}

/// The file beside a desk's store that says where callbacks go.
fn beside(dir: &Path) -> PathBuf {
    dir.with_extension("callbacks.json")
}

/// For the owner's eyes: it has secrets.
fn write(file: &Path, outside: &Outside) -> io::Result<()> {
    use io::Write as _;
    if let Some(parent) = file.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(true).mode(0o600);
    open.open(file)?.write_all(&serde_json::to_vec(outside)?)
}

impl DeskProcess {
    /// Starts a desk and waits until it takes requests.
    ///
    /// # Errors
    /// [`DeskProcessError`].
    pub async fn start(
        program: &Path,
        dir: &Path,
        world: &World,
        outside: &Outside,
    ) -> Result<Self, DeskProcessError> {
        let spawn = |source| DeskProcessError::Spawn {
            program: program.to_owned(),
            source,
        };
        let world = serde_json::to_string(world).map_err(|error| spawn(error.into()))?;
        let file = beside(dir);
        write(&file, outside).map_err(|source| DeskProcessError::Outside {
            path: file.clone(),
            source,
        })?;
        let mut child = Command::new(program)
            .arg("desk-serve")
            .arg(dir)
            .arg(world)
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C in the terminal is for the runner.
            .process_group(0)
            .spawn()
            .map_err(spawn)?;
        let stdin = child.stdin.take();
        let mut lines = child.stdout.take().map(|out| BufReader::new(out).lines());
        let line = match &mut lines {
            Some(lines) => lines.next_line().await.map_err(spawn)?,
            None => None,
        };
        let ready = line.and_then(|line| serde_json::from_str::<Ready>(&line).ok());
        match ready {
            Some(Ready { desk: url }) => {
                let (tell, ended) = watch::channel(None);
                // Waited for from here on, so that its end is noticed when it comes.
                tokio::spawn(async move {
                    let how = match child.wait().await {
                        Ok(status) => status.to_string(),
                        Err(error) => error.to_string(),
                    };
                    tell.send_replace(Some(how));
                });
                Ok(Self {
                    stdin,
                    url,
                    dir: dir.to_owned(),
                    ended,
                })
            }
            None => Err(DeskProcessError::NotReady {
                dir: dir.to_owned(),
            }),
        }
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Resolves when it has ended although nobody stopped it.
    pub async fn gone(&self) -> DeskGone {
        DeskGone {
            how: self.end().await,
            dir: self.dir.clone(),
        }
    }

    async fn end(&self) -> String {
        let mut ended = self.ended.clone();
        let how = ended.wait_for(Option::is_some).await;
        let how = how.ok().and_then(|how| how.clone());
        how.unwrap_or_else(|| "nobody waited for it".to_owned())
    }

    /// Ends it in order.
    pub async fn stop(mut self) {
        drop(self.stdin.take());
        self.end().await;
    }
}
