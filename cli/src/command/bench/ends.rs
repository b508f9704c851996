//! Hears of the ends of runs: one subscription for all of them, so that waiting costs the host nothing a run.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use coppice_actors::api::{ApiClient, EventFilter, EventView};
use coppice_messages::ids::RunId;
use coppice_store::clock;
use tokio::{sync::oneshot, task::JoinHandle};

use super::subject::tenant;
use crate::{
    failure::{Failure, Problem},
    reach,
};

/// The feed drops what it cannot deliver: after this long the host is asked.
const ASK_AFTER: Duration = Duration::from_secs(1);

type Waiting = Arc<Mutex<HashMap<RunId, oneshot::Sender<()>>>>;

/// Hears of the ends of runs.
pub struct Ends {
    client: Arc<ApiClient>,
    waiting: Waiting,
    hearing: JoinHandle<()>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.hearing.abort();
    }
}

impl Ends {
    /// Hears of every end from now on.
    pub async fn hear(client: Arc<ApiClient>) -> Result<Self, Failure> {
        let waiting = Waiting::default();
        let mut feed = events(&client, "run.ended").await?;
        let told = waiting.clone();
        let hearing = tokio::spawn(async move {
            while let Some(event) = feed.next().await {
                let mut waiting = told.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(tell) = waiting.remove(&event.run) {
                    // Whoever gave up needs no word.
                    let _ = tell.send(());
                }
            }
        });
        Ok(Self {
            client,
            waiting,
            hearing,
        })
    }

    /// The end of a run that has not ended before this is called.
    pub fn of(&self, run: &RunId) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let (tell, mut told) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(run.clone(), tell);
        let (client, run) = (self.client.clone(), run.clone());
        async move {
            loop {
                tokio::select! {
                    _ = &mut told => return Ok(()),
                    () = clock::pause(ASK_AFTER) => {}
                }
                let view = client.get(&tenant(), &run).await.map_err(reach::failed)?;
                if view.ended.is_some() {
                    return Ok(());
                }
                // A blocked run never ends.
                let status = client.status().await.map_err(reach::failed)?;
                if !status.degraded.is_empty() {
                    let message = format!("{run} does not end: {}", status.degraded.join("; "));
                    return Err(Failure::Environment(Problem::new(message)));
                }
            }
        }
    }
}

/// The feed of one kind of event, over all runs.
pub async fn events(client: &ApiClient, kind: &str) -> Result<coppice_actors::api::Feed, Failure> {
    let filter = EventFilter {
        kind: Some(kind.to_owned()),
        ..EventFilter::default()
    };
    client.feed(&tenant(), &filter).await.map_err(reach::failed)
}

/// Counts events of one kind until there are so many.
pub async fn counted(mut feed: coppice_actors::api::Feed, number: u32) {
    let mut seen = 0;
    while seen < number {
        let Some(EventView { .. }) = feed.next().await else {
            return;
        };
        seen += 1;
    }
}
