//! The token that every request to an HTTP tool carries: for one minute, for this very request, signed by the host.
//!
//! It says who asks, for whom, and what: audience, tenant, run, key, method and path. A service that verifies it need not believe any other
//! header, and cannot use it elsewhere: another audience refuses it. It is no secret that opens anything by itself.

use std::{fs, io, path::Path};

use coppice_messages::{Millis, Timestamp, Value};
use ring::{
    rand::SystemRandom,
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};

use crate::{callback, limits::TOKEN_VALID};

/// The header that carries it: the payload, a dot and the signature, both in hexadecimal digits.
pub const TOKEN_HEADER: &str = "Coppice-Token";
/// Name of the file in the data directory that holds the host's key.
pub const FILE: &str = "tools.key";

/// One request, as its token says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Whom it is for: scheme, host and port.
    pub audience: String,
    /// For which tenant.
    pub tenant: String,
    /// From which run.
    pub run: String,
    /// Idempotency key, in hexadecimal digits; empty in a read.
    pub key: String,
    /// Such as `POST`.
    pub method: String,
    /// With its query.
    pub path: String,
}

/// What signs: one key a data directory.
pub struct TokenSigner(Ed25519KeyPair);

/// What verifies, known to the services that are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenKey(Vec<u8>);

/// Why the host cannot sign.
#[derive(Debug, thiserror::Error)]
pub enum TokenKeyError {
    /// The file.
    #[error("{FILE} in the data directory cannot be used")]
    Io(#[from] io::Error),
    /// It holds no key.
    #[error("{FILE} in the data directory holds no key: remove it to have a new one")]
    Unusable,
    /// The system has no randomness.
    #[error("the system gives no random bytes")]
    Random,
}

/// Why a token does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefused {
    /// It cannot be read.
    #[error("the token is none")]
    Malformed,
    /// Somebody else signed it, or it was changed.
    #[error("the token is not signed by the host that this service knows")]
    Forged,
    /// Its minute is over.
    #[error("the token's time is over")]
    Expired,
    /// It is for something else.
    #[error("the token is for another {what}")]
    Another {
        /// `audience`, `tenant`, `run`, `key`, `method` or `path`.
        what: &'static str,
    },
}

impl TokenSigner {
    /// That of a data directory; made when there is none.
    ///
    /// # Errors
    /// [`TokenKeyError`].
    pub fn open(data: &Path) -> Result<Self, TokenKeyError> {
        let path = data.join(FILE);
        let document = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let fresh = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                    .map_err(|_| TokenKeyError::Random)?;
                callback::make(&path, fresh.as_ref())?;
                // Another process may have been first.
                fs::read(&path)?
            }
            read => read?,
        };
        let pair = Ed25519KeyPair::from_pkcs8(&document);
        pair.map(Self).map_err(|_| TokenKeyError::Unusable)
    }

    /// What verifies its tokens.
    #[must_use]
    pub fn key(&self) -> TokenKey {
        TokenKey(self.0.public_key().as_ref().to_owned())
    }

    /// The token of a request that leaves now.
    #[must_use]
    pub fn sign(&self, claims: &Claims, now: Timestamp) -> String {
        let payload = payload(claims, now.plus(valid())).canonical();
        let signature = self.0.sign(&payload);
        format!(
            "{}.{}",
            callback::hex(&payload),
            callback::hex(signature.as_ref())
        )
    }
}

fn valid() -> Millis {
    Millis(u64::try_from(TOKEN_VALID.as_millis()).unwrap_or(u64::MAX))
}

fn payload(claims: &Claims, expires: Timestamp) -> Value {
    let text = |text: &str| Value::Text(text.to_owned());
    Value::map([
        ("audience", text(&claims.audience)),
        ("tenant", text(&claims.tenant)),
        ("run", text(&claims.run)),
        ("key", text(&claims.key)),
        ("method", text(&claims.method)),
        ("path", text(&claims.path)),
        ("expires", Value::Int(expires.0)),
    ])
}

impl TokenKey {
    /// One that was handed over as text.
    #[must_use]
    pub fn given(text: &str) -> Option<Self> {
        callback::bytes(text)
            .filter(|key| key.len() == 32)
            .map(Self)
    }

    /// The text to hand over: 64 hexadecimal digits.
    #[must_use]
    pub fn text(&self) -> String {
        callback::hex(&self.0)
    }

