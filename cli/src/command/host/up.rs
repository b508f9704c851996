//! `coppice up`: a host until Ctrl-C, started again when it crashes.

use std::path::Path;

use coppice_actors::host::{HostOptions, HttpChoice};
use coppice_messages::ids::TenantId;
use coppice_scenarios::{
    desk::World,
    runner::{DESK, Hosted},
};
use coppice_store::{
    DataDir, Log,
    log::{RowFilter, RowState},
};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{desk_gone, endpoints, host_failed};
use crate::{
    args::{Common, UpArgs},
    command::run::{bus, invoked, program},
    data,
    failure::Failure,
    live,
    memo::Memo,
    out, reach,
};

/// `coppice up`
pub async fn up(args: &UpArgs, common: &Common) -> Result<(), Failure> {
    let data = data::of_up(common.data.as_deref());
    DataDir::check_place(&data).map_err(|error| reach::unusable(&error))?;
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
    options.bus = bus(&args.bus)?;
    options.http = args.http.map_or(HttpChoice::Usual, HttpChoice::At);
    options.endpoints = endpoints;
    options.policies.clone_from(&args.policies);
    options.credentials = args.credentials.iter().cloned().collect();
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
    if common.json {
        out::json(&json!({ "data": data.display().to_string(), "host": status }))?;
    } else {
        let has_desk = desk.is_some() || args.endpoints.iter().any(|(name, _)| name == "desk");
        out::line(hint(&data, common, status.pid, has_desk))?;
        if let Some(desk) = &desk {
            out::line(format!(
                "the desk is at {}, as {{desk}}: it belongs to this directory, and comes up with it",
                desk.url()
            ))?;
        }
    }
    let mut restarts = host.restarts();
    let gone = loop {
        tokio::select! {
            gone = host.gone() => break Some(host_failed(&gone)),
            gone = desk_gone(desk.as_ref()) => break Some(gone),
            _interrupted = interrupt.recv() => break None,
            _terminated = terminate.recv() => break None,
            now = host.restarted(restarts) => {
                restarts = now;
                eprintln!("{}", live::restarted(restarts));
            }
        }
    };
    host.stop().await;
    if let Some(desk) = desk {
        desk.stop().await;
    }
    if let Some(gone) = gone {
        return Err(gone);
    }
    eprintln!("{}", stopped(&data));
    Ok(())
}

/// What can be done now, in another terminal.
fn hint(data: &Path, common: &Common, process: u32, has_desk: bool) -> String {
    let (shown, program) = (data.display(), invoked());
    let chosen = match &common.data {
        Some(_) => format!(" --data {shown}"),
        None => String::new(),
    };
    // Without a desk the library's topologies would be refused here.
    let submit = if has_desk {
        "submit incident-comparison --input '{\"request_id\": \"hello-1\", \"incidents\": [\"incident_104\"]}' --wait"
    } else {
        "submit TOPOLOGY --input JSON --wait"
    };
    format!(
        "the host is up in {shown} (process {process}); Ctrl-C stops it. In another terminal:\n  \
         {program} {submit}{chosen}\n  {program} status{chosen}\n  {program} events --follow{chosen}"
    )
}

/// That the host stopped, and what is left to do.
fn stopped(data: &Path) -> String {
    let open = RowFilter {
        state: Some(RowState::Open),
        ..RowFilter::default()
    };
    let Ok(log) = Log::open(data) else {
        return "stopped".to_owned();
    };
    let rows = log.reader().rows(open).filter_map(Result::ok);
    match rows.filter(|row| row.parent.is_none()).count() {
        0 => "stopped; no tree is unfinished".to_owned(),
        1 => "stopped; 1 tree is unfinished: it goes on with the next coppice up".to_owned(),
        many => {
            format!("stopped; {many} trees are unfinished: they go on with the next coppice up")
        }
    }
}

fn heard(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::environment(&error))
}
