//! The policy set that a scenario names: a directory beside it, else one of the library's. It is checked whole before anything runs.

use std::path::Path;

use coppice_actors::policy::{PolicyFiles, PolicySet};
use coppice_topology::load::Loaded;

use super::{Document, ScenarioError};
use crate::library::{self, Source};

/// Finds, reads and checks it.
pub(super) fn of(
    scenario: &Loaded<Document>,
    source: &Source,
) -> Result<Option<PolicyFiles>, ScenarioError> {
    let Some(name) = &scenario.value.policies else {
        return Ok(None);
    };
    let folder = format!("policies/{name}");
    let beside = source.directory.as_deref().map(|place| place.join(&folder));
    let files = match beside.filter(|place| place.is_dir()) {
        Some(place) => PolicyFiles::read(&place)
            .map_err(|error| scenario.at_value(&["policies"], error.to_string()))?,
        None => of_library(scenario, &folder)?,
    };
    PolicySet::load(&files)?;
    Ok(Some(files))
}

fn of_library(scenario: &Loaded<Document>, folder: &str) -> Result<PolicyFiles, ScenarioError> {
    let files = library::folder(folder);
    if files.is_empty() {
        let names = library::names("policies");
        let mut known: Vec<&str> = names
            .iter()
            .filter_map(|name| Path::new(name).parent()?.to_str())
            .collect();
        known.dedup();
        let message = format!("there is no directory {folder}, here or in the library");
        let fault = scenario.at_value(&["policies"], message);
        let help = format!(
            "the library has {}; or coppice new policy NAME",
            known.join(", ")
        );
        return Err(fault.help(help).into());
    }
    Ok(PolicyFiles::of(&format!("library:{folder}"), files))
}
