//! A scenario: a topology, its input, an outside world, faults, and what must hold. One YAML file, strict, with positions.

mod expect;
mod people;
mod policies;
mod release;

use std::{collections::BTreeMap, str::FromStr};

use coppice_actors::{faults::Fault, policy::PolicyFiles};
use coppice_messages::{
    Value,
    ids::{AgentName, ClientKey, TenantId},
};
use coppice_topology::{
    Bundle, Diagnostic, Diagnostics,
    document::Topology,
    load::{self, Loaded},
};
use serde::{Deserialize, Deserializer, de};

pub use self::{
    expect::{Answer, Count, DeskCount, EventKind, Expect, Rebuild},
    people::{CancelAddress, Deed, InvalidCancel, On, Person, Signal},
};
use crate::{
    desk::World,
    library::{Source, SourceError},
};

/// The scenario as it is written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Its name.
    pub scenario: ScenarioName,
    /// What it shows, in one sentence.
    pub about: String,
    /// What runs.
    pub topology: TopologyRef,
    /// What it runs on.
    pub input: Value,
    /// Whose run it is.
    #[serde(default = "TenantId::default_tenant")]
    pub tenant: TenantId,
    /// For looking up.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The outside.
    #[serde(default)]
    pub world: Worlds,
    /// Models that agents use instead of the topology's.
    #[serde(default)]
    pub models: BTreeMap<AgentName, String>,
    /// The policy set of the host: `policies/NAME/`.
    #[serde(default)]
    pub policies: Option<String>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Who does something when something happens.
    #[serde(default)]
    pub people: Vec<Person>,
    /// What must hold at the end.
    pub expect: Expect,
    /// Fixes ids, jitter and draws, unless the command line says otherwise.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// The outside world, by its parts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Worlds {
    /// How the desk behaves.
    pub desk: World,
}

/// A topology by name or path, or written out in the scenario.
#[derive(Debug, Clone, PartialEq)]
pub enum TopologyRef {
    /// Found beside the scenario, then in the library.
    Named(String),
    /// Written out.
    Inline(Box<Topology>),
}

impl<'de> Deserialize<'de> for TopologyRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = TopologyRef;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a topology, or a topology")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<TopologyRef, E> {
                Ok(TopologyRef::Named(name.to_owned()))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TopologyRef, A::Error> {
                Topology::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(|topology| TopologyRef::Inline(Box::new(topology)))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// The name of a scenario: it becomes part of a directory's name and of the client's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioName(ClientKey);

impl ScenarioName {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for ScenarioName {
    type Err = coppice_messages::ids::InvalidId;
    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let same_form = given.parse::<ClientKey>();
        same_form.map(Self).map_err(|error| Self::Err {
            what: "scenario name",
            ..error
        })
    }
}

impl std::fmt::Display for ScenarioName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ScenarioName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It is not there.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Something in it, or in a file that it names, is wrong.
    #[error(transparent)]
    Invalid(#[from] Diagnostics),
}

impl From<Diagnostic> for ScenarioError {
    fn from(one: Diagnostic) -> Self {
        Self::Invalid(Diagnostics(vec![one]))
    }
}

/// A scenario that can be run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it says.
    pub document: Document,
    /// Its text.
    pub source: Source,
    /// The release that it runs.
    pub release: Bundle,
    /// The bytes of the schema that the answer must meet.
    pub answer_schema: Option<Vec<u8>>,
    /// The files of the host's policy set.
    pub policies: Option<PolicyFiles>,
}

impl Scenario {
    /// Reads what a person named: a file, or a scenario of the library.
    ///
    /// # Errors
    /// [`ScenarioError`], with the place of everything that is wrong.
    pub fn find(name: &str) -> Result<Self, ScenarioError> {
        Self::read(Source::named("scenario", "scenarios", name)?)
    }

    /// Reads a scenario and all that it names.
    ///
    /// # Errors
    /// [`ScenarioError`], with the place of everything that is wrong.
    pub fn read(source: Source) -> Result<Self, ScenarioError> {
        let loaded: Loaded<Document> = load::read(&source.file, &source.bytes)?;
        if let Err(error) = loaded.value.world.desk.check() {
            return Err(loaded
                .at_value(&["world", "desk"], error.to_string())
                .into());
        }
        let release = release::of(&loaded, &source)?;
        release::check_input(&loaded, &release)?;
        let answer_schema = release::answer_schema(&loaded, &source)?;
        let policies = policies::of(&loaded, &source)?;
        Ok(Self {
            document: loaded.value,
            source,
            release,
            answer_schema,
            policies,
        })
    }
}
