//! The host as a process: what the hidden subcommand `host` runs.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use coppice_store::GuardCommand;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use super::{
    Host, HostError, HostOptions,
    ending::{self, Ending},
};
use crate::{broker::InProcessTools, inspect::with_causes, limits::BLOCKING_THREADS};

/// Runs a host until SIGTERM, SIGINT, the end of its standard input (where the options say so), or a fault after which it must not go on.
///
/// The program must answer to the hidden subcommand `nats-guard` with [`coppice_store::guard_main`].
///
/// Exit codes: 0 stopped in order, 2 bad options, 3 the environment is at fault.
#[must_use]
pub fn host_main(options: HostOptions) -> ExitCode {
    host_main_with_tools(options, InProcessTools::new())
}

/// The same, with functions of this program as tools.
#[must_use]
pub fn host_main_with_tools(options: HostOptions, tools: InProcessTools) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(options, tools)),
        Err(source) => Err(HostError::Runtime(source)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = with_causes(&error), "the host ends");
            // On a full disk it may not be heard there.
            let _ = writeln!(io::stderr(), "coppice host: {}", with_causes(&error));
            Ending::of(&error).say();
            ExitCode::from(error.exit_code())
        }
    }
}

async fn run(options: HostOptions, tools: InProcessTools) -> Result<(), HostError> {
    let guard = GuardCommand::this_program().map_err(HostError::Program)?;
    let stop_with_stdin = options.stop_with_stdin;
    let mut terminate = signal(SignalKind::terminate()).map_err(HostError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(HostError::Runtime)?;
    let asked = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = stdin_closed(), if stop_with_stdin => {}
        }
    };
    tokio::pin!(asked);
    let host = tokio::select! {
        host = Host::start_with_tools(options, guard, tools) => host?,
        // Nothing was promised to anybody yet; the guard ends nats-server.
        () = &mut asked => return Ok(()),
    };
    ending::say_up();
    let fatal = tokio::select! {
        () = &mut asked => None,
        fatal = host.fatal() => Some(fatal),
    };
    host.stop().await;
    match fatal {
        Some(fatal) => Err(HostError::Fatal(fatal)),
        None => Ok(()),
    }
}

/// Resolves when standard input ends. It is read by a thread of its own, which may outlive the runtime: a read cannot be cut off.
async fn stdin_closed() {
    let (tell, told) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        // What is read is of no interest; an error is an end too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(tell);
    });
    let _ = told.await;
}
