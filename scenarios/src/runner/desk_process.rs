//! The desk in a process of its own.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdin, Command},
};

use crate::desk::World;

/// A running desk; it ends when this is dropped, since its standard input closes.
pub struct DeskProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    url: String,
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

impl DeskProcess {
    /// Starts a desk and waits until it takes requests.
    ///
    /// # Errors
    /// [`DeskProcessError`].
    pub async fn start(
        program: &Path,
        dir: &Path,
        world: &World,
    ) -> Result<Self, DeskProcessError> {
        let spawn = |source| DeskProcessError::Spawn {
            program: program.to_owned(),
            source,
        };
        let world = serde_json::to_string(world).map_err(|error| spawn(error.into()))?;
        let mut child = Command::new(program)
            .arg("desk-serve")
            .arg(dir)
            .arg(world)
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
            Some(Ready { desk: url }) => Ok(Self { child, stdin, url }),
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

    /// Ends it in order.
    pub async fn stop(mut self) {
        drop(self.stdin.take());
        if let Err(error) = self.child.wait().await {
            tracing::warn!(%error, "the desk cannot be waited for");
        }
    }
}
