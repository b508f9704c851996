//! The guard: a small process between the host and nats-server. It holds a pipe from the host (its standard input) and ends nats-server when
//! the pipe closes, so nats-server never outlives a SIGKILL of the host. A parent-death signal would follow the thread that spawned, and
//! macOS has none.
//!
//! It also holds the lock on the server's store, which nats-server itself does not have; a new guard waits for it. The lock is handed to
//! nats-server as its standard input: so it lasts until both are gone, even when the guard is killed.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
};

use crate::limits::{GUARD_TICK, SERVER_STOP_WAIT};

/// The guard's arguments, in the order in which [`guard_main`] takes them.
pub(super) fn arguments(server: &Path, config: &Path, directory: &Path) -> [OsString; 3] {
    [server.into(), config.into(), directory.into()]
}

/// Name of the file in the server's directory that holds the process id of nats-server.
pub(super) const PID_FILE: &str = "nats-server.pid";

/// Runs the guard until the host or nats-server ends. `arguments` are those after the name of the hidden subcommand.
///
/// The program that opens a store calls this when it is started with that subcommand, before anything else.
pub fn guard_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<PathBuf> = arguments.into_iter().map(PathBuf::from).collect();
    let [server, config, directory] = arguments.as_slice() else {
        eprintln!(
            "coppice's guard takes three arguments: nats-server, its configuration, its directory"
        );
        return ExitCode::from(2);
    };
    match guard(server, config, directory) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("coppice's guard of {}: {error}", server.display());
            ExitCode::from(3)
        }
    }
}

fn guard(server: &Path, config: &Path, directory: &Path) -> io::Result<ExitCode> {
    let host = watch_host();
    let Some(lock) = lock_store(directory, &host)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut child = Command::new(server)
        .arg("-c")
        .arg(config)
        .stdin(Stdio::from(lock.try_clone()?))
        .spawn()?;
    fs::write(directory.join(PID_FILE), child.id().to_string())?;
    let code = loop {
        match host.recv_timeout(GUARD_TICK) {
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    eprintln!("nats-server ended by itself: {status}");
                    break ExitCode::FAILURE;
                }
            }
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                end(&mut child)?;
                break ExitCode::SUCCESS;
            }
        }
    };
    let _ = fs::remove_file(directory.join(PID_FILE));
    drop(lock);
    Ok(code)
}

/// A channel that disconnects when the host is gone.
fn watch_host() -> Receiver<()> {
    let (alive, gone) = channel();
    std::thread::spawn(move || {
        let mut word = [0; 16];
        // The host never says anything; the pipe ends with it.
        while io::stdin().read(&mut word).is_ok_and(|read| read > 0) {}
        drop(alive);
    });
    gone
}

/// Waits for the lock of the store; none when the host is gone before.
fn lock_store(directory: &Path, host: &Receiver<()>) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join("store.lock"))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if !matches!(
            host.recv_timeout(GUARD_TICK),
            Err(RecvTimeoutError::Timeout)
        ) {
            return Ok(None);
        }
    }
}

/// Asks nats-server to end, and kills it when it does not.
fn end(child: &mut Child) -> io::Result<()> {
    terminate(child.id());
    // Nothing is ever sent here: the wait is the tick.
    let (_open, never) = channel::<()>();
    let ticks = SERVER_STOP_WAIT.as_millis() / GUARD_TICK.as_millis();
    for _ in 0..ticks {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        let _ = never.recv_timeout(GUARD_TICK);
    }
    child.kill()?;
    child.wait().map(|_| ())
}

#[expect(
    unsafe_code,
    reason = "the standard library can kill a child, but not ask it to end"
)]
fn terminate(process: u32) {
    if let Ok(process) = libc::pid_t::try_from(process) {
        // SAFETY: sends a signal to a child that was not yet waited for, so that its id is still its own.
        unsafe {
            libc::kill(process, libc::SIGTERM);
        }
    }
}
