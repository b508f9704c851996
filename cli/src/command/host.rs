//! Commands that need or start a host: `up`, `submit`, `resume`.

mod resume;
mod submit;
mod tell;
mod up;

use std::{collections::BTreeMap, future::pending, path::Path};

use coppice_actors::api::{ApiClient, HostIs, RunView};
use coppice_messages::ids::{RunId, TenantId};
use coppice_scenarios::{
    desk::World,
    runner::{DESK, DeskProcess, DeskProcessError, HostedError, can_be_used, outside},
};

pub use self::{
    resume::resume,
    submit::{said, submit},
    tell::{callback, cancel, signal},
    up::up,
};
use crate::{
    failure::{Failure, Problem},
    memo::Memo,
    reach::{failed, unusable},
};

fn host_failed(error: &HostedError) -> Failure {
    let problem = Problem::of(error);
    if error.is_bad_input() {
        Failure::Input(problem)
    } else {
        Failure::Environment(problem)
    }
}

/// Waits for the end of a run, and says when its host is gone meanwhile: nothing happens until there is another.
async fn wait_ended(
    client: &ApiClient,
    tenant: &TenantId,
    run: &RunId,
) -> Result<RunView, Failure> {
    let say = |host| match host {
        HostIs::Gone => eprintln!("the host is gone: waiting for the next one (coppice up)"),
        HostIs::Back => eprintln!("a host is there again: the tree goes on"),
    };
    client
        .wait_ended_telling(tenant, run, say)
        .await
        .map_err(failed)
}

/// Resolves when a desk has ended that nobody stopped.
async fn desk_gone(desk: Option<&DeskProcess>) -> Failure {
    match desk {
        Some(desk) => Failure::environment(&desk.gone().await),
        None => pending().await,
    }
}

fn desk_failed(error: &DeskProcessError) -> Failure {
    Failure::Environment(Problem::of(error))
}

/// The base URLs of tools, with the desk that belongs to the data directory, if one does.
async fn endpoints(
    program: &Path,
    data: &Path,
    given: &[(String, String)],
    wanted: Option<World>,
) -> Result<(BTreeMap<String, String>, Option<DeskProcess>), Failure> {
    can_be_used(data).map_err(|error| unusable(&error))?;
    let mut endpoints: BTreeMap<String, String> = given.iter().cloned().collect();
    let remembered = || Memo::read(data).and_then(|memo| Some((memo.desk?, memo.desk_in)));
    let wanted = wanted.map(|world| (world, DESK.into()));
    let Some((world, place)) = wanted.or_else(remembered) else {
        return Ok((endpoints, None));
    };
    if endpoints.contains_key("desk") {
        return Ok((endpoints, None));
    }
    let tenant = Memo::read(data).map_or_else(TenantId::default_tenant, |memo| memo.tenant);
    let outside = outside(data, &tenant, &world).map_err(|error| Failure::environment(&error))?;
    let desk = DeskProcess::start(program, &data.join(place), &world, &outside)
        .await
        .map_err(|error| desk_failed(&error))?;
    endpoints.insert("desk".to_owned(), desk.url().to_owned());
    Ok((endpoints, Some(desk)))
}
