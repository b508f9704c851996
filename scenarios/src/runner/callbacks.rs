//! The callbacks of a run's desk: where they go, which faults befall them, and waiting until all are delivered.

use std::{collections::BTreeMap, path::Path, time::Duration};

use coppice_actors::{
    callback::CallbackSecrets,
    endpoint,
    faults::{Action, Fault},
    token::TokenSigner,
};
use coppice_messages::ids::TenantId;
use coppice_store::clock;

use super::{RunError, follow::LOOK};
use crate::desk::{self, Outside, World};

/// How long the callbacks of a tree may take to be delivered once it has ended.
const DELIVERED_WAIT: Duration = Duration::from_secs(60);

/// What a desk must know to call back to the host of a data directory, for these tenants and those that its world names.
///
/// # Errors
/// The secrets cannot be read or made.
pub fn outside(data: &Path, tenant: &TenantId, world: &World) -> Result<Outside, RunError> {
    let secrets = CallbackSecrets::open(data)?;
    let named = world
        .webhooks
        .iter()
        .filter_map(|hook| hook.tenant.as_ref());
    let named = named.filter_map(|name| name.parse::<TenantId>().ok());
    let of = |tenant: TenantId| (tenant.to_string(), secrets.of(&tenant).text().to_owned());
    let secrets: BTreeMap<_, _> = named.chain([tenant.clone()]).map(of).collect();
    // The desk is a process with a directory of its own.
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    Ok(Outside {
        endpoint: data.join(endpoint::FILE),
        secrets,
        tool_key: Some(TokenSigner::open(&data)?.key().text()),
    })
}

/// The world with what faults do to its callbacks.
pub(super) fn with_faults(world: &World, faults: &[Fault]) -> World {
    let mut world = world.clone();
    for fault in faults.iter().filter(|fault| fault.is_of_callbacks()) {
        for hook in &mut world.webhooks {
            match fault.action() {
                Action::Duplicate => hook.times = hook.times.max(fault.times()),
                Action::Delay(span) => hook.delay_ms = hook.delay_ms.max(span.0),
                Action::Drop => hook.lost = hook.lost.max(fault.times()),
                Action::KillHost | Action::KillActor | Action::Panic => {}
            }
        }
    }
    world
}

/// Lets go what waits for the end of the tree, and waits until everything is delivered. What never is, the verdict says.
pub(super) async fn delivered(url: &str, world: &World) -> Result<(), RunError> {
    if world.webhooks.is_empty() {
        return Ok(());
    }
    desk::tree_ended(url).await?;
    let from = clock::mono();
    while from.elapsed() < DELIVERED_WAIT {
        let witness = desk::witness(url).await?;
        if witness.callbacks.iter().all(|delivery| delivery.over) {
            break;
        }
        clock::pause(LOOK).await;
    }
    Ok(())
}
