//! The host's side of the guard: starts it, waits until nats-server answers, and starts it again on the same port when it dies.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    net::TcpStream,
    process::{Child, ChildStdin, Command},
    sync::{Notify, watch},
    task::JoinHandle,
};

use super::{
    Role, RoleCredentials, ServerError, config,
    credentials::{Kept, write_secret},
    find, guard,
};
use crate::{
    address::ServerAddress,
    clock, closing,
    limits::{
        BACKOFF_FIRST, BACKOFF_LONGEST, DISK_BYTES_LEAST, GREETING_BYTES_MAX, GUARD_TICK,
        SERVER_PORTS_TRIED, SERVER_START_WAIT,
    },
    room,
    subjects::Realm,
};

/// How the guard is started: a program that calls [`super::guard_main`] when it is given these arguments first.
#[derive(Debug, Clone)]
pub struct GuardCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl GuardCommand {
    /// A program with the arguments that lead it to [`super::guard_main`].
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    /// This program, with the hidden subcommand `nats-guard`.
    ///
    /// # Errors
    /// The system does not say which program this is.
    pub fn this_program() -> io::Result<Self> {
        Ok(Self::new(std::env::current_exe()?, ["nats-guard"]))
    }
}

/// A running private server; ended by [`ManagedServer::stop`] or with this process.
pub(crate) struct ManagedServer {
    kept: Kept,
    directory: PathBuf,
    stop: watch::Sender<bool>,
    restarter: Restarter,
    supervisor: JoinHandle<()>,
}

/// Ends the server and starts it again; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Restarter(Arc<Notify>);

impl Restarter {
    pub fn restart(&self) {
        self.0.notify_one();
    }
}

struct Starter {
    server: PathBuf,
    guard: GuardCommand,
    directory: PathBuf,
    /// How the server calls itself, and no other does.
    name: String,
    /// How long it may take until it answers.
    patience: Duration,
}

/// What a server says of itself to whoever connects.
#[derive(Deserialize)]
struct Greeting {
    server_name: String,
}

/// A guard that runs; dropping its pipe ends it.
struct Guarded {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl ManagedServer {
    /// Starts the server of a data directory.
    pub async fn start(
        directory: &Path,
        guard: GuardCommand,
        realm: &Realm,
        stream_bytes_max: u64,
    ) -> Result<Self, ServerError> {
        let server = find()?;
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| ServerError::Directory { path, source }
        };
        fs::create_dir_all(directory).map_err(at(directory))?;
        let kept_path = directory.join("credentials.json");
        let config_path = directory.join("nats.conf");
        let mut kept = Kept::load_or_make(directory, &kept_path).map_err(at(&kept_path))?;
        let starter = Starter {
            server,
            guard,
            directory: directory.to_owned(),
            name: kept.server().to_owned(),
            patience: SERVER_START_WAIT,
        };
        // Its log is that of one life of the host; who wants more keeps it.
        let _ = fs::remove_file(directory.join("nats-server.log"));
        let mut tried = 0;
        let running = loop {
            kept.port = free_port(kept.port).map_err(at(directory))?;
            kept.save(&kept_path).map_err(at(&kept_path))?;
            let text = config::text(&kept, realm, &directory.join("store"), stream_bytes_max);
            write_secret(&config_path, text.as_bytes()).map_err(at(&config_path))?;
            match starter.start_and_wait(kept.port).await {
                Ok(running) => break running,
                Err(ServerError::NotUp { server, .. } | ServerError::Silent { server, .. })
                    if room::is_short(directory, DISK_BYTES_LEAST) =>
                {
                    let directory = directory.to_owned();
                    return Err(ServerError::DiskFull { server, directory });
                }
                // Somebody may have taken the port in between: then it has ended.
                Err(ServerError::NotUp { .. }) if tried + 1 < SERVER_PORTS_TRIED => {
                    tried += 1;
                    kept.port = 0;
                }
                Err(error) => return Err(error),
            }
        };
        let (stop, stopped) = watch::channel(false);
        let restarter = Restarter::default();
        let told = (stopped, restarter.clone());
        let supervisor = tokio::spawn(starter.supervise(running, kept.port, told));
        Ok(Self {
            kept,
            directory: directory.to_owned(),
            stop,
            restarter,
            supervisor,
        })
    }

    pub fn restarter(&self) -> Restarter {
        self.restarter.clone()
    }

    pub fn url(&self) -> ServerAddress {
        ServerAddress::loopback(self.kept.port)
    }

    pub fn credentials(&self, role: Role) -> RoleCredentials {
        self.kept.of(role)
    }

    /// The process id of nats-server, while it runs.
    pub fn pid(&self) -> Option<u32> {
        let text = fs::read_to_string(self.directory.join(guard::PID_FILE)).ok()?;
        text.trim().parse().ok()
    }

    /// Ends the server and waits for its end.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if self.supervisor.await.is_err() {
            tracing::warn!("the supervisor of nats-server panicked");
        }
    }
}

