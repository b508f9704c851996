//! The host in a process of its own, supervised, and a client of it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use coppice_actors::{
    api::{ApiClient, ClientError},
    host::{HostOptions, HostProcess, SuperviseOptions, SupervisedEnd, supervise_host},
};
use coppice_store::clock;

use super::follow::{LOOK, in_time};

/// Name of the file in the data directory that has what the host said.
const LOG_FILE: &str = "host.log";
/// What the host's last words begin with.
const LAST_WORDS: &str = "coppice host: ";

/// A supervised host.
pub struct Hosted {
    process: HostProcess,
    data: PathBuf,
}

/// Why a host does not run.
#[derive(Debug, thiserror::Error)]
pub enum HostedError {
    /// It said that it must not go on.
    #[error("{said}")]
    GaveUp {
        /// Its exit code: 2 bad options, 3 the environment.
        code: i32,
        /// Its last words.
        said: String,
    },
    /// Its process cannot be started.
    #[error("the host's process cannot be started: {said}")]
    Unstartable {
        /// What the system says.
        said: String,
    },
    /// There is no space for it.
    #[error(
        "a disk is full: the host needs space in {}, in its log/ and in its nats/; make some and start again", data.display()
    )]
    NoSpace {
        /// The data directory.
        data: PathBuf,
    },
    /// It stopped while it was needed.
    #[error("the host stopped by itself; see {}", log.display())]
    Stopped {
        /// What it said.
        log: PathBuf,
    },
    /// It is there and cannot be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl HostedError {
    /// Whether what was given is at fault, and not the machine.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        matches!(self, Self::GaveUp { code: 2, .. })
    }
}

impl Hosted {
    /// Starts a host that stops when this process ends.
    #[must_use]
    pub fn start(program: &Path, mut options: HostOptions) -> Self {
        options.stop_with_stdin = true;
        let data = options.data.clone();
        // Options are plain data: what cannot be written would be refused by the host with exit code 2.
        let json = serde_json::to_string(&options).unwrap_or_default();
        // A directory that cannot be made is for the host to refuse, in its own words.
        let log = fs::create_dir_all(&data).ok().map(|()| data.join(LOG_FILE));
        let process = supervise_host(SuperviseOptions {
            program: program.to_owned(),
            data: data.clone(),
            arguments: vec!["host".into(), json.into()],
            log,
        });
        Self { process, data }
    }

    /// A client, once the host answers.
    ///
    /// # Errors
    /// The host runs no more.
    pub async fn client(&self) -> Result<ApiClient, HostedError> {
        tokio::select! {
            client = self.answering() => Ok(client?),
            end = self.process.ended() => Err(self.why(end)),
        }
    }

    async fn answering(&self) -> Result<ApiClient, ClientError> {
        loop {
            match ApiClient::of_data(&self.data).await {
                Ok(client) => {
                    if let Some(Ok(_)) = in_time(client.status()).await {
                        return Ok(client);
                    }
                }
                Err(error) if error.is_passing() => {}
                Err(error) => return Err(error),
            }
            clock::pause(LOOK).await;
        }
    }

    /// How often it was started again.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.process.restarts()
    }

    /// Resolves when it was started again more often than `seen` times, with how often that is.
    pub async fn restarted(&self, seen: u32) -> u32 {
        self.process.restarted(seen).await
    }

    /// Resolves with the reason when it runs no more.
    pub async fn gone(&self) -> HostedError {
        let end = self.process.ended().await;
        self.why(end)
    }

    /// Stops it in order.
    pub async fn stop(self) {
        match self.process.stop().await {
            SupervisedEnd::Stopped => {}
            // Whoever waited for it was told why.
            end => tracing::info!(?end, "the host did not stop in order"),
        }
    }

    fn why(&self, end: SupervisedEnd) -> HostedError {
        let log = self.data.join(LOG_FILE);
        match end {
            SupervisedEnd::Unstartable { said } => HostedError::Unstartable { said },
            SupervisedEnd::Stopped => HostedError::Stopped { log },
            SupervisedEnd::NoSpace => HostedError::NoSpace {
                data: self.data.clone(),
            },
            SupervisedEnd::GaveUp { code } => {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let words = text
                    .lines()
                    .rev()
                    .find_map(|line| line.strip_prefix(LAST_WORDS));
                let said = match words {
                    Some(words) => words.to_owned(),
                    None => format!("the host ended with code {code}; see {}", log.display()),
                };
                HostedError::GaveUp { code, said }
            }
        }
    }
}
