//! Commands about files: the library's scenarios, schemas, starters, validation, completions. None needs a host.

mod policies;

use std::{fs, io::ErrorKind, path::Path};

use clap::CommandFactory as _;
use coppice_actors::policy;
use coppice_scenarios::{
    library::{self, Shelf, Source},
    scenario::{Scenario, ScenarioError},
};
use coppice_topology::{
    Diagnostic, Diagnostics,
    check::{self, FileKind},
    load::Position,
    schema::Kind,
    starter::Starter,
};
use serde_json::json;

use crate::{
    args::{
        CheckArgs, Cli, CompletionsArgs, NewArgs, NewKind, ScenariosArgs, ScenariosCommand,
        SchemaArgs, SchemaKind,
    },
    failure::{Failure, Problem},
    out,
};

/// `coppice scenarios`
pub fn scenarios(args: &ScenariosArgs, json: bool) -> Result<(), Failure> {
    match &args.command {
        None | Some(ScenariosCommand::List) => list(json),
        Some(ScenariosCommand::Show { name }) => show(name, json),
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let mut all = Vec::new();
    for name in library::names("scenarios") {
        all.push(Scenario::find(&name)?);
    }
    if json {
        let row = |scenario: &Scenario| {
            json!({
                "scenario": scenario.document.scenario.as_str(),
                "about": scenario.document.about,
                "topology": scenario.release.plan.name,
                "faults": scenario.document.faults,
            })
        };
        return out::json(&all.iter().map(row).collect::<Vec<_>>());
    }
    let row = |scenario: &Scenario| {
        vec![
            scenario.document.scenario.to_string(),
            scenario.document.about.clone(),
        ]
    };
    out::table(
        &["SCENARIO", "ABOUT"],
        &all.iter().map(row).collect::<Vec<_>>(),
    )
}

fn show(name: &str, json: bool) -> Result<(), Failure> {
    let source = Source::named("scenario", "scenarios", name)
        .map_err(|error| Failure::Input(Problem::of(&error)))?;
    let text = String::from_utf8_lossy(&source.bytes);
    if json {
        return out::json(&json!({ "file": source.file, "text": text }));
    }
    out::text(&text)
}

/// `coppice schema`
pub fn schema(args: &SchemaArgs) -> Result<(), Failure> {
    let kind = match args.kind {
        SchemaKind::Topology => Kind::Topology,
        SchemaKind::Contract => Kind::Contract,
        SchemaKind::Tool => Kind::Tool,
        SchemaKind::Scenario => Kind::Scenario,
        SchemaKind::Model => Kind::Model,
        SchemaKind::Policy => return out::text(policy::SCHEMA),
    };
    out::text(&kind.text())
}

/// `coppice new`
pub fn new(args: &NewArgs, json: bool) -> Result<(), Failure> {
    let starter = match args.kind {
        NewKind::Topology => Starter::Topology,
        NewKind::Contract => Starter::Contract,
        NewKind::Tool => Starter::Tool,
        NewKind::Scenario => Starter::Scenario,
        NewKind::Policy => return policies::new(&args.name, json),
    };
    let text = starter.text(&args.name);
    let text = text.map_err(|error| Failure::Input(Problem::of(&error)))?;
    let path = starter.path(&args.name);
    begin(Path::new(&path), &text)?;
    if json {
        return out::json(&json!({ "file": path }));
    }
    out::line(path)
}

/// Writes a file that is not there yet.
fn begin(path: &Path, text: &str) -> Result<(), Failure> {
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::File::create_new(path))
        .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    let shown = path.display();
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::Input(
            Problem::new(format!("{shown} is there already"))
                .help("choose another name, or remove that file first"),
        ),
        _ => Failure::Environment(Problem::new(format!("{shown} cannot be written: {error}"))),
    })
}

/// `coppice check`
pub fn check(args: &CheckArgs, json: bool) -> Result<(), Failure> {
    let (mut held, mut faults) = (Vec::new(), Vec::new());
    for path in &args.files {
        if path.is_dir() {
            match policies::check(path)? {
                Ok(()) => held.push(json!({ "file": path, "kind": "policy set" })),
                Err(Diagnostics(found)) => faults.extend(found),
            }
            continue;
        }
        let source = Source::file(path).map_err(|error| Failure::Input(Problem::of(&error)))?;
        match check_one(&source) {
            Ok(kind) => held.push(json!({ "file": source.file, "kind": kind })),
            Err(Diagnostics(found)) => faults.extend(found),
        }
    }
    if !faults.is_empty() {
        return Err(Diagnostics(faults).into());
    }
    if json {
        return out::json(&held);
    }
    for file in held {
        let word = |key: &str| file[key].as_str().unwrap_or_default().to_owned();
        out::line(format!("{}: a good {}", word("file"), word("kind")))?;
    }
    Ok(())
}

fn check_one(source: &Source) -> Result<String, Diagnostics> {
    let shelf = Shelf::new(source.directory.clone());
    let kind = check::file(&source.file, &source.bytes, &shelf)?;
    if kind == FileKind::Scenario {
        Scenario::read(source.clone()).map_err(|error| match error {
            ScenarioError::Invalid(diagnostics) => diagnostics,
            ScenarioError::Source(error) => Diagnostics(vec![Diagnostic::new(
                &source.file,
                Position::START,
                error.to_string(),
            )]),
        })?;
    }
    Ok(word(kind).to_owned())
}

fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Scenario => "scenario",
        FileKind::Topology => "topology",
        FileKind::Tool => "tool",
        FileKind::Model => "model script",
        FileKind::Contract => "contract",
        FileKind::Delegation => "delegation",
        FileKind::Schema => "JSON Schema",
    }
}

/// `coppice completions`
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "coppice", &mut text);
    out::text(&String::from_utf8_lossy(&text))
}
