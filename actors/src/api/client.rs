//! The client of the API: finds the host, asks it, and goes on asking when the host was started again meanwhile.

mod wait;

use std::path::{Path, PathBuf};

use async_nats::{Client, ConnectOptions};
use coppice_messages::ids::{RunId, TenantId, TreeId};
use coppice_store::{InvalidRealm, Realm, ServerAddress};
use coppice_topology::tree::Frame;
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::Mutex;

pub use self::wait::HostIs;
use super::{
    ApiError, AuditReport, AuditRequest, CallbackRequest, Called, CancelRequest, Code, CopyPage,
    CopyRequest, EventFilter, Feed, GetRequest, ListReply, ListRequest, Refused, RunView,
    SignalRequest, StartRequest, Started, StatusReport, StatusRequest, TailPage, TailRequest, Told,
    TreePage, TreeRequest, Verb, VerifyReport, VerifyRequest,
};
use crate::{
    endpoint::{Access, Endpoint, EndpointError, OPERATOR},
    limits::{ANSWER_WAIT, MESSAGE_BYTES_MAX},
};

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The host cannot be found.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The endpoint has no such role.
    #[error("the endpoint of {host} has no role {role}")]
    NoRole {
        /// Which host.
        host: String,
        /// Which role.
        role: String,
    },
    /// The realm cannot be used.
    #[error(transparent)]
    Realm(#[from] InvalidRealm),
    /// The NATS credentials file cannot be read.
    #[error("the credentials file {path} cannot be read")]
    Credentials {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// Nobody answers at the address.
    #[error("cannot connect to NATS at {url}")]
    Connect {
        /// Where.
        url: ServerAddress,
        /// What the client says.
        #[source]
        source: async_nats::ConnectError,
    },
    /// NATS is there, and no host answers.
    #[error("no host answers {verb} at {url}: {said}")]
    NoAnswer {
        /// Which verb.
        verb: Verb,
        /// Where.
        url: ServerAddress,
        /// What the client says.
        said: String,
    },
    /// The feed cannot be subscribed to.
    #[error("the feed at {url} cannot be subscribed to: {said}")]
    Feed {
        /// Where.
        url: ServerAddress,
        /// What the client says.
        said: String,
    },
    /// The host refuses.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// The reply makes no sense to this build.
    #[error("the reply to {verb} is not of this build's shape: {said}")]
    Malformed {
        /// Which verb.
        verb: Verb,
        /// What the decoder says.
        said: String,
    },
}

impl ClientError {
    /// Whether the host may be about to come back, so that the same request may succeed later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Endpoint(EndpointError::NoHost { .. })
            | Self::Connect { .. }
            | Self::NoAnswer { .. }
            | Self::Feed { .. } => true,
            Self::Refused(error) => {
                matches!(
                    error.code,
                    Code::Stopping | Code::LogUnavailable | Code::Busy
                )
            }
            Self::Endpoint(_)
            | Self::NoRole { .. }
            | Self::Realm(_)
            | Self::Credentials { .. }
            | Self::Malformed { .. } => false,
        }
    }
}

/// How a host is reached that is not that of a data directory here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The NATS server.
    pub url: ServerAddress,
    /// The realm; `local` for a private server.
    pub realm: String,
    /// Who connects.
    pub access: Access,
}

/// Where the address comes from.
enum Source {
    /// `endpoint.json` of this directory, read again when nobody answers: a restarted host may be elsewhere.
    Data { data: PathBuf, role: String },
    /// Given once and for all.
    Given,
}

#[derive(Clone)]
struct Link {
    client: Client,
    realm: Realm,
    url: ServerAddress,
}

/// Asks a host.
pub struct ApiClient {
    source: Source,
    link: Mutex<Link>,
}

impl ApiClient {
    /// A client of the host of a data directory, as its operator.
    ///
    /// # Errors
    /// No host runs there, or it does not answer.
    pub async fn of_data(data: &Path) -> Result<Self, ClientError> {
        Self::of_data_as(data, OPERATOR).await
    }

