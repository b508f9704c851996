//! What stands in `endpoint.json`: how each role connects to the bus, and where HTTP is taken.

use coppice_messages::Timestamp;
use coppice_store::{Credentials, Role};

use crate::{
    endpoint::{Access, Endpoint, OPERATOR, WATCHER},
    services::Services,
};

pub(super) async fn endpoint(
    services: &Services,
    http_url: String,
    started_at: Timestamp,
    pid: u32,
) -> Endpoint {
    let store = &services.store;
    let operator = store.endpoint(Role::Operator).await;
    let watcher = store.endpoint(Role::Watcher).await;
    Endpoint {
        nats_url: operator.url.clone(),
        http_url,
        realm: operator.realm.to_string(),
        host: services.host.clone(),
        pid,
        started_at,
        roles: [
            (OPERATOR.to_owned(), access(operator)),
            (WATCHER.to_owned(), access(watcher)),
        ]
        .into(),
    }
}

fn access(endpoint: coppice_store::Endpoint) -> Access {
    let (user, password, credentials_file) = match endpoint.credentials {
        Credentials::None => (None, None, None),
        Credentials::Password { user, password } => (Some(user), Some(password), None),
        Credentials::File(file) => (None, None, Some(file)),
    };
    Access {
        user,
        password,
        credentials_file,
        inbox_prefix: endpoint.inbox_prefix,
    }
}
