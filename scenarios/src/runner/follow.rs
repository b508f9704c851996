//! Following a tree to its end, however often its host dies meanwhile.

use std::{collections::BTreeSet, future::Future, time::Duration};

use coppice_actors::api::{ApiClient, ClientError, EventFilter, Feed, TailRequest, TreeRequest};
use coppice_messages::ids::{RunId, TenantId, TreeId};
use coppice_store::clock;
use coppice_topology::tree::{Frame, State};

use super::{Hosted, RunError, Watcher};

/// Pause between two looks at something that changes by itself.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// A tree is looked at this often even when the feed is silent: a host that was killed tells nobody.
const SILENCE: Duration = Duration::from_millis(250);
/// A host that lives answers within this time.
const ANSWER: Duration = Duration::from_secs(2);

/// An answer, unless the host died while it was asked.
pub(super) async fn in_time<T>(answer: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(ANSWER, answer).await.ok()
}

/// Follows a tree to its end and shows each picture of it. Returns a client of the host as it is then.
///
/// # Errors
/// The host is gone for good, or refuses.
pub async fn follow(
    host: &Hosted,
    mut client: ApiClient,
    tenant: &TenantId,
    tree: &TreeId,
    watcher: &mut dyn Watcher,
) -> Result<ApiClient, RunError> {
    let request = TreeRequest {
        tree: tree.clone(),
        at: None,
    };
    let of_tree = EventFilter {
        tree: Some(tree.clone()),
        ..EventFilter::default()
    };
    let mut feed = client.feed(tenant, &of_tree).await.ok();
    let (mut shown, mut restarts) = (0, host.restarts());
    loop {
        let asked = tokio::select! {
            asked = in_time(client.tree(tenant, &request)) => asked,
            gone = host.gone() => return Err(gone.into()),
        };
        if host.restarts() != restarts {
            restarts = host.restarts();
            watcher.restarted(restarts);
        }
        match asked {
            Some(Ok(frame)) => {
                if frame.position != shown {
                    shown = frame.position;
                    watcher.frame(&frame);
                }
                if has_ended(&frame) {
                    return Ok(client);
                }
                news(&mut feed).await;
            }
            Some(Err(error)) if !error.is_passing() => return Err(error.into()),
            Some(Err(_)) | None => {
                client = host.client().await?;
                feed = client.feed(tenant, &of_tree).await.ok();
            }
        }
    }
}

fn has_ended(frame: &Frame) -> bool {
    let root = frame.runs.first();
    root.is_some_and(|root| root.state == State::Ended)
}

/// Waits until something was recorded, or for a while.
async fn news(feed: &mut Option<Feed>) {
    let Some(open) = feed else {
        clock::pause(LOOK).await;
        return;
    };
    match tokio::time::timeout(SILENCE, open.next()).await {
        // What comes in quick succession is one picture.
        Ok(Some(_)) => clock::pause(LOOK).await,
        Ok(None) => *feed = None,
        Err(_) => {}
    }
}

/// Addresses of the faults that stand in a tenant's system chain.
pub(super) async fn struck(
    client: &ApiClient,
    tenant: &TenantId,
) -> Result<BTreeSet<String>, ClientError> {
    let mut request = TailRequest {
        filter: EventFilter {
            run: Some(RunId::system()),
            kind: Some("fault.injected".to_owned()),
            ..EventFilter::default()
        },
        ..TailRequest::default()
    };
    let mut struck = BTreeSet::new();
    loop {
        let page = client.tail(tenant, &request).await?;
        let events = page.events.iter();
        let addresses = events.filter_map(|event| event.body.get("address"));
        struck.extend(addresses.filter_map(|address| address.as_str().map(str::to_owned)));
        if page.end {
            return Ok(struck);
        }
        request.from = page.next;
    }
}
