//! The release that a scenario runs: its topology, found or written out, with the models that the scenario puts in.

use coppice_actors::schema::Schemas;
use coppice_topology::{
    Bundle, Diagnostic, Diagnostics, DocumentKind, Documents as _, bundle,
    load::{self, Loaded, Position, Yaml},
};

use super::{Document, ScenarioError, TopologyRef};
use crate::library::{Shelf, Source};

/// Every key of a scenario but `topology`.
const KEYS: [&str; 12] = [
    "scenario", "about", "input", "tenant", "labels", "world", "models", "faults", "people",
    "expect", "seed", "policies",
];

/// Finds, reads and checks the release.
pub(super) fn of(scenario: &Loaded<Document>, source: &Source) -> Result<Bundle, ScenarioError> {
    let document = &scenario.value;
    let topology = match &document.topology {
        TopologyRef::Named(name) => {
            let directory = source.directory.as_deref();
            let found = Source::beside(directory, "topology", "topologies", name);
            found.map_err(|error| {
                ScenarioError::from(scenario.at_value(&["topology"], error.to_string()))
            })?
        }
        TopologyRef::Inline(_) => written_out(scenario, source),
    };
    let bytes = with_models(scenario, &topology)?;
    let shelf = Shelf::new(topology.directory.clone());
    Ok(bundle(&topology.file, &bytes, &shelf)?)
}

/// Holds the scenario's input against the topology's schema of it.
pub(super) fn check_input(scenario: &Loaded<Document>, release: &Bundle) -> Result<(), Diagnostic> {
    let Some(schema) = &release.plan.input_schema else {
        return Ok(());
    };
    let checked = Schemas::new().check(schema, &scenario.value.input);
    checked.map_err(|mismatch| {
        let steps = mismatch.path.split('/').skip(1);
        let path: Vec<&str> = std::iter::once("input").chain(steps).collect();
        scenario.at_value(&path, mismatch.to_string()).help(format!(
            "the topology {} says what its input looks like",
            release.plan.name
        ))
    })
}

/// The bytes of the schema that the answer must meet.
pub(super) fn answer_schema(
    scenario: &Loaded<Document>,
    source: &Source,
) -> Result<Option<Vec<u8>>, Diagnostic> {
    let answer = scenario.value.expect.answer.as_ref();
    let Some(name) = answer.and_then(|answer| answer.schema.as_ref()) else {
        return Ok(None);
    };
    let shelf = Shelf::new(source.directory.clone());
    match shelf.find(DocumentKind::Schema, name.as_str()) {
        Some(found) => {
            load::schema(&found.file, &found.bytes)?;
            Ok(Some(found.bytes))
        }
        None => {
            let place = ["expect", "answer", "schema"];
            if let Some(why) = shelf.unusable(DocumentKind::Schema, name.as_str()) {
                return Err(scenario.at_value(&place, why));
            }
            let known = shelf.names(DocumentKind::Schema).join(", ");
            let message = format!("there is no schema {:?}", name.as_str());
            Err(scenario
                .at_value(&place, message)
                .help(format!("known: {known}")))
        }
    }
}

/// The topology that stands in the scenario's own file: the same text with everything else blanked out, so that positions stay right.
fn written_out(scenario: &Loaded<Document>, source: &Source) -> Source {
    let text = String::from_utf8_lossy(&source.bytes);
    let from = scenario.yaml.value_position(&["topology"]);
    let until = following_key(&scenario.yaml, scenario.yaml.key_position(&["topology"]));
    let mut kept = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let inside = number >= from.line && until.is_none_or(|until| number < until.line);
        for (column, letter) in (1..).zip(line.chars()) {
            let keep = letter == '\n' || (inside && (number > from.line || column >= from.column));
            kept.push(if keep { letter } else { ' ' });
        }
    }
    Source {
        file: source.file.clone(),
        bytes: kept.into_bytes(),
        directory: source.directory.clone(),
    }
}

/// Where the next key of the scenario stands.
fn following_key(yaml: &Yaml, after: Position) -> Option<Position> {
    KEYS.iter()
        .map(|key| yaml.key_position(&[key]))
        .filter(|at| *at > after)
        .min()
}

/// Puts the scenario's models in the place of the topology's, in its text: a release is pinned by its bytes.
fn with_models(scenario: &Loaded<Document>, topology: &Source) -> Result<Vec<u8>, ScenarioError> {
    let models = &scenario.value.models;
    if models.is_empty() {
        return Ok(topology.bytes.clone());
    }
    let loaded = load::topology(&topology.file, &topology.bytes)?;
    let mut places = Vec::new();
    let mut faults = Vec::new();
    for (agent, route) in models {
        let path = ["agents", agent.as_str(), "model"];
        let declared = loaded.value.agents.get(agent);
        match declared.and_then(|declared| declared.model.as_ref()) {
            Some(model) => {
                places.push((loaded.yaml.value_position(&path), path, model, route));
            }
            None => {
                let agents = loaded.value.agents.iter();
                let known: Vec<_> = agents
                    .filter(|(_, agent)| agent.model.is_some())
                    .map(|(name, _)| name.as_str())
                    .collect();
                let message = format!("the topology has no agent {agent} with a model");
                let fault = scenario.at_key(&["models", agent.as_str()], message);
                faults.push(fault.help(format!("it has {}", known.join(", "))));
            }
        }
    }
    // From the end, so that the positions of the others stay right.
    places.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    let mut text = String::from_utf8_lossy(&topology.bytes).into_owned();
    for (at, path, old, new) in places {
        match replaced(&text, at, old, new) {
            Some(with) => text = with,
            None => faults.push(loaded.at_value(
                &path,
                "this model cannot be replaced: write it on one line, without an alias",
            )),
        }
    }
    if faults.is_empty() {
        return Ok(text.into_bytes());
    }
    Err(Diagnostics(faults).into())
}

/// The text with `old`, which stands at a position, replaced.
fn replaced(text: &str, at: Position, old: &str, new: &str) -> Option<String> {
    let line_starts = |line: u32| {
        let mut start = 0;
        for _ in 1..line {
            start += text.get(start..)?.find('\n')? + 1;
        }
        Some(start)
    };
    let line = line_starts(at.line)?;
    let letters = text.get(line..)?.char_indices();
    let (inside, _) = letters
        .into_iter()
        .nth(usize::try_from(at.column).ok()?.checked_sub(1)?)?;
    let start = line + inside;
    let rest = text.get(start..)?;
    let plain = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
    let start = start + (rest.len() - plain.len());
    let after = plain.strip_prefix(old)?;
    Some(format!("{}{new}{after}", text.get(..start)?))
}
