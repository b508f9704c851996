//! The policy set of a host: every change of it is a fact before anything is decided by it.

use std::sync::Arc;

use coppice_messages::{
    Commit, Digest, Event,
    event::system::{self, HostStarted, PolicyChanged},
    ids::{RunId, TenantId},
};
use coppice_store::{Store, SystemEventError, clock};

use super::{HostError, HostOptions};
use crate::{
    inspect::with_causes,
    limits::POLICY_POLLED,
    policy::{Changed, Policies, PolicyError},
    services::Services,
};

/// The policy set that a host is told to have.
pub(super) fn of(options: &HostOptions) -> Result<Policies, PolicyError> {
    match &options.policies {
        Some(directory) => Policies::open(directory),
        None => Ok(Policies::none()),
    }
}

/// Records that this host begins, and that it does so with another set than the last one had; the first start without a set says nothing of one.
pub(super) async fn announce(
    store: &Store,
    started: HostStarted,
    policies: &Policies,
) -> Result<(), HostError> {
    store.host_started(started).await?;
    let from = last(store)?;
    let now = policies.in_force();
    if from != now.as_ref().map(Changed::version) {
        record(store, from, now.as_ref()).await?;
    }
    Ok(())
}

/// Follows the files until the host ends.
pub(super) async fn follow(services: Arc<Services>) {
    loop {
        clock::pause(POLICY_POLLED).await;
        let policies = services.policies.clone();
        let Some(standing) = policies.standing() else {
            return;
        };
        let looked = {
            let policies = policies.clone();
            tokio::task::spawn_blocking(move || policies.look()).await
        };
        let Ok(Some(changed)) = looked else { continue };
        let (from, to) = (standing.version, changed.version());
        match record(&services.store, Some(from), Some(&changed)).await {
            Ok(()) => {
                tracing::info!(%from, %to, "another version of the policies is in force");
                policies.put(changed);
            }
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(error, "a change of the policies cannot be recorded yet");
            }
        }
    }
}

async fn record(
    store: &Store,
    from: Option<Digest>,
    to: Option<&Changed>,
) -> Result<(), SystemEventError> {
    let fact = system::Event::PolicyChanged(PolicyChanged {
        from,
        to: to.map(Changed::version),
        files: to.map(|to| to.files().clone()).unwrap_or_default(),
    });
    store.system_event(TenantId::host(), fact).await.map(drop)
}

/// The version that the host's system chain names last.
fn last(store: &Store) -> Result<Option<Digest>, HostError> {
    let mut last = None;
    for recorded in store.log().chain(&TenantId::host(), &RunId::system()) {
        // What a newer build wrote says nothing about the policies of this one.
        let Ok(commit) = Commit::decode(&recorded?.bytes) else {
            continue;
        };
        for entry in commit.events {
            if let Event::System(system::Event::PolicyChanged(changed)) = entry.event {
                last = changed.to;
            }
        }
    }
    Ok(last)
}
