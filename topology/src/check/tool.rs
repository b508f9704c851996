//! A tool's contract by itself: that an unclear outcome of a write can be found out, and that its key is its own.

use coppice_messages::Bytes;

mod data;
mod url;
mod world;

use self::url::Moment;
use super::schema::{self, properties};
use crate::{
    expr::{Condition, Reference, Source},
    load::{Diagnostic, Loaded, suggestion},
    tool::{Attempts, EffectClass, Lookup, Method, OnUnknown, Tool, Transport},
};

/// Greatest answer of a tool that the product takes.
const OUTPUT_MAX: Bytes = Bytes(1 << 20);

pub(super) fn check(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    schema::check(loaded, &["input"], faults);
    schema::check(loaded, &["output"], faults);
    class(loaded, faults);
    annotations(loaded, faults);
    match &loaded.value.transport {
        Transport::Http(http) => {
            let path = ["http", "request", "url"];
            url::check(loaded, &path, &http.request.url, Moment::Before, faults);
            bounds(loaded, &["http", "request"], faults);
            if let Some(asked) = &http.lookup_by_key {
                lookup(loaded, asked, faults);
            }
        }
        Transport::InProcess(function) => {
            if function.function.is_empty() {
                let path = ["in_process", "function"];
                let fault = loaded.at_value(&path, "a function without a name");
                faults.push(fault.help("write the name under which the host has it"));
            }
            bounds(loaded, &["in_process"], faults);
        }
    }
    findable(loaded, faults);
    world::check(loaded, faults);
    data::check(loaded, faults);
    pointers(loaded, faults);
    idempotency(loaded, faults);
}

fn class(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    let tool = &loaded.value;
    if tool.is_read() != (tool.effect == EffectClass::Read) {
        let message = format!(
            "the operation is {}, and the effect says otherwise",
            tool.operation
        );
        let right = if tool.is_read() {
            "effect: read"
        } else {
            "effect: reversible_write, irreversible_write, communication, payment or code_execution"
        };
        faults.push(
            loaded
                .at_value(&["effect"], message)
                .help(format!("write {right}")),
        );
    }
}

fn annotations(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    let known = properties(loaded.value.input.document());
    for name in &loaded.value.annotations {
        if !known.contains(&name.as_str()) {
            let mut fault = crate::bundle::item(loaded, &["annotations"], name);
            fault.message = format!("{name:?} is no argument of the tool");
            faults.push(fault.help(suggestion(name, &known)));
        }
    }
}

/// The key under which the contract says how the tool is called.
fn key(tool: &Tool) -> &'static str {
    match tool.transport {
        Transport::Http(_) => "http",
        Transport::InProcess(_) => "in_process",
    }
}

/// `timeout` and `max_bytes` below `path`.
fn bounds(loaded: &Loaded<Tool>, path: &[&str], faults: &mut Vec<Diagnostic>) {
    let tool = &loaded.value;
    let at = |key, message: String| loaded.at_value(&[path, &[key]].concat(), message);
    if tool.timeout().0 == 0 {
        let fault = at(
            "timeout",
            "a timeout of 0: no answer would ever come".to_owned(),
        );
        faults.push(fault.help("write how long an answer may take, such as 5s"));
    }
    let most = tool.result_bytes_max();
    if most > OUTPUT_MAX || most.0 == 0 {
        let fault = at("max_bytes", format!("max_bytes: {most} cannot be used"));
        faults.push(fault.help(format!("from 1 to {OUTPUT_MAX}")));
    }
}

/// An unclear outcome of a write can be found out, by key or by a person.
fn findable(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    let tool = &loaded.value;
    if tool.is_read() || tool.absence().is_some() || tool.on_unknown() == OnUnknown::Person {
        return;
    }
    let lookup = match tool.transport {
        Transport::Http(_) => "{ method: GET, url: …{key}…, found: … }",
        Transport::InProcess(_) => "{ absent_is_final: …, settles_within: … }",
    };
    let message = "a write whose unclear outcome nobody can find out";
    faults.push(loaded.at_key(&[key(tool)], message).help(format!(
        "add lookup_by_key: {lookup}, or on_unknown: person; there is no way to say \"retry\""
    )));
}

