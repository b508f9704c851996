//! The feed as a client sees it. It may miss events, over a restart of the host or because it is slow; `tail` has them.

use async_nats::{Client, Subscriber};
use coppice_messages::ids::TenantId;
use coppice_store::Realm;
use futures::StreamExt as _;

use super::{EventFilter, EventView};

/// Recorded events, live.
pub struct Feed {
    messages: Subscriber,
    filter: EventFilter,
}

impl Feed {
    pub(super) async fn subscribe(
        client: &Client,
        realm: &Realm,
        tenant: &TenantId,
        filter: &EventFilter,
    ) -> Result<Self, String> {
        // A pattern is for the filter; a subject has it only when it is one kind.
        let kind = filter.kind.as_deref().filter(|kind| !kind.contains('*'));
        let subject = realm.events(tenant, filter.tree.as_ref(), filter.run.as_ref(), kind);
        let messages = client.subscribe(subject).await.map_err(|e| e.to_string())?;
        // From here on the server has it before everything that this client sends later.
        client.flush().await.map_err(|e| e.to_string())?;
        Ok(Self {
            messages,
            filter: filter.clone(),
        })
    }

    /// The next event; none when the connection is closed for good.
    pub async fn next(&mut self) -> Option<EventView> {
        loop {
            let message = self.messages.next().await?;
            let event: EventView = match serde_json::from_slice(&message.payload) {
                Ok(event) => event,
                Err(error) => {
                    tracing::warn!(%error, "an event on the feed cannot be read");
                    continue;
                }
            };
            if self.filter.takes(&event.tree, &event.run, &event.kind) {
                return Some(event);
            }
        }
    }
}
