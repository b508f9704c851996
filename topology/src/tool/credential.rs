//! Where a tool's credential is: taken for one call by the tool broker, and known to nobody else.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A credential, and what it is good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Where it is.
    pub from: CredentialSource,
    /// What it may be used for, in the outside's words: a command is told it as `COPPICE_SCOPE`.
    pub scope: String,
}

/// Where a credential is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum CredentialSource {
    /// A variable of the host's environment.
    Env(String),
    /// A file that the host can read; a line break at its end is no part of it.
    File(String),
    /// What a command writes on its standard output, split at spaces and without a shell.
    Exec(String),
}

impl FromStr for CredentialSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let given = text.split_once(':').filter(|(_, rest)| !rest.is_empty());
        match given {
            Some(("env", name)) => Ok(Self::Env(name.to_owned())),
            Some(("file", path)) => Ok(Self::File(path.to_owned())),
            Some(("exec", command)) => Ok(Self::Exec(command.to_owned())),
            _ => Err(
                "a credential stands elsewhere: expected env:NAME, file:PATH or exec:COMMAND"
                    .to_owned(),
            ),
        }
    }
}

impl TryFrom<String> for CredentialSource {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<CredentialSource> for String {
    fn from(source: CredentialSource) -> Self {
        source.to_string()
    }
}

impl fmt::Display for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, rest) = match self {
            Self::Env(name) => ("env", name),
            Self::File(path) => ("file", path),
            Self::Exec(command) => ("exec", command),
        };
        write!(f, "{kind}:{rest}")
    }
}
