//! What is checked and added when a request to an HTTP tool leaves: where it goes, the credential of its contract, and the token of the host.
//!
//! A credential is taken for this one request and stands in its header alone. Nothing here is logged.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    process::Stdio,
};

use coppice_messages::ids::TenantId;
use coppice_store::clock;
use coppice_topology::tool::{Credential, CredentialSource, Tool};
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
};
use tokio::process::Command;

use super::{Inner, moment::Withheld, transport::Request};
use crate::{
    limits::{CREDENTIAL_BYTES_MAX, CREDENTIAL_WAIT},
    secrets::{SECRET_BYTES_MIN, Secrets},
    token::{Claims, TOKEN_HEADER, TokenSigner},
};

/// What of the host a request leaves with.
pub(super) struct Door {
    pub(super) signer: Option<TokenSigner>,
    /// Where this host listens itself.
    pub(super) own: BTreeSet<SocketAddr>,
    pub(super) allowed: BTreeSet<CredentialSource>,
    pub(super) secrets: Secrets,
}

/// Why a request does not leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    /// It must not.
    Never(String),
    /// What it needs cannot be had just now.
    NotNow(String),
}

impl From<Kept> for Withheld {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Never(why) => Self::Withdrawn(why),
            Kept::NotNow(why) => Self::NotSent(why),
        }
    }
}

impl Inner {
    /// Checks where a request goes, and gives it what opens the door there.
    pub(super) async fn dress(&self, tool: &Tool, request: &mut Request) -> Result<(), Kept> {
        self.goes_where_it_may(tool, &request.url)?;
        self.door.not_to_ourselves(&request.url).await?;
        if let Some(credential) = tool.credential() {
            let bearer = self.door.credential(credential, &request.of.tenant).await?;
            request.headers.insert(AUTHORIZATION, bearer);
        }
        if let Some(signer) = &self.door.signer {
            let token = signer.sign(&claims(request), clock::now());
            let header = HeaderName::from_bytes(TOKEN_HEADER.as_bytes());
            if let (Ok(header), Ok(mut token)) = (header, HeaderValue::from_str(&token)) {
                token.set_sensitive(true);
                request.headers.insert(header, token);
            }
        }
        Ok(())
    }

    fn goes_where_it_may(&self, tool: &Tool, url: &Url) -> Result<(), Kept> {
        let may = |place: &str| {
            let base = based(place, &self.endpoints);
            base.is_some_and(|base| base.origin() == url.origin())
        };
        if tool.destinations().into_iter().any(may) {
            return Ok(());
        }
        Err(Kept::Never(format!(
            "destination: the contract of {} lets no data go to {}",
            tool.tool,
            url.origin().ascii_serialization()
        )))
    }
}

/// A destination of a contract as this host knows it.
fn based(place: &str, endpoints: &BTreeMap<String, String>) -> Option<Url> {
    let name = place
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let text = match name {
        Some(name) => endpoints.get(name)?,
        None => place,
    };
    Url::parse(text).ok()
}

fn claims(request: &Request) -> Claims {
    let url = &request.url;
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    Claims {
        audience: url.origin().ascii_serialization(),
        tenant: request.of.tenant.to_string(),
        run: request.of.run.to_string(),
        key: request.of.key.map(|key| key.hex()).unwrap_or_default(),
        method: request.method.to_string(),
        path,
    }
}

impl Door {
    /// A tool that is this host's own port could start trees, or call back, in the name of nobody.
    async fn not_to_ourselves(&self, url: &Url) -> Result<(), Kept> {
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Ok(());
        };
        if !self.own.iter().any(|own| own.port() == port) {
            return Ok(());
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        let reached: Vec<IpAddr> = match literal.parse() {
            Ok(ip) => vec![ip],
            Err(_) => match tokio::net::lookup_host((host, port)).await {
                Ok(found) => found.map(|address| address.ip()).collect(),
                // Where it cannot be resolved, no connection comes about either.
                Err(_) => Vec::new(),
            },
        };
        let is_own = |ip: &IpAddr| {
            ip.is_loopback()
                || ip.is_unspecified()
                || self
                    .own
                    .iter()
                    .any(|own| own.ip() == *ip && own.port() == port)
        };
        if reached.iter().any(is_own) {
            return Err(Kept::Never(format!(
                "destination: {host}:{port} is a port of this host itself"
            )));
        }
        Ok(())
    }

    /// Takes the credential of a contract, as a header.
    async fn credential(
        &self,
        credential: &Credential,
        tenant: &TenantId,
    ) -> Result<HeaderValue, Kept> {
        let from = &credential.from;
        if !self.allowed.contains(from) {
            return Err(Kept::Never(format!(
                "credential: this host was not told that it may use {from}: start it with --credential '{from}'"
            )));
        }
        let secret = match from {
            CredentialSource::Env(name) => std::env::var(name)
                .map_err(|_| Kept::Never(format!("credential: the host has no variable {name}")))?,
            CredentialSource::File(path) => {
                let read = tokio::fs::read_to_string(path).await;
                read.map_err(|error| Kept::Never(format!("credential: {path}: {error}")))?
            }
            CredentialSource::Exec(command) => said_by(command, credential, tenant).await?,
        };
        let secret = secret.trim_end_matches(['\r', '\n']);
        let unusable = |why: &str| Kept::Never(format!("credential: {from} {why}"));
        if secret.len() < SECRET_BYTES_MIN {
            return Err(unusable("is too short to be told from other text"));
        }
        if secret.len() > CREDENTIAL_BYTES_MAX {
            return Err(unusable("is too long for a header"));
        }
        self.secrets.learn(secret);
        let bearer = HeaderValue::from_str(&format!("Bearer {secret}"));
        let mut bearer = bearer.map_err(|_| unusable("has signs that no header takes"))?;
        bearer.set_sensitive(true);
        Ok(bearer)
    }

    /// What is known from the start, so that it is masked before it is used for the first time.
    pub(super) fn learn_what_is_there(&self) {
        for source in &self.allowed {
            let secret = match source {
                CredentialSource::Env(name) => std::env::var(name).ok(),
                CredentialSource::File(path) => std::fs::read_to_string(path).ok(),
                CredentialSource::Exec(_) => None,
            };
            if let Some(secret) = secret {
                self.secrets.learn(secret.trim_end_matches(['\r', '\n']));
            }
        }
    }
}

/// What a command writes. Its standard error goes nowhere: it may hold what must not be kept.
async fn said_by(
    command: &str,
    credential: &Credential,
    tenant: &TenantId,
) -> Result<String, Kept> {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    let not_now = |why: String| Kept::NotNow(format!("credential: {program} {why}"));
    let output = Command::new(program)
        .args(words)
        .env("COPPICE_SCOPE", &credential.scope)
        .env("COPPICE_TENANT", tenant.as_str())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::select! {
        output = output => output.map_err(|error| not_now(error.to_string()))?,
        () = clock::pause(CREDENTIAL_WAIT) => {
            return Err(not_now(format!("said nothing within {} s", CREDENTIAL_WAIT.as_secs())));
        }
    };
    if !output.status.success() {
        return Err(not_now(format!("ended with {}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(|_| not_now("writes no text".to_owned()))
}
