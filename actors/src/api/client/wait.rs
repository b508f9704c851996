//! Waiting for the end of a run, through every restart of its host.

use coppice_messages::ids::{RunId, TenantId};
use coppice_store::clock;

use super::{ApiClient, ClientError};
use crate::{
    api::{EventFilter, RunView},
    limits::{AGAIN_FIRST, AGAIN_LONGEST, LOOK_AGAIN},
};

/// What became of a host while something was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostIs {
    /// It does not answer.
    Gone,
    /// It, or another one, answers again.
    Back,
}

impl ApiClient {
    /// Waits until a run has ended, however often its host is started again meanwhile, and returns it.
    ///
    /// # Errors
    /// One that does not pass, such as an unknown run.
    pub async fn wait_ended(&self, tenant: &TenantId, run: &RunId) -> Result<RunView, ClientError> {
        self.wait_ended_telling(tenant, run, |_| {}).await
    }

    /// The same, telling when the host is gone and when there is one again.
    ///
    /// # Errors
    /// [`ClientError`] that waiting does not help against.
    pub async fn wait_ended_telling(
        &self,
        tenant: &TenantId,
        run: &RunId,
        mut tell: impl FnMut(HostIs),
    ) -> Result<RunView, ClientError> {
        let filter = EventFilter {
            run: Some(run.clone()),
            kind: Some("run.ended".to_owned()),
            ..EventFilter::default()
        };
        let mut attempt = 0;
        loop {
            match self.wait_once(tenant, run, &filter).await {
                Ok(found) => {
                    if attempt > 0 {
                        tell(HostIs::Back);
                    }
                    attempt = 0;
                    if let Some(view) = found {
                        return Ok(view);
                    }
                }
                Err(error) if error.is_passing() => {
                    if attempt == 0 {
                        tell(HostIs::Gone);
                    }
                    clock::pause(clock::backoff(attempt, AGAIN_FIRST, AGAIN_LONGEST)).await;
                    attempt += 1;
                    self.find_again().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the feed's word, or for a while: a feed over which a host was restarted may have missed it.
    async fn wait_once(
        &self,
        tenant: &TenantId,
        run: &RunId,
        filter: &EventFilter,
    ) -> Result<Option<RunView>, ClientError> {
        let mut feed = self.feed(tenant, filter).await?;
        let view = self.get(tenant, run).await?;
        if view.ended.is_some() {
            return Ok(Some(view));
        }
        tokio::select! {
            _ = feed.next() => {}
            () = clock::pause(LOOK_AGAIN) => {}
        }
        let view = self.get(tenant, run).await?;
        Ok(view.ended.is_some().then_some(view))
    }
}