fn lookup(loaded: &Loaded<Tool>, lookup: &Lookup, faults: &mut Vec<Diagnostic>) {
    let path = ["http", "lookup_by_key"];
    read(
        loaded,
        &path,
        (lookup.method, &lookup.url),
        Moment::LookUp,
        faults,
    );
    if !lookup.url.contains("{key}") {
        let fault = loaded.at_value(
            &["http", "lookup_by_key", "url"],
            "a look-up that does not ask for the key",
        );
        faults.push(fault.help("put {key} into the url"));
    }
    let known = [Source::Body, Source::Arguments];
    let path = [path.as_slice(), &["found"]].concat();
    condition(loaded, &path, (&lookup.found, &known), "a look-up", faults);
}

/// A request that only reads, below `path`.
fn read(
    loaded: &Loaded<Tool>,
    path: &[&str],
    (method, address): (Method, &str),
    moment: Moment,
    faults: &mut Vec<Diagnostic>,
) {
    let at = |key| [path, &[key]].concat();
    url::check(loaded, &at("url"), address, moment, faults);
    match method {
        Method::Get | Method::Post => {}
        Method::Put | Method::Patch | Method::Delete => {
            let fault = loaded.at_value(&at("method"), format!("{moment} only reads"));
            faults.push(fault.help("GET, or a POST that only reads"));
        }
    }
}

/// A condition on what was read is about that, and about what else is known at that moment.
fn condition(
    loaded: &Loaded<Tool>,
    path: &[&str],
    (condition, known): (&Condition, &[Source]),
    moment: &str,
    faults: &mut Vec<Diagnostic>,
) {
    let references = condition.references();
    let strange = references
        .into_iter()
        .find(|one| !known.contains(&one.from));
    if let Some(strange) = strange {
        let message = format!("there is no {} in {moment}", strange.from);
        let names: Vec<String> = known.iter().map(ToString::to_string).collect();
        let fault = loaded.at_value(path, message);
        faults.push(fault.help(format!("a reference here comes from {}", names.join(", "))));
    }
}

fn pointers(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    let tool = &loaded.value;
    let receipt = tool.receipt();
    let result = match &tool.transport {
        Transport::Http(http) => http.lookup_by_key.as_ref().map(|lookup| &lookup.result),
        Transport::InProcess(_) => None,
    };
    let pointers = [
        (&[key(tool), "receipt", "id"], receipt.id.as_ref()),
        (&[key(tool), "receipt", "version"], receipt.version.as_ref()),
        (&[key(tool), "lookup_by_key", "result"], result),
    ];
    for (path, pointer) in pointers {
        if let Some(pointer) = pointer.filter(|text| !text.is_empty() && !text.starts_with('/')) {
            let fault = loaded.at_value(path, format!("{pointer:?} is no JSON Pointer"));
            faults.push(fault.help(format!("it begins with /: /{pointer}")));
        }
    }
}

fn idempotency(loaded: &Loaded<Tool>, faults: &mut Vec<Diagnostic>) {
    let tool = &loaded.value;
    let idempotency = &tool.idempotency;
    for (nth, reference) in idempotency.business_key.iter().enumerate() {
        if !is_stable(reference) {
            let nth = nth.to_string();
            let path = ["idempotency", "business_key", nth.as_str()];
            let fault = loaded.at_value(
                &path,
                format!("a business key never depends on {}", reference.from),
            );
            faults.push(fault.help(
                "only on input and item: what a model or a tool worded may differ when it is done again",
            ));
        }
    }
    let needs_key = match tool.effect {
        EffectClass::Payment | EffectClass::IrreversibleWrite => true,
        EffectClass::Read
        | EffectClass::ReversibleWrite
        | EffectClass::Communication
        | EffectClass::CodeExecution => false,
    };
    if needs_key && idempotency.business_key.is_empty() {
        let fault = loaded.at_key(
            &["idempotency"],
            "what cannot be undone needs a business key",
        );
        faults.push(fault.help("add idempotency: { business_key: [ { from: input, at: /… } ] }: what makes two of them one"));
    }
    let again = idempotency.attempts == Attempts::AtLeastOnce && !tool.is_read();
    if again && !tool.deduplicates() && tool.absence().is_none() {
        let path = ["idempotency", "attempts"];
        let fault = loaded.at_value(
            &path,
            "a write that may be sent again, and nothing tells the second from the first",
        );
        let deduplicating = match tool.transport {
            Transport::Http(_) => "key_header",
            Transport::InProcess(_) => "deduplicates: true",
        };
        faults.push(fault.help(format!(
            "add {deduplicating} or lookup_by_key, or write at_most_once"
        )));
    }
}

fn is_stable(reference: &Reference) -> bool {
    match reference.from {
        Source::Input | Source::Item => true,
        Source::Node(_) | Source::Arguments | Source::Receipt | Source::Body | Source::Check => {
            false
        }
    }
}
