//! The smallest host: a program that embeds the store.
//!
//!     cargo run -p coppice-store --example store_host -- DIRECTORY
//!
//! It opens the store, which starts a private nats-server under a guard, says so in the tenant's system chain, and prints one line: the position
//! of that fact and the process id of nats-server. It ends in order when its standard input ends. Killed in whatever way, it takes nats-server
//! with it, because the guard, which is this same program, notices.

use std::{error::Error, io::Read as _, process::ExitCode};

use coppice_messages::{
    event::system,
    ids::{HostId, TenantId},
};
use coppice_store::{BusOptions, GuardCommand, Options, Store, guard_main};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments
        .next()
        .ok_or("give the data directory as the only argument")?;
    if first == "nats-guard" {
        return Ok(guard_main(arguments));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let host: HostId = format!("host-{}", std::process::id()).parse()?;
        let guard = GuardCommand::this_program()?;
        let options = Options::new(first, host.clone(), BusOptions::Private { guard });
        let store = Store::open(options).await?;
        let fact = system::Event::HostStarted(system::HostStarted {
            host,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        });
        let pos = store.system_event(TenantId::host(), fact).await?;
        let server = store.nats_server_pid().await.unwrap_or_default();
        println!("{pos} {server}");
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
        store.close().await;
        Ok(ExitCode::SUCCESS)
    })
}
