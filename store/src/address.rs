//! The address of a NATS server. It holds no secret, so that every error, log line and file may show it: user and password that stand in a URL are
//! taken out of it where it is read.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::bus::Credentials;

/// Where a NATS server listens, such as `nats://bus.example:4222`. Never with user or password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerAddress(String);

/// A URL that names no NATS server. What stands before its `@` is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{shown:?} is not the address of a NATS server: {reason}")]
pub struct InvalidAddress {
    /// What was given, without user and password.
    pub shown: String,
    /// What is wrong, and what would be right.
    pub reason: &'static str,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ServerAddress> for String {
    fn from(address: ServerAddress) -> Self {
        address.0
    }
}

impl TryFrom<String> for ServerAddress {
    type Error = InvalidAddress;

    fn try_from(given: String) -> Result<Self, InvalidAddress> {
        given.parse()
    }
}

impl FromStr for ServerAddress {
    type Err = InvalidAddress;

    /// Reads an address without user and password.
    fn from_str(given: &str) -> Result<Self, InvalidAddress> {
        let parts = Parts::of(given);
        match parts.user {
            None => parts.address(),
            Some(_) => Err(parts.refuse("user and password do not belong here")),
        }
    }
}

impl ServerAddress {
    /// A server of this machine alone.
    #[must_use]
    pub fn loopback(port: u16) -> Self {
        Self(format!("nats://127.0.0.1:{port}"))
    }

    /// Reads a URL as people give it: user and password, percent-encoded where they must be, become credentials.
    ///
    /// # Errors
    /// [`InvalidAddress`].
    pub fn with_credentials(given: &str) -> Result<(Self, Credentials), InvalidAddress> {
        let parts = Parts::of(given);
        let address = parts.address()?;
        let Some(user) = parts.user else {
            return Ok((address, Credentials::None));
        };
        let decoded = user
            .split_once(':')
            .and_then(|(user, password)| Some((decode(user)?, decode(password)?)));
        let Some((user, password)) = decoded else {
            return Err(parts.refuse(
                "before the @ expected user:password, with %40 for @, %3A for : and %25 for %",
            ));
        };
        Ok((address, Credentials::Password { user, password }))
    }

    /// As a client takes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A URL taken apart at what may be secret.
struct Parts<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    place: &'a str,
}

impl<'a> Parts<'a> {
    fn of(given: &'a str) -> Self {
        let (scheme, rest) = given
            .split_once("://")
            .filter(|(scheme, _)| scheme.bytes().all(|letter| letter.is_ascii_alphabetic()))
            .unwrap_or(("nats", given));
        // The last one: whoever forgets to encode an @ in a password is not to see half of it shown.
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        Self {
            scheme,
            user,
            place,
        }
    }

    fn address(&self) -> Result<ServerAddress, InvalidAddress> {
        let shown = self.shown();
        match shown.parse::<async_nats::ServerAddr>() {
            Ok(parsed) if !parsed.host().is_empty() => Ok(ServerAddress(shown)),
            Ok(_) | Err(_) => {
                Err(self.refuse("expected nats://HOST:PORT, tls://HOST:PORT or ws://HOST:PORT"))
            }
        }
    }

    fn shown(&self) -> String {
        format!("{}://{}", self.scheme, self.place)
    }

    fn refuse(&self, reason: &'static str) -> InvalidAddress {
        InvalidAddress {
            shown: self.shown().chars().take(200).collect(),
            reason,
        }
    }
}

/// Percent-decoding; none when it is not that, or no text.
fn decode(given: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(given.len());
    let mut rest = given.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_of_a_url_become_credentials_and_are_nowhere_in_the_address() {
        let given = "nats://op%40s:p%3Aa%25ss@bus.example:4222";
        let (address, credentials) = ServerAddress::with_credentials(given).expect("an address");
        assert_eq!(address.to_string(), "nats://bus.example:4222");
        let Credentials::Password { user, password } = credentials else {
            panic!("{credentials:?}");
        };
        assert_eq!((user.as_str(), password.as_str()), ("op@s", "p:a%ss"));
        let (plain, none) = ServerAddress::with_credentials("bus.example:4222").expect("one");
        assert_eq!(plain, address);
        assert!(matches!(none, Credentials::None));
    }

    #[test]
    fn whatever_is_wrong_with_a_url_the_error_does_not_repeat_what_may_be_secret() {
        for given in [
            "http://user:s3cret@bus:4222",
            "nats://user:s3cret@",
            "nats://s3cret@bus:4222",
            "nats://user:s3cret%zz@bus:4222",
            "nats://user:s3cret@more@bad host",
            "s3cret@://",
        ] {
            let error = ServerAddress::with_credentials(given).expect_err(given);
            let all = format!("{error} {error:?}");
            assert!(!all.contains("s3cret"), "{given}: {all}");
        }
        let read = serde_json::from_str::<ServerAddress>("\"nats://user:s3cret@bus:4222\"");
        let said = read.expect_err("a secret is refused").to_string();
        assert!(
            said.contains("do not belong here") && !said.contains("s3cret"),
            "{said}"
        );
    }
}
