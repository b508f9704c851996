//! The smallest host: a program that embeds the store.
//!
//!     cargo run -p coppice-store --example store_host -- DIRECTORY
//!
//! With `busy` behind the directory it goes on to record facts of 30 KB each until it is killed, and prints the position of each.
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
        let fact = started(&host, env!("CARGO_PKG_VERSION").to_owned());
        let pos = store.system_event(TenantId::host(), fact).await?;
        let server = store.nats_server_pid().await.unwrap_or_default();
        println!("{pos} {server}");
        if arguments.next().is_some_and(|word| word == "busy") {
            record_without_end(&store, &host).await?;
        }
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
        store.close().await;
        Ok(ExitCode::SUCCESS)
    })
}

fn started(host: &HostId, version: String) -> system::Event {
    system::Event::HostStarted(system::HostStarted {
        host: host.clone(),
        version,
        pid: std::process::id(),
    })
}

/// Facts of eight tenants at a time, so that many are under way whenever it is killed.
async fn record_without_end(store: &Store, host: &HostId) -> Result<(), Box<dyn Error>> {
    let record = |number: u32| async move {
        let tenant: TenantId = format!("t{number}").parse()?;
        loop {
            let fact = started(host, "x".repeat(30_000));
            println!("{}", store.system_event(tenant.clone(), fact).await?);
        }
    };
    let busy = (0..8).map(record);
    let ended: Result<Vec<()>, Box<dyn Error>> = futures::future::try_join_all(busy).await;
    ended.map(drop)
}