    /// What a token says, if it counts for a request to `audience` that was made like this. The run is whatever the token says: a service does
    /// not know it otherwise.
    ///
    /// # Errors
    /// [`TokenRefused`].
    pub fn verify(
        &self,
        token: &str,
        asked: &Claims,
        now: Timestamp,
    ) -> Result<Claims, TokenRefused> {
        let (payload, signature) = token.split_once('.').ok_or(TokenRefused::Malformed)?;
        let part = |text| callback::bytes(text).ok_or(TokenRefused::Malformed);
        let (payload, signature) = (part(payload)?, part(signature)?);
        UnparsedPublicKey::new(&ED25519, &self.0)
            .verify(&payload, &signature)
            .map_err(|_| TokenRefused::Forged)?;
        let payload = Value::parse(&payload).map_err(|_| TokenRefused::Malformed)?;
        let text = |at: &str| {
            let text = payload.at(at).and_then(Value::as_text);
            text.map(str::to_owned).ok_or(TokenRefused::Malformed)
        };
        let expires = match payload.at("/expires") {
            Some(Value::Int(expires)) => *expires,
            _ => return Err(TokenRefused::Malformed),
        };
        let said = Claims {
            audience: text("/audience")?,
            tenant: text("/tenant")?,
            run: text("/run")?,
            key: text("/key")?,
            method: text("/method")?,
            path: text("/path")?,
        };
        if now >= Timestamp(expires) {
            return Err(TokenRefused::Expired);
        }
        let compared = [
            ("audience", said.audience == asked.audience),
            ("tenant", said.tenant == asked.tenant),
            ("key", said.key == asked.key),
            ("method", said.method == asked.method),
            ("path", said.path == asked.path),
        ];
        match compared.into_iter().find(|(_, equal)| !equal) {
            Some((what, _)) => Err(TokenRefused::Another { what }),
            None => Ok(said),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn claims() -> Claims {
        let text = str::to_owned;
        Claims {
            audience: text("http://127.0.0.1:7801"),
            tenant: text("default"),
            run: text("root-1"),
            key: text("ab"),
            method: text("POST"),
            path: text("/tickets?x=1"),
        }
    }

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn a_token_counts_for_its_own_request_and_for_a_minute() {
        let data = tempfile::tempdir().unwrap();
        let signer = TokenSigner::open(data.path()).unwrap();
        let key = TokenKey::given(&TokenSigner::open(data.path()).unwrap().key().text()).unwrap();
        let token = signer.sign(&claims(), NOW);
        let asked = Claims {
            run: String::new(),
            ..claims()
        };
        assert_eq!(key.verify(&token, &asked, NOW), Ok(claims()));
        let last = NOW.plus(Millis(59_999));
        assert!(key.verify(&token, &asked, last).is_ok());
        let over = NOW.plus(Millis(60_000));
        assert_eq!(key.verify(&token, &asked, over), Err(TokenRefused::Expired));
        let mode = fs::metadata(data.path().join(FILE)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    #[test]
    fn a_token_of_another_request_names_what_is_another() {
        let data = tempfile::tempdir().unwrap();
        let signer = TokenSigner::open(data.path()).unwrap();
        let token = signer.sign(&claims(), NOW);
        type Change = fn(&mut Claims);
        let changes: [(&str, Change); 5] = [
            ("audience", |claims| claims.audience.push('0')),
            ("tenant", |claims| claims.tenant.push('x')),
            ("key", |claims| claims.key.push('c')),
            ("method", |claims| claims.method = "PUT".to_owned()),
            ("path", |claims| claims.path.push('2')),
        ];
        for (what, change) in changes {
            let mut asked = claims();
            change(&mut asked);
            let refused = signer.key().verify(&token, &asked, NOW);
            assert_eq!(refused, Err(TokenRefused::Another { what }));
        }
    }

    #[test]
    fn what_another_host_signed_or_somebody_changed_is_forged() {
        let [here, there] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [here, there] = [here, there].map(|data| TokenSigner::open(data.path()).unwrap());
        let token = here.sign(&claims(), NOW);
        let foreign = there.key().verify(&token, &claims(), NOW);
        assert_eq!(foreign, Err(TokenRefused::Forged));
        let changed = token.replacen('6', "7", 1);
        let refused = here.key().verify(&changed, &claims(), NOW);
        assert_eq!(refused, Err(TokenRefused::Forged));
        for none in ["", ".", "zz.zz", "00"] {
            let refused = here.key().verify(none, &claims(), NOW);
            assert!(refused.is_err(), "{none:?}");
        }
    }
}
