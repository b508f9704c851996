//! Who may ask: a desk that knows a host's key takes only requests for which a token of that host vouches.
//!
//! The token is of this very request: made for this desk, this tenant, key, method and path, and no older than a minute.

use std::{io, net::SocketAddr, path::Path};

use axum::extract::Request;
use coppice_actors::token::{Claims, TOKEN_HEADER, TokenKey};
use coppice_store::clock;

use super::{DeskError, arrival, refusal::Refusal, webhooks::Outside};

/// What a desk checks of whoever asks.
pub(super) struct Door {
    key: Option<TokenKey>,
    audience: String,
}

impl Door {
    /// That of a desk at this address that knows what stands in this file; without a key it takes everybody.
    pub(super) fn of(outside: Option<&Path>, address: SocketAddr) -> Result<Self, DeskError> {
        let key = match outside {
            Some(path) => known(path).map_err(|source| DeskError::Outside {
                path: path.to_owned(),
                source,
            })?,
            None => None,
        };
        Ok(Self {
            key,
            audience: format!("http://{address}"),
        })
    }

    pub(super) fn check(&self, request: &Request) -> Result<(), Refusal> {
        let Some(key) = &self.key else {
            return Ok(());
        };
        let token = request.headers().get(TOKEN_HEADER);
        let token = token.and_then(|token| token.to_str().ok());
        let token = token.ok_or_else(|| Refusal::Unvouched("it has no token".to_owned()))?;
        let uri = request.uri();
        let path = uri
            .path_and_query()
            .map_or(uri.path(), |path| path.as_str());
        let asked = Claims {
            audience: self.audience.clone(),
            tenant: arrival::tenant(request.headers())?,
            run: String::new(),
            key: arrival::key(request.headers())?,
            method: request.method().to_string(),
            path: path.to_owned(),
        };
        let said = key.verify(token, &asked, clock::now());
        said.map(drop)
            .map_err(|refused| Refusal::Unvouched(refused.to_string()))
    }
}

fn known(path: &Path) -> io::Result<Option<TokenKey>> {
    let outside: Outside = serde_json::from_slice(&std::fs::read(path)?)?;
    let Some(text) = outside.tool_key else {
        return Ok(None);
    };
    let none = || io::Error::new(io::ErrorKind::InvalidData, "tool_key is no key");
    TokenKey::given(&text).map(Some).ok_or_else(none)
}
