//! Following a tree to its end, however often its host dies meanwhile.

use std::{collections::BTreeSet, future::Future, time::Duration};

use coppice_actors::api::{
    ApiClient, ClientError, EventFilter, EventView, Feed, TailRequest, TreeRequest,
};
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

/// The deaths of a host, each said once.
#[derive(Debug, Default)]
pub struct Deaths {
    said: u32,
}

impl Deaths {
    /// Says it when the host was started again since the last look.
    pub fn look(&mut self, host: &Hosted, watcher: &mut dyn Watcher) {
        let restarts = host.restarts();
        if restarts != self.said {
            self.said = restarts;
            watcher.restarted(restarts);
        }
    }
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
    deaths: &mut Deaths,
    watcher: &mut dyn Watcher,
) -> Result<ApiClient, RunError> {
    let request = TreeRequest::now(tree.clone());
    let of_tree = EventFilter {
        tree: Some(tree.clone()),
        ..EventFilter::default()
    };
    let mut feed = client.feed(tenant, &of_tree).await.ok();
    let mut shown = 0;
    loop {
        let asked = tokio::select! {
            asked = in_time(client.tree(tenant, &request)) => asked,
            gone = host.gone() => return Err(gone.into()),
        };
        deaths.look(host, watcher);
        match asked {
            Some(Ok(frame)) => {
                if frame.position != shown {
                    shown = frame.position;
                    watcher.frame(&frame);
                }
                if has_ended(&frame) {
                    return Ok(client);
                }
                for event in news(&mut feed).await {
                    if let Some(died) = worker_died(&event, &frame) {
                        watcher.phase(&died);
                    }
                }
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

/// Waits until something was recorded, or for a while. What comes in quick succession is one picture.
async fn news(feed: &mut Option<Feed>) -> Vec<EventView> {
    let Some(open) = feed else {
        clock::pause(LOOK).await;
        return Vec::new();
    };
    let (mut events, mut patience) = (Vec::new(), SILENCE);
    let from = clock::mono();
    loop {
        match tokio::time::timeout(patience, open.next()).await {
            Ok(Some(event)) => events.push(event),
            Ok(None) => {
                *feed = None;
                return events;
            }
            Err(_) => return events,
        }
        patience = LOOK;
        if from.elapsed() > SILENCE {
            return events;
        }
    }
}

/// In words, when the actor of a child died.
fn worker_died(event: &EventView, frame: &Frame) -> Option<String> {
    if event.kind != "child.crashed" {
        return None;
    }
    let text = |name: &str| event.body.get(name).and_then(|value| value.as_str());
    let child = text("child")?;
    let known = frame.runs.iter().find(|run| run.run.as_str() == child);
    let place = known.map_or(child, |run| run.path.as_str());
    let then = match text("restart_at") {
        Some(_) => "its parent starts it again",
        None => "its parent gives it up",
    };
    let why = text("why").unwrap_or("no reason is recorded");
    Some(format!("{place} died ({why}): {then}"))
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
