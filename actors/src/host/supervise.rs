//! The parent of a host: starts the host's process, starts it again after a crash, and ends it.
//!
//! It is not started again when it says itself that it must not go on: after bad options, a failed fsync, messages lost before they were read. When a
//! disk was full it is started again once there is space.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use coppice_store::{clock, limits::DISK_BYTES_LEAST, room};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::watch,
    task::JoinHandle,
};

use super::ending::{Ending, Heard};
use crate::limits::{AGAIN_FIRST, AGAIN_LONGEST, HOST_STOP_WAIT, LAST_WORD_BYTES};

/// How a host's process is started.
#[derive(Debug, Clone)]
pub struct SuperviseOptions {
    /// The program; it calls [`super::host_main`] when it is given these arguments.
    pub program: PathBuf,
    /// Its arguments, which say `stop_with_stdin`.
    pub arguments: Vec<OsString>,
    /// Its data directory: a host that ended because the disk was full is started again when there is space.
    pub data: PathBuf,
    /// Where its standard error goes; absent: where this process's goes.
    pub log: Option<PathBuf>,
}

/// Why a supervised host is not running any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SupervisedEnd {
    /// It was asked to stop, or stopped in order by itself.
    Stopped,
    /// It ended with this exit code, after which it is not started again: 2 bad options, 3 the environment.
    GaveUp {
        /// The exit code.
        code: i32,
    },
    /// A disk is full, and it was not up once since it was first started: whoever starts it is to make space first.
    NoSpace,
    /// It cannot be started at all.
    Unstartable {
        /// What the system says.
        said: String,
    },
}

#[derive(Debug, Clone, Default)]
struct Known {
    pid: Option<u32>,
    restarts: u32,
    end: Option<SupervisedEnd>,
}

/// A supervised host. Dropping it lets the host stop by itself, since its standard input closes.
pub struct HostProcess {
    known: watch::Receiver<Known>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Starts a host's process and sees to it that it runs, in the background.
#[must_use]
pub fn supervise_host(options: SuperviseOptions) -> HostProcess {
    let (say, known) = watch::channel(Known::default());
    let (stop, stopping) = watch::channel(false);
    let task = tokio::spawn(supervise(options, say, stopping));
    HostProcess { known, stop, task }
}

impl HostProcess {
    /// The process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.known.borrow().pid
    }

    /// How often it was started again.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.known.borrow().restarts
    }

    /// Resolves when it was started again more often than `seen` times, with how often that is.
    pub async fn restarted(&self, seen: u32) -> u32 {
        let mut known = self.known.clone();
        match known.wait_for(|known| known.restarts > seen).await {
            Ok(known) => known.restarts,
            // It runs no more, which `ended` says.
            Err(_) => std::future::pending().await,
        }
    }

    /// Resolves when it runs no more and is not started again.
    pub async fn ended(&self) -> SupervisedEnd {
        let mut known = self.known.clone();
        let found = known.wait_for(|known| known.end.is_some()).await;
        found
            .ok()
            .and_then(|known| known.end.clone())
            .unwrap_or(SupervisedEnd::Stopped)
    }

    /// Stops the host in order and waits for its end.
    pub async fn stop(self) -> SupervisedEnd {
        self.stop.send_replace(true);
        let end = self.ended().await;
        if self.task.await.is_err() {
            tracing::warn!("the supervisor of the host panicked");
        }
        end
    }
}

