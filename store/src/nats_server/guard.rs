//! The guard: a small process between the host and nats-server. It holds a pipe from the host (its standard input) and ends nats-server when
//! the pipe closes, so nats-server never outlives a SIGKILL of the host. A parent-death signal would follow the thread that spawned, and
//! macOS has none.
//!
//! It also holds the lock on the server's store, which nats-server itself does not have; a new guard waits for it. The lock is handed to
//! nats-server as its standard input: so it lasts until both are gone, even when the guard is killed. A nats-server that is left over then is
//! ended by the next guard: whoever starts one owns the data directory, so no other host can be using that server.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel},
};

use crate::limits::{GUARD_TICK, SERVER_STOP_WAIT};

/// The guard's arguments, in the order in which [`guard_main`] takes them.
pub(super) fn arguments(server: &Path, config: &Path, directory: &Path) -> [OsString; 3] {
    [server.into(), config.into(), directory.into()]
}

/// Name of the file in the server's directory whose lock is that of the store.
pub(super) const LOCK_FILE: &str = "store.lock";

/// How many ticks nats-server has to end when it is asked to.
const STOP_TICKS: u128 = SERVER_STOP_WAIT.as_millis() / GUARD_TICK.as_millis();

/// Name of the file in the server's directory that holds the process id of nats-server.
pub(super) const PID_FILE: &str = "nats-server.pid";

/// Runs the guard until the host or nats-server ends. `arguments` are those after the name of the hidden subcommand.
///
/// The program that opens a store calls this when it is started with that subcommand, before anything else.
pub fn guard_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<PathBuf> = arguments.into_iter().map(PathBuf::from).collect();
    let [server, config, directory] = arguments.as_slice() else {
        say(format_args!(
            "coppice's guard takes three arguments: nats-server, its configuration, its directory"
        ));
        return ExitCode::from(2);
    };
    match guard(server, config, directory) {
        Ok(code) => code,
        Err(error) => {
            say(format_args!(
                "coppice's guard of {}: {error}",
                server.display()
            ));
            ExitCode::from(3)
        }
    }
}

/// Into the server's log, which a full disk may not take.
fn say(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{what}");
}

fn guard(server: &Path, config: &Path, directory: &Path) -> io::Result<ExitCode> {
    let host = watch_host();
    let Some(lock) = lock_store(directory, &host)? else {
        return Ok(ExitCode::SUCCESS);
    };
    // From here on the file names a process that uses the store, or is not there.
    let pid_file = directory.join(PID_FILE);
    let _ = fs::remove_file(&pid_file);
    let mut child = Command::new(server)
        .arg("-c")
        .arg(config)
        .stdin(Stdio::from(lock.try_clone()?))
        .spawn()?;
    if let Err(error) = fs::write(&pid_file, child.id().to_string()) {
        // On a full disk, say. Without the file nobody could end it once this guard is gone.
        end(&mut child)?;
        return Err(error);
    }
    let code = loop {
        match host.recv_timeout(GUARD_TICK) {
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    say(format_args!("nats-server ended by itself: {status}"));
                    break ExitCode::FAILURE;
                }
            }
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                end(&mut child)?;
                break ExitCode::SUCCESS;
            }
        }
    };
    let _ = fs::remove_file(&pid_file);
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

/// Waits for the lock of the store; none when the host is gone before, and nothing is left over that would have to be ended first.
fn lock_store(directory: &Path, host: &Receiver<()>) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(LOCK_FILE))?;
    let (_open, never) = channel::<()>();
    for tick in 0..u128::MAX {
        let free = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        let host_gone = host.try_recv() == Err(TryRecvError::Disconnected);
        match (free, host_gone) {
            (true, false) => return Ok(Some(file)),
            (true, true) => return Ok(None),
            (false, gone) => {
                let known = end_leftover(directory, tick);
                if gone && (!known || tick > 2 * STOP_TICKS) {
                    return Ok(None);
                }
            }
        }
        let _ = never.recv_timeout(GUARD_TICK);
    }
    Ok(None)
}

/// Asks the nats-server of an earlier guard to end, and later kills it; whether it is known. Its guard, if there is one, is doing the same.
fn end_leftover(directory: &Path, tick: u128) -> bool {
    let named = fs::read_to_string(directory.join(PID_FILE)).unwrap_or_default();
    let Ok(process) = named.parse() else {
        return false;
    };
    if tick == 0 {
        signal(process, libc::SIGTERM);
    } else if tick == STOP_TICKS {
        signal(process, libc::SIGKILL);
    }
    true
}

/// Asks nats-server to end, and kills it when it does not.
fn end(child: &mut Child) -> io::Result<()> {
    signal(child.id(), libc::SIGTERM);
    // Nothing is ever sent here: the wait is the tick.
    let (_open, never) = channel::<()>();
    for _ in 0..STOP_TICKS {
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
fn signal(process: u32, signal: libc::c_int) {
    // 0 and 1 would be this group and the system's first process: nobody's child.
    if let Ok(process) = libc::pid_t::try_from(process)
        && process > 1
    {
        // SAFETY: only sends a signal. The process is a child that was not yet waited for, or holds the lock that this guard waits for, so its
        // id is still its own.
        unsafe {
            libc::kill(process, signal);
        }
    }
}
