//! `coppice resume`: goes on with unfinished trees from what is recorded. What is recorded is never asked or done again.

use coppice_actors::{
    api::{ApiClient, Ended, ListRequest, RunStateFilter},
    host::{HostOptions, HttpChoice},
};
use coppice_messages::ids::{RunId, TenantId};
use coppice_scenarios::runner::{Hosted, POLICIES};
use serde_json::json;

use super::{
    desk_gone, endpoints, host_failed,
    submit::{said, succeeded},
    wait_ended,
};
use crate::{
    args::{Common, ResumeArgs},
    command::run::program,
    failure::Failure,
    out,
    reach::{Reach, Way},
};

/// `coppice resume`
pub async fn resume(args: &ResumeArgs, common: &Common) -> Result<(), Failure> {
    let reach = Reach::open(common).await?;
    let data = reach.data.clone();
    let tenant = reach.tenant(args.tenant.as_ref());
    let unfinished = unfinished(&reach, &tenant, args).await?;
    if unfinished.is_empty() {
        return ended(&[], common);
    }
    if let Way::Host(client) = &reach.way {
        return wait(client, &tenant, &unfinished, common).await;
    }
    // Gives the directory to the host.
    drop(reach);
    let program = program()?;
    let (endpoints, desk) = endpoints(&program, &data, &args.endpoints, None).await?;
    let mut options = HostOptions::new(&data);
    options.endpoints = endpoints;
    let of_run = || Some(data.join(POLICIES)).filter(|place| place.is_dir());
    options.policies = args.policies.clone().or_else(of_run);
    // A tree that goes on may wait for a callback.
    options.http = HttpChoice::Usual;
    let host = Hosted::start(&program, options);
    let waited = async {
        let client = host.client().await.map_err(|error| host_failed(&error))?;
        tokio::select! {
            waited = wait(&client, &tenant, &unfinished, common) => waited,
            gone = host.gone() => Err(host_failed(&gone)),
            gone = desk_gone(desk.as_ref()) => Err(gone),
        }
    };
    let waited = waited.await;
    host.stop().await;
    if let Some(desk) = desk {
        desk.stop().await;
    }
    waited
}

async fn unfinished(
    reach: &Reach,
    tenant: &TenantId,
    args: &ResumeArgs,
) -> Result<Vec<RunId>, Failure> {
    if let Some(tree) = &args.tree {
        let view = reach.get(tenant, &tree.root()).await?;
        return Ok(if view.ended.is_some() {
            Vec::new()
        } else {
            vec![tree.root()]
        });
    }
    let request = ListRequest {
        roots: true,
        state: Some(RunStateFilter::Open),
        ..ListRequest::default()
    };
    let open = reach.all(tenant, request).await?;
    Ok(open.into_iter().map(|row| row.run).collect())
}

async fn wait(
    client: &ApiClient,
    tenant: &TenantId,
    roots: &[RunId],
    common: &Common,
) -> Result<(), Failure> {
    // All of them go on at once; they are waited for one by one.
    for root in roots {
        eprintln!("going on with {root}");
    }
    let mut views = Vec::new();
    for root in roots {
        let view = wait_ended(client, tenant, root).await?;
        views.push((root.clone(), view.ended));
    }
    ended(&views, common)
}

fn ended(views: &[(RunId, Option<Ended>)], common: &Common) -> Result<(), Failure> {
    if common.json {
        let row = |(tree, ended): &(RunId, Option<Ended>)| {
            let reason = ended
                .as_ref()
                .map_or("open".to_owned(), |ended| ended.reason.to_string());
            json!({ "tree": tree, "reason": reason })
        };
        out::json(&views.iter().map(row).collect::<Vec<_>>())?;
    } else if views.is_empty() {
        out::line("nothing is unfinished")?;
    } else {
        for (tree, ended) in views {
            out::line(format!("{tree}: {}", said(ended.as_ref())))?;
        }
    }
    succeeded(views.iter().map(|(_, ended)| ended.as_ref()))
}
