//! `coppice env`: how any NATS client connects to the living host's bus, and how whoever calls back over HTTP reaches it.

use std::path::Path;

use coppice_actors::{
    callback::CallbackSecrets,
    endpoint::{Access, Endpoint, OPERATOR, WATCHER},
};
use coppice_messages::ids::TenantId;
use serde_json::json;

use crate::{
    args::{Common, EnvArgs},
    data,
    failure::{Failure, Problem},
    out, reach,
};

/// `coppice env`
pub async fn env(args: &EnvArgs, common: &Common) -> Result<(), Failure> {
    let data = data::to_read(common.data.as_deref())?.path;
    let endpoint = Endpoint::of_living(&data)
        .map_err(|error| Failure::Environment(Problem::of(&error).help("start one: coppice up")))?;
    if reach::alive(&data).await.is_none() {
        let message = format!("the host of {} does not answer", data.display());
        return Err(Failure::Environment(
            Problem::new(message).help("start one: coppice up"),
        ));
    }
    if args.callbacks {
        return callbacks(args, common, &data, &endpoint);
    }
    let role = if args.operator { OPERATOR } else { WATCHER };
    let access = endpoint.roles.get(role).cloned().unwrap_or_default();
    let url = with_user(endpoint.nats_url.as_str(), &access);
    let inbox = &access.inbox_prefix;
    if args.nats_context {
        return out::json(&json!({
            "description": format!("coppice, realm {}, as {role}", endpoint.realm),
            "url": endpoint.nats_url,
            "user": access.user,
            "password": access.password,
            "creds": access.credentials_file,
            "inbox_prefix": inbox,
        }));
    }
    if common.json {
        return out::json(&json!({
            "NATS_URL": url,
            "NATS_CREDS": access.credentials_file,
            "NATS_INBOX_PREFIX": inbox,
            "COPPICE_REALM": endpoint.realm,
        }));
    }
    out::line(format!("export NATS_URL='{url}'"))?;
    if let Some(file) = &access.credentials_file {
        out::line(format!("export NATS_CREDS='{}'", file.display()))?;
    }
    out::line(format!("export NATS_INBOX_PREFIX='{inbox}'"))?;
    out::line(format!("export COPPICE_REALM='{}'", endpoint.realm))
}

/// The URL with user and password in it, as every client takes it.
fn with_user(url: &str, access: &Access) -> String {
    match (&access.user, &access.password, url.split_once("://")) {
        (Some(user), Some(password), Some((scheme, rest))) => {
            format!("{scheme}://{user}:{password}@{rest}")
        }
        _ => url.to_owned(),
    }
}

/// Where a tenant's callbacks go, and the secret that signs them.
fn callbacks(
    args: &EnvArgs,
    common: &Common,
    data: &Path,
    endpoint: &Endpoint,
) -> Result<(), Failure> {
    let tenant = args.tenant.clone().unwrap_or_else(TenantId::default_tenant);
    let secrets = CallbackSecrets::open(data).map_err(|error| Failure::environment(&error))?;
    let secret = secrets.of(&tenant);
    let url = format!("{}/callbacks/{tenant}", endpoint.http_url);
    if common.json {
        return out::json(&json!({
            "COPPICE_CALLBACK_URL": url,
            "COPPICE_CALLBACK_SECRET": secret.text(),
        }));
    }
    out::line(format!("export COPPICE_CALLBACK_URL='{url}'"))?;
    out::line(format!(
        "export COPPICE_CALLBACK_SECRET='{}'",
        secret.text()
    ))
}
