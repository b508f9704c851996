//! `coppice env`: how any NATS client connects to the living host's bus.

use coppice_actors::endpoint::{Access, Endpoint, OPERATOR, WATCHER};
use serde_json::json;

use crate::{
    args::{Common, EnvArgs},
    data,
    failure::{Failure, Problem},
    out, reach,
};

/// `coppice env`
pub async fn env(args: &EnvArgs, common: &Common) -> Result<(), Failure> {
    let data = data::to_read(common.data.as_deref())?;
    let endpoint = Endpoint::read(&data)
        .map_err(|error| Failure::Environment(Problem::of(&error).help("start one: coppice up")))?;
    if reach::alive(&data).await.is_none() {
        let message = format!("the host of {} does not answer", data.display());
        return Err(Failure::Environment(
            Problem::new(message).help("start one: coppice up"),
        ));
    }
    let role = if args.operator { OPERATOR } else { WATCHER };
    let access = endpoint.roles.get(role).cloned().unwrap_or_default();
    let url = with_user(&endpoint.nats_url, &access);
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