async fn supervise(
    options: SuperviseOptions,
    say: watch::Sender<Known>,
    mut stopping: watch::Receiver<bool>,
) {
    let (mut crashes, mut was_up) = (0, false);
    let end = loop {
        let started = clock::mono();
        let mut child = match spawn(&options) {
            Ok(child) => child,
            Err(error) => {
                break SupervisedEnd::Unstartable {
                    said: error.to_string(),
                };
            }
        };
        say.send_modify(|known| known.pid = child.id());
        // Held here: waiting for a child closes the standard input that it still has, with which this one would stop.
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let (status, asked) = tokio::select! {
            status = child.wait() => (status, false),
            () = asked_to_stop(&mut stopping) => (stop(&mut child, stdin).await, true),
        };
        say.send_modify(|known| known.pid = None);
        let told = heard(stdout).await;
        was_up |= told.was_up;
        if asked {
            break SupervisedEnd::Stopped;
        }
        match status.map(|status| (status.code(), status)) {
            Ok((Some(0), _)) => break SupervisedEnd::Stopped,
            Ok((Some(3), _)) if needs_space(told, &options.data) => {
                if !was_up {
                    break SupervisedEnd::NoSpace;
                }
                tracing::warn!(
                    data = %options.data.display(),
                    "a disk is full: the host is started again when there is space"
                );
                tokio::select! {
                    () = space(&options.data) => {}
                    () = asked_to_stop(&mut stopping) => break SupervisedEnd::Stopped,
                }
            }
            Ok((Some(code @ (2 | 3)), _)) => break SupervisedEnd::GaveUp { code },
            Ok((_, status)) => tracing::warn!(%status, "the host crashed: starting it again"),
            Err(error) => {
                tracing::warn!(%error, "the host cannot be waited for: starting it again")
            }
        }
        // One that ran for a while has earned a quick restart.
        crashes = if started.elapsed() > EARNED {
            0
        } else {
            crashes + 1
        };
        let wait = clock::backoff(crashes, AGAIN_FIRST, AGAIN_LONGEST);
        tokio::select! {
            () = clock::pause(wait) => {}
            () = asked_to_stop(&mut stopping) => break SupervisedEnd::Stopped,
        }
        say.send_modify(|known| known.restarts += 1);
    };
    say.send_modify(|known| known.end = Some(end));
}

/// What a host told that has ended.
async fn heard(stdout: Option<ChildStdout>) -> Heard {
    let mut said = String::new();
    if let Some(stdout) = stdout {
        let mut stdout = stdout.take(LAST_WORD_BYTES);
        // One that left its standard output to somebody else is not waited for.
        let read = tokio::time::timeout(AGAIN_LONGEST, stdout.read_to_string(&mut said));
        if !matches!(read.await, Ok(Ok(_))) {
            tracing::debug!("the host did not say why it ended");
        }
    }
    Heard::of(&said)
}

/// Whether space is what a host needs that ended with exit code 3: it said so, or it did not say what else it was and a disk is full. After a
/// failed fsync it is not started again, however full the disk is.
fn needs_space(heard: Heard, data: &Path) -> bool {
    match heard.ending {
        Ending::DiskFull => true,
        Ending::LogWrite => false,
        Ending::Other => is_full(data),
    }
}

/// Whether there is hardly any space on one of the disks that hold the log, the stream and what lies beside them.
fn is_full(data: &Path) -> bool {
    let disks = [data.to_owned(), data.join("log"), data.join("nats")];
    disks
        .iter()
        .any(|disk| room::is_short(disk, DISK_BYTES_LEAST))
}

async fn space(data: &Path) {
    while is_full(data) {
        clock::pause(AGAIN_LONGEST).await;
    }
}

/// A host that ran for this long did not crash because of how it was started.
const EARNED: Duration = Duration::from_secs(5);

/// Resolves when the host is to stop, also because whoever supervised it is gone.
async fn asked_to_stop(stopping: &mut watch::Receiver<bool>) {
    // An error means that the handle was dropped.
    let _ = stopping.wait_for(|stop| *stop).await;
}

fn spawn(options: &SuperviseOptions) -> io::Result<Child> {
    let stderr = match &options.log {
        Some(path) => Stdio::from(
            std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)?,
        ),
        None => Stdio::inherit(),
    };
    Command::new(&options.program)
        .args(&options.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        // A Ctrl-C in the terminal is for whoever supervises, which stops the host in order.
        .process_group(0)
        .spawn()
}

/// Closes the host's standard input, which it stops with; kills it when it does not end.
async fn stop(child: &mut Child, stdin: Option<ChildStdin>) -> io::Result<ExitStatus> {
    drop(stdin);
    if let Ok(status) = tokio::time::timeout(HOST_STOP_WAIT, child.wait()).await {
        return status;
    }
    tracing::warn!("the host does not stop: killing it");
    child.kill().await?;
    child.wait().await
}
