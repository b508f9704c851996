//! Where data go: every address leads to a declared destination, and a credential says what it is for.

use crate::{
    load::{Diagnostic, Loaded},
    tool::{Tool, Transport, origin},
};

pub(super) fn check(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    destinations(loaded, faults);
    redacted(loaded, faults);
    if let Some(credential) = loaded.value.credential()
        && credential.scope.is_empty()
    {
        let path = ["http", "credential", "scope"];
        let fault = loaded.at_value(&path, "a credential for nothing");
        faults.push(fault.help("write what it may be used for, such as tickets:create"));
    }
}

fn destinations(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    let tool = &loaded.value;
    let Some(data) = &tool.data else { return };
    for (path, address) in addresses(tool) {
        let to = origin(address);
        if to.is_some_and(|to| data.destinations.contains(to)) {
            continue;
        }
        let shown = to.unwrap_or(address);
        let message = format!("{shown} is not among the destinations of the tool's data");
        let fault = loaded.at_value(&path, message);
        faults.push(fault.help(format!("add it: destinations: [\"{shown}\"]")));
    }
}

/// Every address with the place where it stands.
fn addresses(tool: &Tool) -> Vec<(Vec<&'static str>, &str)> {
    let mut all = Vec::new();
    if let Transport::Http(http) = &tool.transport {
        all.push((vec!["http", "request", "url"], http.request.url.as_str()));
        if let Some(lookup) = &http.lookup_by_key {
            all.push((vec!["http", "lookup_by_key", "url"], &lookup.url));
        }
    }
    let version = tool.resource.as_ref().and_then(|one| one.version.as_ref());
    if let Some(version) = version {
        all.push((vec!["resource", "version", "url"], &version.url));
    }
    if let Some(probe) = &tool.precondition {
        all.push((vec!["precondition", "url"], &probe.url));
    }
    if let Some(probe) = &tool.postcondition {
        all.push((vec!["postcondition", "url"], &probe.url));
    }
    all
}

fn redacted(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    let redact = loaded.value.data.iter().flat_map(|data| &data.redact);
    for (nth, pointer) in redact.enumerate() {
        if !pointer.starts_with('/') {
            let nth = nth.to_string();
            let path = ["data", "redact", nth.as_str()];
            let fault = loaded.at_value(&path, format!("{pointer:?} leads to no part of a result"));
            faults.push(fault.help("write a JSON Pointer, such as /customer/email"));
        }
    }
}
