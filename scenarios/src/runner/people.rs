//! The people of a scenario: who does what when something happens in the tree.

use coppice_actors::api::{
    ApiClient, CancelRequest, ClientError, EventFilter, SignalRequest, TailRequest, TreeRequest,
};
use coppice_messages::ids::{RunId, TenantId, TreeId};
use coppice_store::clock;
use futures::future::try_join_all;

use super::{Hosted, RunError, follow::LOOK};
use crate::scenario::{Deed, EventKind, On, Person};

/// Who the people of scenarios are, in the log.
pub(crate) const BY: &str = "user:coppice-run";

/// Each does what the scenario says, once what they wait for has come; however often the host dies meanwhile.
pub(super) async fn act(
    host: &Hosted,
    tenant: &TenantId,
    tree: &TreeId,
    people: &[Person],
) -> Result<(), RunError> {
    let each = (1..).zip(people).map(|(nth, person)| {
        let acting = Acting {
            tenant,
            tree,
            person,
            nth,
        };
        async move { acting.act(host).await }
    });
    try_join_all(each).await.map(drop)
}

/// One of them.
struct Acting<'a> {
    tenant: &'a TenantId,
    tree: &'a TreeId,
    person: &'a Person,
    nth: u32,
}

impl Acting<'_> {
    async fn act(&self, host: &Hosted) -> Result<(), RunError> {
        if let On::After(span) = &self.person.event {
            clock::pause(std::time::Duration::from_millis(span.0)).await;
        }
        let mut client = host.client().await?;
        let mut done = 0;
        while done < self.person.times {
            match self.once(&client).await {
                Ok(true) => done += 1,
                Ok(false) => clock::pause(LOOK).await,
                Err(error) if error.is_passing() => client = host.client().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether what the person waits for has come, and they did their deed.
    async fn once(&self, client: &ApiClient) -> Result<bool, ClientError> {
        let Some(run) = self.run(client).await? else {
            return Ok(false);
        };
        if let On::Event(kind) = &self.person.event
            && !self.has_come(client, kind, &run).await?
        {
            return Ok(false);
        }
        match &self.person.deed {
            Deed::Signal(signal) => {
                let request = SignalRequest {
                    run,
                    name: signal.name.clone(),
                    id: format!("person-{}", self.nth),
                    value: signal.value.clone(),
                };
                client.signal(self.tenant, &request).await?;
            }
            Deed::Cancel => {
                let request = CancelRequest {
                    run,
                    why: format!("the scenario says so at {}", self.person.event),
                    by: BY.to_owned(),
                };
                client.cancel(self.tenant, &request).await?;
            }
        }
        Ok(true)
    }

    /// The run that it is done to, once it is there.
    async fn run(&self, client: &ApiClient) -> Result<Option<RunId>, ClientError> {
        let Some(place) = &self.person.place else {
            return Ok(Some(self.tree.root()));
        };
        let request = TreeRequest::now(self.tree.clone());
        let frame = client.tree(self.tenant, &request).await?;
        let found = frame.runs.into_iter().find(|run| run.path == *place);
        Ok(found.map(|run| run.run))
    }

    async fn has_come(
        &self,
        client: &ApiClient,
        kind: &EventKind,
        run: &RunId,
    ) -> Result<bool, ClientError> {
        let mut request = TailRequest {
            filter: EventFilter {
                tree: Some(self.tree.clone()),
                run: self.person.place.as_ref().map(|_| run.clone()),
                kind: Some(kind.as_str().to_owned()),
            },
            ..TailRequest::default()
        };
        let mut seen = 0;
        loop {
            let page = client.tail(self.tenant, &request).await?;
            seen += page.events.len();
            if seen >= self.person.nth as usize || page.end {
                return Ok(seen >= self.person.nth as usize);
            }
            request.from = page.next;
        }
    }
}
