//! Reading the files that people write: YAML, strict, and every refusal points into the file.
//!
//! A file is first read into a [`Yaml`] that keeps the position of every key and value, then into its type. So an error of any
//! type, also one that only a `FromStr` knows, stands at the value that caused it, and a check that runs later finds the position of
//! whatever it has to say by its path.

mod de;
mod diagnostic;
mod suggest;
mod yaml;

use coppice_messages::{Contract, Value, delegation::RequestDocument};
use serde::de::DeserializeOwned;

pub use self::suggest::distance;
pub(crate) use self::suggest::suggestion;
pub use self::{
    diagnostic::{Diagnostic, Diagnostics},
    yaml::{Position, Yaml},
};
use crate::{document::Topology, script::Script, tool::Tool};

/// A document and where each part of it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<T> {
    /// What it says.
    pub value: T,
    /// The file's name, as diagnostics show it.
    pub file: String,
    /// Where.
    pub yaml: Yaml,
}

/// Reads a document of any type.
///
/// # Errors
/// One diagnostic: the first thing that is wrong.
pub fn read<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<Loaded<T>, Diagnostic> {
    let yaml = Yaml::parse(file, bytes)?;
    let value = T::deserialize(de::Reader(&yaml)).map_err(|fault| fault.into_diagnostic(file))?;
    Ok(Loaded {
        value,
        file: file.to_owned(),
        yaml,
    })
}

/// Reads a topology.
///
/// # Errors
/// See [`read`].
pub fn topology(file: &str, bytes: &[u8]) -> Result<Loaded<Topology>, Diagnostic> {
    read(file, bytes)
}

/// Reads a contract.
///
/// # Errors
/// See [`read`].
pub fn contract(file: &str, bytes: &[u8]) -> Result<Loaded<Contract>, Diagnostic> {
    read(file, bytes)
}

/// Reads a tool's contract.
///
/// # Errors
/// See [`read`].
pub fn tool(file: &str, bytes: &[u8]) -> Result<Loaded<Tool>, Diagnostic> {
    read(file, bytes)
}

/// Reads a model script.
///
/// # Errors
/// See [`read`].
pub fn script(file: &str, bytes: &[u8]) -> Result<Loaded<Script>, Diagnostic> {
    read(file, bytes)
}

/// Reads a JSON Schema. JSON is YAML, so its refusals have positions too.
///
/// # Errors
/// See [`read`].
pub fn schema(file: &str, bytes: &[u8]) -> Result<Loaded<Value>, Diagnostic> {
    read(file, bytes)
}

/// Reads a file or a block with the outer key `delegation:`.
///
/// # Errors
/// See [`read`].
pub fn delegation(file: &str, bytes: &[u8]) -> Result<Loaded<RequestDocument>, Diagnostic> {
    read(file, bytes)
}

impl<T> Loaded<T> {
    /// A diagnostic at the value that `path` leads to, or at the last part of the path that is there.
    #[must_use]
    pub fn at_value(&self, path: &[&str], message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.file, self.yaml.value_position(path), message)
    }

    /// A diagnostic at the key that `path` ends with.
    #[must_use]
    pub fn at_key(&self, path: &[&str], message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.file, self.yaml.key_position(path), message)
    }
}