    /// The same in another role.
    ///
    /// # Errors
    /// No host runs there, or it does not answer.
    pub async fn of_data_as(data: &Path, role: &str) -> Result<Self, ClientError> {
        let source = Source::Data {
            data: data.to_owned(),
            role: role.to_owned(),
        };
        let address = address_of(&Endpoint::of_living(data)?, role)?;
        Ok(Self {
            source,
            link: Mutex::new(connect(&address).await?),
        })
    }

    /// A client of a host somewhere.
    ///
    /// # Errors
    /// Nobody answers there.
    pub async fn connect(address: &Address) -> Result<Self, ClientError> {
        Ok(Self {
            source: Source::Given,
            link: Mutex::new(connect(address).await?),
        })
    }

    /// Starts a tree, or meets the one of the same key.
    ///
    /// # Errors
    /// [`ClientError`]. After one that [is passing](ClientError::is_passing) ask again with the same key.
    pub async fn start(
        &self,
        tenant: &TenantId,
        request: &StartRequest,
    ) -> Result<Started, ClientError> {
        self.ask(tenant, Verb::Start, request).await
    }

    /// One run.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get(&self, tenant: &TenantId, run: &RunId) -> Result<RunView, ClientError> {
        let request = GetRequest { run: run.clone() };
        self.ask(tenant, Verb::Get, &request).await
    }

    /// A page of runs.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn list(
        &self,
        tenant: &TenantId,
        request: &ListRequest,
    ) -> Result<ListReply, ClientError> {
        self.ask(tenant, Verb::List, request).await
    }

    /// The ownership tree, with all its runs at one position of the log.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn tree(
        &self,
        tenant: &TenantId,
        request: &TreeRequest,
    ) -> Result<Frame, ClientError> {
        let TreePage { mut frame, next } = self.ask(tenant, Verb::Tree, request).await?;
        let mut next = next;
        while let Some(from) = next {
            let further = TreeRequest {
                at: Some(frame.position),
                from,
                ..request.clone()
            };
            let page: TreePage = self.ask(tenant, Verb::Tree, &further).await?;
            frame.runs.extend(page.frame.runs);
            next = page.next;
        }
        Ok(frame)
    }

    /// A page of events.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn tail(
        &self,
        tenant: &TenantId,
        request: &TailRequest,
    ) -> Result<TailPage, ClientError> {
        self.ask(tenant, Verb::Tail, request).await
    }

    /// Whether the log is whole, and agrees with the stream and the living host.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn verify(
        &self,
        tenant: &TenantId,
        request: &VerifyRequest,
    ) -> Result<VerifyReport, ClientError> {
        self.ask(tenant, Verb::Verify, request).await
    }

    /// Whether a tree kept the laws.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn audit(
        &self,
        tenant: &TenantId,
        tree: &TreeId,
    ) -> Result<AuditReport, ClientError> {
        let request = AuditRequest { tree: tree.clone() };
        self.ask(tenant, Verb::Audit, &request).await
    }

    /// Stops a run and everything below it; back once that is recorded.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn cancel(
        &self,
        tenant: &TenantId,
        request: &CancelRequest,
    ) -> Result<Told, ClientError> {
        self.ask(tenant, Verb::Cancel, request).await
    }

    /// Tells a run something that it may wait for; back once that is recorded.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn signal(
        &self,
        tenant: &TenantId,
        request: &SignalRequest,
    ) -> Result<Told, ClientError> {
        self.ask(tenant, Verb::Signal, request).await
    }

    /// A page of an archive.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn copy(
        &self,
        tenant: &TenantId,
        request: &CopyRequest,
    ) -> Result<CopyPage, ClientError> {
        self.ask(tenant, Verb::Copy, request).await
    }

    /// Hands over what the outside says of a write; back once that is recorded.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn callback(
        &self,
        tenant: &TenantId,
        request: &CallbackRequest,
    ) -> Result<Called, ClientError> {
        self.ask(tenant, Verb::Callback, request).await
    }

    /// How the host is.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn status(&self) -> Result<StatusReport, ClientError> {
        let tenant = TenantId::default_tenant();
        self.ask(&tenant, Verb::Status, &StatusRequest {}).await
    }

    /// The feed from now on. What it misses, over a restart of the host or because it is slow, is had with [`Self::tail`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn feed(&self, tenant: &TenantId, filter: &EventFilter) -> Result<Feed, ClientError> {
        let link = self.link.lock().await.clone();
        let feed = Feed::subscribe(&link.client, &link.realm, tenant, filter).await;
        feed.map_err(|said| ClientError::Feed {
            url: link.url,
            said,
        })
    }

    /// Looks whether the host is elsewhere now, and connects to it there.
    async fn find_again(&self) -> Result<(), ClientError> {
        let Source::Data { data, role } = &self.source else {
            return Ok(());
        };
        let found = Endpoint::of_living(data).map_err(ClientError::from);
        let address = match found.and_then(|endpoint| address_of(&endpoint, role)) {
            Ok(address) => address,
            Err(error) if error.is_passing() => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut link = self.link.lock().await;
        if link.url == address.url {
            // The client connects again by itself.
            return Ok(());
        }
        match connect(&address).await {
            Ok(found) => *link = found,
            Err(error) if error.is_passing() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        tenant: &TenantId,
        verb: Verb,
        request: &Q,
    ) -> Result<A, ClientError> {
        let link = self.link.lock().await.clone();
        let malformed = |said: String| ClientError::Malformed { verb, said };
        let body = serde_json::to_vec(request).map_err(|e| malformed(e.to_string()))?;
        if body.len() > MESSAGE_BYTES_MAX {
            let message = format!(
                "the request has {} bytes, a message at most {MESSAGE_BYTES_MAX}",
                body.len()
            );
            return Err(ApiError::new(Code::TooLarge, message).into());
        }
        let subject = link.realm.api(tenant.as_str(), verb.word());
        let request = async_nats::Request::new()
            .payload(body.into())
            .timeout(Some(wait_for(verb)));
        let reply = link.client.send_request(subject, request).await;
        let reply = reply.map_err(|e| ClientError::NoAnswer {
            verb,
            url: link.url.clone(),
            said: e.to_string(),
        })?;
        if let Ok(Refused { error }) = serde_json::from_slice(&reply.payload) {
            return Err(error.into());
        }
        serde_json::from_slice(&reply.payload).map_err(|e| malformed(e.to_string()))
    }
}

/// Verification and audit read whole logs.
fn wait_for(verb: Verb) -> std::time::Duration {
    match verb {
        Verb::Verify | Verb::Audit | Verb::Copy => ANSWER_WAIT * 30,
        Verb::Start
        | Verb::Get
        | Verb::List
        | Verb::Tree
        | Verb::Tail
        | Verb::Status
        | Verb::Cancel
        | Verb::Signal
        | Verb::Callback => ANSWER_WAIT,
    }
}

fn address_of(endpoint: &Endpoint, role: &str) -> Result<Address, ClientError> {
    let access = endpoint.roles.get(role).cloned();
    Ok(Address {
        url: endpoint.nats_url.clone(),
        realm: endpoint.realm.clone(),
        access: access.ok_or_else(|| ClientError::NoRole {
            host: endpoint.host.to_string(),
            role: role.to_owned(),
        })?,
    })
}

async fn connect(address: &Address) -> Result<Link, ClientError> {
    let realm = if address.realm == Realm::local().to_string() {
        Realm::local()
    } else {
        Realm::shared(&address.realm)?
    };
    let access = &address.access;
    let mut options = ConnectOptions::new().name("coppice");
    if !access.inbox_prefix.is_empty() {
        options = options.custom_inbox_prefix(access.inbox_prefix.clone());
    }
    if let Some(path) = &access.credentials_file {
        let file = options.credentials_file(path).await;
        options = file.map_err(|source| ClientError::Credentials {
            path: path.clone(),
            source,
        })?;
    } else if let Some(user) = &access.user {
        let password = access.password.clone().unwrap_or_default();
        options = options.user_and_password(user.clone(), password);
    }
    let client = options.connect(address.url.as_str()).await;
    let client = client.map_err(|source| ClientError::Connect {
        url: address.url.clone(),
        source,
    })?;
    Ok(Link {
        client,
        realm,
        url: address.url.clone(),
    })
}
