//! What a contract says about the world around a call: it can be read when it is needed, and only a write has it.

use super::{
    condition, read,
    url::{self, Moment},
};
use crate::{
    expr::Source,
    load::{Diagnostic, Loaded},
    tool::{Probe, Tool},
};

pub(super) fn check(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    let tool = &loaded.value;
    resource(loaded, faults);
    let before = [Source::Body, Source::Arguments];
    if let Some(wanted) = &tool.precondition {
        probe(
            loaded,
            "precondition",
            wanted,
            Moment::Before,
            &before,
            faults,
        );
    }
    let after = [Source::Body, Source::Arguments, Source::Receipt];
    if let Some(wanted) = &tool.postcondition {
        probe(
            loaded,
            "postcondition",
            wanted,
            Moment::After,
            &after,
            faults,
        );
    }
}

fn resource(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    let Some(resource) = &loaded.value.resource else {
        return;
    };
    for (key, text) in [("kind", &resource.kind), ("id", &resource.id)] {
        if text.is_empty() {
            let fault = loaded.at_value(&["resource", key], format!("a resource without {key}"));
            faults.push(fault.help("such as { kind: queue, id: support }"));
        }
    }
    url::check_id(loaded, &["resource", "id"], &resource.id, faults);
    if let Some(version) = &resource.version {
        let path = ["resource", "version"];
        let request = (version.method, version.url.as_str());
        read(loaded, &path, request, Moment::Before, faults);
        if !version.at.starts_with('/') {
            let fault = loaded.at_value(
                &["resource", "version", "at"],
                format!("{:?} leads to no version", version.at),
            );
            faults.push(fault.help("write a JSON Pointer into the answer, such as /version"));
        }
    }
}

fn probe(
    loaded: &Loaded<Tool>,
    key: &str,
    probe: &Probe,
    moment: Moment,
    known: &[Source],
    faults: &mut Vec<Diagnostic>,
) {
    if loaded.value.is_read() {
        let fault = loaded.at_key(&[key], format!("a read has no {key}: it changes nothing"));
        faults.push(fault.help("leave it away"));
        return;
    }
    let request = (probe.method, probe.url.as_str());
    read(loaded, &[key], request, moment, faults);
    let path = [key, "expect"];
    condition(
        loaded,
        &path,
        (&probe.expect, known),
        &format!("a {key}"),
        faults,
    );
    let looks = probe
        .expect
        .references()
        .iter()
        .any(|one| one.from == Source::Body);
    if !looks {
        let fault = loaded.at_value(
            &path,
            format!("a {key} that does not look at what was read"),
        );
        faults.push(fault.help("such as { eq: [ { from: body, at: /open }, true ] }"));
    }
}
