//! `coppice up`: a host until Ctrl-C, started again when it crashes.

use coppice_actors::host::{HostOptions, HttpChoice};
use coppice_messages::ids::TenantId;
use coppice_scenarios::{
    desk::World,
    runner::{DESK, Hosted},
};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{desk_gone, endpoints, host_failed};
use crate::{
    args::{Common, UpArgs},
    command::run::{bus, invoked, program},
    data,
    failure::Failure,
    memo::Memo,
    out,
};

/// `coppice up`
pub async fn up(args: &UpArgs, common: &Common) -> Result<(), Failure> {
    let data = data::of_up(common.data.as_deref());
    data::make(&data).map_err(|error| Failure::environment(&error))?;
    let program = program()?;
    let wanted = args.with_desk.then(World::default);
    if args.with_desk {
        // So that a later resume finds the desk again.
        let memo = Memo {
            tenant: TenantId::default_tenant(),
            tree: None,
            desk: wanted.clone(),
            desk_in: DESK.into(),
        };
        memo.write(&data);
    }
    let (endpoints, desk) = endpoints(&program, &data, &args.endpoints, wanted).await?;
    let mut options = HostOptions::new(&data);
    options.bus = bus(&args.bus);
    options.http = args.http.map_or(HttpChoice::Usual, HttpChoice::At);
    options.endpoints = endpoints;
    if let Some(reserve) = args.disk_reserve {
        options.disk_reserve = reserve;
    }
    let host = Hosted::start(&program, options);
    let client = host.client().await.map_err(|error| host_failed(&error))?;
    data::is_latest(&data);
    // Before it is said that the host is up: whoever reads that may stop it at once.
    let mut interrupt = heard(SignalKind::interrupt())?;
    let mut terminate = heard(SignalKind::terminate())?;
    let status = client.status().await.map_err(crate::reach::failed)?;
    let shown = data.display().to_string();
    if common.json {
        out::json(&json!({ "data": shown, "host": status }))?;
    } else {
        let chosen = common
            .data
            .as_ref()
            .map_or(String::new(), |_| format!(" --data {shown}"));
        let program = invoked();
        out::line(format!(
            "the host is up in {shown} (process {}); Ctrl-C stops it. In another terminal:\n  \
             {program} submit incident-comparison --input '{{\"request_id\": \"r-1\", \"incidents\": [\"incident_104\"]}}' --wait{chosen}\n  \
             {program} status{chosen}\n  {program} events --follow{chosen}",
            status.pid
        ))?;
    }
    let gone = tokio::select! {
        gone = host.gone() => Some(host_failed(&gone)),
        gone = desk_gone(desk.as_ref()) => Some(gone),
        _interrupted = interrupt.recv() => None,
        _terminated = terminate.recv() => None,
    };
    host.stop().await;
    if let Some(desk) = desk {
        desk.stop().await;
    }
    gone.map_or(Ok(()), Err)
}

fn heard(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::environment(&error))
}
