//! The host's beat: that it lives, how far its log is, and whether the feed dropped events.

use async_nats::Client;
use coppice_messages::ids::HostId;
use serde::Serialize;
use tokio::sync::watch;

use crate::{
    bus::Bus,
    clock,
    limits::BEAT,
    recorder::{Progress, feed::Dropped},
    subjects::Realm,
};

#[derive(Serialize)]
struct Beat<'a> {
    host: &'a HostId,
    pos: u64,
    dropped: u64,
}

/// Beats for ever.
pub(super) fn run(
    (bus, realm): (&Bus, &Realm),
    host: &HostId,
    (progress, dropped): (watch::Receiver<Progress>, Dropped),
) -> impl Future<Output = ()> + Send + 'static {
    let (client, host) = (bus.client().clone(), host.clone());
    let subject = realm.beat(host.as_str());
    beat(client, subject, host, progress, dropped)
}

async fn beat(
    client: Client,
    subject: String,
    host: HostId,
    progress: watch::Receiver<Progress>,
    dropped: Dropped,
) {
    loop {
        let beat = Beat {
            host: &host,
            pos: progress.borrow().pos,
            dropped: dropped.count(),
        };
        let body = serde_json::to_vec(&beat).unwrap_or_default();
        if let Err(error) = client.publish(subject.clone(), body.into()).await {
            tracing::debug!(%error, "a beat was not sent");
        }
        clock::pause(BEAT).await;
    }
}
