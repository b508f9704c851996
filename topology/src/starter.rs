//! Commented files to begin with, for `coppice new KIND NAME`: each passes `coppice check` as it stands, the scenario runs.

use coppice_messages::ids::{InvalidId, NodeName};

/// A kind of file that one begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starter {
    /// A topology of the user's own.
    Topology,
    /// A contract for topologies and tools of the user's own.
    Contract,
    /// A tool of the user's own.
    Tool,
    /// A scenario over a topology of the library.
    Scenario,
}

impl Starter {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Topology, Self::Contract, Self::Tool, Self::Scenario];

    /// Its name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Topology => "topology",
            Self::Contract => "contract",
            Self::Tool => "tool",
            Self::Scenario => "scenario",
        }
    }

    /// Where a file of this kind is found by its name.
    #[must_use]
    pub fn path(self, name: &str) -> String {
        match self {
            Self::Topology => format!("topologies/{name}.yaml"),
            Self::Contract => format!("contracts/{name}.yaml"),
            Self::Tool => format!("tools/{name}.yaml"),
            Self::Scenario => format!("scenarios/{name}.yaml"),
        }
    }

    /// The file's text.
    ///
    /// # Errors
    /// A name that could not stand in an id.
    pub fn text(self, name: &str) -> Result<String, InvalidId> {
        let same_form = name.parse::<NodeName>();
        same_form.map_err(|error| InvalidId {
            what: "name",
            ..error
        })?;
        let text = match self {
            Self::Topology => include_str!("starter/topology.yaml"),
            Self::Contract => include_str!("starter/contract.yaml"),
            Self::Tool => include_str!("starter/tool.yaml"),
            Self::Scenario => include_str!("starter/scenario.yaml"),
        };
        Ok(text.replace("OWN_NAME", name))
    }
}

impl std::str::FromStr for Starter {
    type Err = UnknownStarter;
    fn from_str(given: &str) -> Result<Self, UnknownStarter> {
        let mut found = Self::ALL.into_iter().filter(|kind| kind.word() == given);
        found.next().ok_or_else(|| UnknownStarter {
            given: given.to_owned(),
        })
    }
}

/// A word that is no kind to begin with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} cannot be begun: one of topology, contract, tool, scenario")]
pub struct UnknownStarter {
    /// What was given.
    pub given: String,
}
