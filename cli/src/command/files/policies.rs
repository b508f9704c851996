//! Policy sets as files: a commented one to begin with, and what is wrong with one.

use std::path::Path;

use coppice_actors::policy::{ENTITIES_FILE, PolicyFiles, PolicySet, SCHEMA, SCHEMA_FILE};
use coppice_messages::ids::NodeName;
use coppice_topology::Diagnostics;
use serde_json::json;

use super::begin;
use crate::{
    failure::{Failure, Problem},
    out,
};

/// `coppice new policy NAME`
pub(super) fn new(name: &str, json: bool) -> Result<(), Failure> {
    name.parse::<NodeName>()
        .map_err(|error| Failure::Input(Problem::of(&error)))?;
    let directory = Path::new("policies").join(name);
    let policies = include_str!("starter.cedar").replace("OWN_NAME", name);
    let files = [
        (SCHEMA_FILE.to_owned(), SCHEMA.to_owned()),
        (format!("{name}.cedar"), policies),
        (ENTITIES_FILE.to_owned(), "[]\n".to_owned()),
    ];
    let mut written = Vec::new();
    for (file, text) in files {
        let path = directory.join(file);
        begin(&path, &text)?;
        written.push(path);
    }
    if json {
        return out::json(&json!({ "files": written }));
    }
    for path in written {
        out::line(path.display().to_string())?;
    }
    Ok(())
}

/// What is wrong with the policy set of a directory.
pub(super) fn check(directory: &Path) -> Result<Result<(), Diagnostics>, Failure> {
    let files =
        PolicyFiles::read(directory).map_err(|error| Failure::Input(Problem::of(&error)))?;
    Ok(PolicySet::load(&files).map(drop))
}
