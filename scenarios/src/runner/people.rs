//! The people of a scenario: who does what when something happens in the tree.

use coppice_actors::api::{ApiClient, EventFilter, SignalRequest, TailRequest};
use coppice_messages::ids::{TenantId, TreeId};
use coppice_store::clock;

use super::{Hosted, RunError, follow::LOOK};
use crate::scenario::{Deed, Person};

/// Each does what the scenario says, once what they wait for is recorded; however often the host dies meanwhile.
pub(super) async fn act(
    host: &Hosted,
    tenant: &TenantId,
    tree: &TreeId,
    people: &[Person],
) -> Result<(), RunError> {
    for (nth, person) in (1..).zip(people) {
        let mut client = host.client().await?;
        let mut done = 0;
        while done < person.times {
            match once(&client, tenant, tree, person, nth).await {
                Ok(true) => done += 1,
                Ok(false) => clock::pause(LOOK).await,
                Err(error) if error.is_passing() => client = host.client().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Whether what the person waits for has come, and they did their deed.
async fn once(
    client: &ApiClient,
    tenant: &TenantId,
    tree: &TreeId,
    person: &Person,
    nth: u32,
) -> Result<bool, coppice_actors::api::ClientError> {
    let request = TailRequest {
        filter: EventFilter {
            tree: Some(tree.clone()),
            kind: Some(person.event.as_str().to_owned()),
            ..EventFilter::default()
        },
        ..TailRequest::default()
    };
    let page = client.tail(tenant, &request).await?;
    if page.events.is_empty() {
        return Ok(false);
    }
    match &person.deed {
        Deed::Signal(signal) => {
            let request = SignalRequest {
                run: tree.root(),
                name: signal.name.clone(),
                id: format!("person-{nth}"),
                value: signal.value.clone(),
            };
            client.signal(tenant, &request).await?;
        }
    }
    Ok(true)
}
