//! Static checks of a topology and all that it names (`spec/topology.md`): each says where, and what would be right.
//!
//! They are made when a release is made, not when a log is read again: a build that has learnt to refuse more still finishes what
//! an older one has started.

mod agent;
mod authority;
mod callback;
mod child;
mod contract;
mod control;
mod ends;
mod file;
mod graph;
mod references;
mod schema;
mod script;
mod tool;

pub use self::file::{FileKind, file};

use coppice_messages::{Contract, Value};

use crate::{
    bundle::Parts,
    document::ContractRef,
    load::{Diagnostic, Loaded},
    script::Script,
    tool::Tool,
};

/// Everything that is wrong with the parts of a release.
pub(crate) fn parts(parts: &Parts) -> Vec<Diagnostic> {
    let mut faults = contract(&parts.contract);
    for (_, loaded) in parts.tools.values() {
        faults.extend(tool(loaded));
    }
    for loaded in parts.schemas.values() {
        faults.extend(schema(loaded));
    }
    for loaded in parts.models.values() {
        faults.extend(script(loaded));
    }
    names(parts, &mut faults);
    agent::check(parts, &mut faults);
    if graph::check(&parts.topology, &mut faults) {
        references::check(parts, references::Whose::Root, &mut faults);
        callback::check(parts, &mut faults);
    }
    authority::check(parts, &mut faults);
    control::check(parts, &mut faults);
    faults
}

/// What is wrong with a contract, whatever uses it.
#[must_use]
pub fn contract(loaded: &Loaded<Contract>) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    contract::check(loaded, &mut faults);
    faults
}

/// What is wrong with a tool's contract, whatever uses it.
#[must_use]
pub fn tool(loaded: &Loaded<Tool>) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    tool::check(loaded, &mut faults);
    faults
}

/// What is wrong with a model script, whatever uses it.
#[must_use]
pub fn script(loaded: &Loaded<Script>) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    script::check(loaded, &mut faults);
    faults
}

/// What is wrong with a JSON Schema as far as reading it shows; whether it compiles is for whoever validates with it.
#[must_use]
pub fn schema(loaded: &Loaded<Value>) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    schema::check(loaded, &[], &mut faults);
    faults
}

/// A file found under a name says that name.
fn names(parts: &Parts, faults: &mut Vec<Diagnostic>) {
    if let ContractRef::Named(named) = &parts.topology.value.contract {
        let own = &parts.contract.value.contract;
        if own != named && !named.contains('/') {
            faults.push(other_name(&parts.contract, "contract", named, own));
        }
    }
    for (name, (_, loaded)) in &parts.tools {
        if loaded.value.tool != *name {
            let own = loaded.value.tool.as_str();
            faults.push(other_name(loaded, "tool", name.as_str(), own));
        }
    }
    for (route, loaded) in &parts.models {
        let name = route.strip_prefix(crate::bundle::SCRIPTED).unwrap_or(route);
        if loaded.value.model != name {
            faults.push(other_name(loaded, "model", name, &loaded.value.model));
        }
    }
}

fn other_name<T>(loaded: &Loaded<T>, key: &str, name: &str, own: &str) -> Diagnostic {
    loaded
        .at_value(
            &[key],
            format!("this file was found as {name:?} and calls itself {own:?}"),
        )
        .help(format!("write {key}: {name}, or name the file after it"))
}

/// `a, b and c`
fn listed<T: ToString>(things: impl IntoIterator<Item = T>) -> String {
    let things: Vec<String> = things.into_iter().map(|thing| thing.to_string()).collect();
    match things.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}
