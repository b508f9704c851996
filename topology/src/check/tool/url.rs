//! Addresses in a tool's contract: which places stand in them, and when each of them is known.

use std::fmt;

use coppice_messages::ids::NodeName;

use super::properties;
use crate::{
    load::{Diagnostic, Loaded, suggestion},
    tool::Tool,
};

/// When a request is made: decides what can stand in its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// The call, and what is read before it.
    Before,
    /// Finding out by key.
    LookUp,
    /// What is read once it was done.
    After,
}

impl Moment {
    /// The places beside `{desk}` and `{arguments.NAME}`.
    fn places(self) -> &'static [&'static str] {
        match self {
            Self::Before => &[],
            Self::LookUp => &["key"],
            Self::After => &["key", "receipt.id", "receipt.version"],
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "what is looked at before a call",
            Self::LookUp => "a look-up",
            Self::After => "what is looked at after a call",
        })
    }
}

/// At the beginning a base URL that the host is told, such as `{desk}`; behind it `{arguments.NAME}` and what else is known at that moment.
pub(super) fn check(
    loaded: &Loaded<Tool>,
    path: &[&str],
    url: &str,
    moment: Moment,
    faults: &mut Vec<Diagnostic>,
) {
    places(loaded, path, url, moment, faults);
}

/// An id has places as an address has, and no base URL.
pub(super) fn check_id(
    loaded: &Loaded<Tool>,
    path: &[&str],
    id: &str,
    faults: &mut Vec<Diagnostic>,
) {
    // With something in front no place stands where a base URL may.
    let shifted = format!("id:{id}");
    places(loaded, path, &shifted, Moment::Before, faults);
}

fn places(
    loaded: &Loaded<Tool>,
    path: &[&str],
    url: &str,
    moment: Moment,
    faults: &mut Vec<Diagnostic>,
) {
    let known = properties(loaded.value.input.document());
    let mut rest = url;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            let fault = loaded.at_value(path, "a { without its } in the url");
            faults.push(fault.help("write {desk}, {arguments.NAME} or {key}"));
            return;
        };
        rest = after;
        let fault = match name.strip_prefix("arguments.") {
            Some(argument) if known.contains(&argument) => continue,
            Some(argument) => loaded
                .at_value(path, format!("the tool has no argument {argument:?}"))
                .help(suggestion(argument, &known)),
            None if moment.places().contains(&name) => continue,
            None if name != "key" && is_base(url, name) => continue,
            None => {
                let further: String = moment
                    .places()
                    .iter()
                    .map(|place| format!(", {{{place}}}"))
                    .collect();
                loaded
                    .at_value(path, format!("{{{name}}} is not known in a url"))
                    .help(format!(
                        "at its beginning a base URL such as {{desk}}; then {{arguments.NAME}}{further}"
                    ))
            }
        };
        faults.push(fault);
    }
}

/// Whether the url begins with this name in braces, and it can be given to a host.
fn is_base(url: &str, name: &str) -> bool {
    let begins = url
        .strip_prefix('{')
        .is_some_and(|rest| rest.starts_with(name));
    begins && name.parse::<NodeName>().is_ok()
}
