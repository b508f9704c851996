//! Doubts that outlive the tree: they are looked up after its end, and the verdict waits for what is found.

use std::time::Duration;

use coppice_actors::api::{ApiClient, ClientError, EventFilter, TailRequest};
use coppice_messages::ids::{TenantId, TreeId};
use coppice_store::clock;

use super::{Hosted, RunError, answered, follow::LOOK};

/// How long what was in doubt at the end may take to be found out; what is not found out then, the verdict says.
const LATE_WAIT: Duration = Duration::from_secs(20);

/// Waits until every effect that a run of the tree ended in doubt about has its late result.
pub(super) async fn wait(
    host: &Hosted,
    client: &mut ApiClient,
    tenant: &TenantId,
    tree: &TreeId,
) -> Result<(), RunError> {
    let from = clock::mono();
    while from.elapsed() < LATE_WAIT {
        let all = async |client: &ApiClient| {
            let ends = of_kind(client, tenant, tree, "run.ended").await?;
            let doubts = ends.iter().filter_map(|body| body["in_doubt"].as_array());
            let doubts: usize = doubts.map(Vec::len).sum();
            if doubts == 0 {
                return Ok(true);
            }
            let late = of_kind(client, tenant, tree, "result.late").await?;
            Ok(late.len() >= doubts)
        };
        if answered(host, client, all).await? {
            break;
        }
        clock::pause(LOOK).await;
    }
    Ok(())
}

/// What the tree's events of a kind say.
async fn of_kind(
    client: &ApiClient,
    tenant: &TenantId,
    tree: &TreeId,
    kind: &str,
) -> Result<Vec<serde_json::Value>, ClientError> {
    let mut request = TailRequest {
        filter: EventFilter {
            tree: Some(tree.clone()),
            kind: Some(kind.to_owned()),
            ..EventFilter::default()
        },
        ..TailRequest::default()
    };
    let mut bodies = Vec::new();
    loop {
        let page = client.tail(tenant, &request).await?;
        bodies.extend(page.events.into_iter().map(|event| event.body));
        if page.end {
            return Ok(bodies);
        }
        request.from = page.next;
    }
}