impl Starter {
    fn spawn(&self) -> Result<Guarded, ServerError> {
        let log_path = self.directory.join("nats-server.log");
        let open_log = || {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(&log_path)
                .map_err(|source| ServerError::Directory {
                    path: log_path.clone(),
                    source,
                })
        };
        let mut child = Command::new(&self.guard.program)
            .args(&self.guard.arguments)
            .args(guard::arguments(
                &self.server,
                &self.directory.join("nats.conf"),
                &self.directory,
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::from(open_log()?))
            .stderr(Stdio::from(open_log()?))
            // A Ctrl-C in the terminal is for the host, which ends the server in order.
            .process_group(0)
            .spawn()
            .map_err(|source| ServerError::Guard {
                program: self.guard.program.clone(),
                source,
            })?;
        let pipe = child.stdin.take();
        Ok(Guarded { child, pipe })
    }

    async fn start_and_wait(&self, port: u16) -> Result<Guarded, ServerError> {
        let mut running = self.spawn()?;
        let answered = tokio::time::timeout(self.patience, async {
            while !greets(port, &self.name).await {
                clock::pause(GUARD_TICK).await;
            }
        });
        let answered = tokio::select! {
            answered = answered => Some(answered.is_ok()),
            _ = running.child.wait() => None,
        };
        if answered == Some(true) {
            return Ok(running);
        }
        running.end().await;
        let (server, said) = (self.server.clone(), self.last_words());
        Err(match answered {
            Some(_) => ServerError::Silent { server, said },
            None => ServerError::NotUp { server, said },
        })
    }

    /// Ends a nats-server whose guard died: a guard that is told to end at once ends it first.
    async fn sweep(&self) {
        let lock = File::open(self.directory.join(guard::LOCK_FILE)).map(|file| file.try_lock());
        if matches!(lock, Ok(Err(TryLockError::WouldBlock))) {
            match self.spawn() {
                Ok(guard) => guard.end().await,
                Err(error) => tracing::warn!(%error, "a nats-server may be left behind"),
            }
        }
    }

    /// The last lines of the server's log.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.directory.join("nats-server.log")).unwrap_or_default();
        // Its own words say why; that it ended is the guard's word, and is all there is when it said nothing.
        let (guards, own): (Vec<&str>, Vec<&str>) = log
            .lines()
            .partition(|line| line.contains("ended by itself"));
        let lines = if own.is_empty() { guards } else { own };
        let from = lines.len().saturating_sub(3);
        lines[from..].join("; ")
    }

    async fn supervise(
        self,
        mut running: Guarded,
        port: u16,
        (mut stopped, restarter): (watch::Receiver<bool>, Restarter),
    ) {
        let mut failures = 0;
        loop {
            tokio::select! {
                () = closing::told(&mut stopped) => {
                    running.end().await;
                    return self.sweep().await;
                }
                _ = running.child.wait() => {
                    tracing::warn!(said = self.last_words(), "nats-server ended: starting it again");
                }
                () = restarter.0.notified() => running.end().await,
            }
            running = loop {
                let attempt = async {
                    let wait = clock::backoff(failures, BACKOFF_FIRST, BACKOFF_LONGEST);
                    clock::pause(wait).await;
                    self.start_and_wait(port).await
                };
                let outcome = tokio::select! {
                    () = closing::told(&mut stopped) => return self.sweep().await,
                    outcome = attempt => outcome,
                };
                match outcome {
                    Ok(running) => {
                        failures = 0;
                        break running;
                    }
                    Err(error) => {
                        failures += 1;
                        tracing::error!(%error, "nats-server does not come up: trying again");
                    }
                }
            };
        }
    }
}

impl Guarded {
    async fn end(mut self) {
        drop(self.pipe.take());
        if let Err(error) = self.child.wait().await {
            tracing::warn!(%error, "the guard of nats-server cannot be waited for");
        }
    }
}

/// Whether the server of this name answers on a port. Another one may: that of a copy of the directory, say.
async fn greets(port: u16, name: &str) -> bool {
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await else {
        return false;
    };
    // It speaks first, and of itself.
    let mut first = String::new();
    let mut greeting = BufReader::new(stream.take(GREETING_BYTES_MAX));
    if greeting.read_line(&mut first).await.is_err() {
        return false;
    }
    let said = first.strip_prefix("INFO ").map(serde_json::from_str);
    matches!(said, Some(Ok(Greeting { server_name })) if server_name == name)
}

/// The port asked for when it is free, else a free one. The listener is closed again: whoever is quicker than nats-server makes it fail, and
/// another is tried.
fn free_port(asked: u16) -> io::Result<u16> {
    let listener =
        TcpListener::bind(("127.0.0.1", asked)).or_else(|_| TcpListener::bind(("127.0.0.1", 0)))?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// A guard that runs what the shell is told, whatever it is asked to guard.
    fn starter(directory: &Path, told: &str) -> Starter {
        Starter {
            server: "nats-server".into(),
            guard: GuardCommand {
                program: "/bin/sh".into(),
                arguments: vec!["-c".into(), told.into()],
            },
            directory: directory.to_owned(),
            name: "own".to_owned(),
            patience: Duration::from_millis(200),
        }
    }

    #[tokio::test]
    async fn a_server_of_another_name_on_the_port_is_not_taken_for_the_own_one() {
        let place = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let greeting = tokio::spawn(async move {
            loop {
                let (mut met, _) = listener.accept().await.unwrap();
                let said = b"INFO {\"server_name\":\"the other\",\"port\":1}\r\n";
                met.write_all(said).await.unwrap();
            }
        });
        let mut starter = starter(place.path(), "cat");
        let other = starter.start_and_wait(port).await;
        assert!(matches!(other, Err(ServerError::Silent { .. })));
        starter.name = "the other".to_owned();
        starter.patience = Duration::from_secs(30);
        let own = starter.start_and_wait(port).await.unwrap();
        own.end().await;
        greeting.abort();
    }

    #[tokio::test]
    async fn a_server_that_never_answers_is_told_from_one_that_ended() {
        let place = tempfile::tempdir().unwrap();
        let port = free_port(0).unwrap();
        let silent = starter(place.path(), "cat").start_and_wait(port).await;
        assert!(matches!(silent, Err(ServerError::Silent { .. })));
        let mut ended = starter(place.path(), "echo no luck");
        ended.patience = Duration::from_secs(30);
        let ended = ended.start_and_wait(port).await;
        assert!(matches!(ended, Err(ServerError::NotUp { said, .. }) if said.ends_with("no luck")));
    }
}
