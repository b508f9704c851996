//! From a tool's contract and canonical arguments to the request that leaves.
//!
//! A value in an address is percent-encoded down to the unreserved characters of RFC 3986, so it cannot add a segment, a parameter or a
//! host; a segment that would be `.` or `..` is refused, since every reader of addresses resolves it.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use coppice_messages::{
    Value,
    event::effect::Receipt,
    ids::{EffectKey, RunId, TenantId},
};
use coppice_topology::tool::{Http, HttpRequest, Method, Tool};
use reqwest::{
    Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use super::{
    probe::Look,
    transport::{Request, Sender},
};

/// Why no request can be made of these arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsendable {
    #[error(
        "the address of {tool} needs {{{name}}}, and this host knows no such endpoint; known are: {known}"
    )]
    NoEndpoint {
        tool: String,
        name: String,
        known: String,
    },
    #[error("the address of {tool} needs the argument {name}, which is not given")]
    NoArgument { tool: String, name: String },
    #[error(
        "the argument {name} stands in the address of {tool} and must be text, a number or a boolean"
    )]
    NotPlain { tool: String, name: String },
    #[error("the address of {tool} needs the receipt's {name}, and the answer gave none")]
    NoReceipt { tool: String, name: String },
    #[error("the address of {tool} would have the path segment {segment:?}")]
    Segment { tool: String, segment: String },
    #[error("the address of {tool} is none: {why}")]
    NoAddress { tool: String, why: String },
    #[error("{what} of {tool} cannot stand in a header")]
    Header { tool: String, what: &'static str },
}

/// Everything that fills the places of a request.
#[derive(Clone, Copy)]
pub(super) struct Filling<'a> {
    pub(super) endpoints: &'a BTreeMap<String, String>,
    pub(super) tenant: &'a TenantId,
    pub(super) run: &'a RunId,
    pub(super) key: Option<EffectKey>,
    pub(super) trace: Option<&'a str>,
    pub(super) arguments: &'a Value,
    pub(super) receipt: Option<&'a Receipt>,
}

impl Filling<'_> {
    /// Who asks, and under which key as far as the tool is told one.
    fn sender(&self, key: Option<EffectKey>) -> Sender {
        Sender {
            tenant: self.tenant.clone(),
            run: self.run.clone(),
            key,
        }
    }
}

/// The call itself.
pub(super) fn call(tool: &Tool, http: &Http, filling: Filling<'_>) -> Result<Request, Unsendable> {
    let HttpRequest {
        method,
        url,
        key_header,
        timeout,
        max_bytes,
    } = &http.request;
    let mut headers = headers(tool, filling)?;
    if let (Some(name), Some(key)) = (key_header, filling.key) {
        let refuse = |what| Unsendable::Header {
            tool: tool.tool.to_string(),
            what,
        };
        let name: HeaderName = name.parse().map_err(|_| refuse("the key's header name"))?;
        let key = HeaderValue::from_str(&key.hex()).map_err(|_| refuse("the key"))?;
        headers.insert(name, key);
    }
    let body = match method {
        Method::Post | Method::Put | Method::Patch => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Some(filling.arguments.canonical())
        }
        Method::Get | Method::Delete => None,
    };
    Ok(Request {
        of: filling.sender(filling.key.filter(|_| key_header.is_some())),
        method: method_of(*method),
        url: address(tool, url, filling)?,
        headers,
        body,
        timeout: Duration::from_millis(timeout.0),
        answer_bytes_max: max_bytes.0,
    })
}

/// A look at the world, which changes nothing.
pub(super) fn read(
    tool: &Tool,
    look: Look<'_>,
    filling: Filling<'_>,
    answer_bytes_max: u64,
) -> Result<Request, Unsendable> {
    Ok(Request {
        of: filling.sender(None),
        method: method_of(look.method),
        url: address(tool, look.url, filling)?,
        headers: headers(tool, filling)?,
        body: None,
        timeout: Duration::from_millis(tool.timeout().0),
        answer_bytes_max,
    })
}

fn method_of(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Patch => reqwest::Method::PATCH,
        Method::Delete => reqwest::Method::DELETE,
    }
}

fn headers(tool: &Tool, filling: Filling<'_>) -> Result<HeaderMap, Unsendable> {
    let value = |text: &str, what| {
        HeaderValue::from_str(text).map_err(|_| Unsendable::Header {
            tool: tool.tool.to_string(),
            what,
        })
    };
    let mut headers = HeaderMap::new();
    let tenant = value(filling.tenant.as_str(), "the tenant")?;
    headers.insert("coppice-tenant", tenant);
    if let Some(trace) = filling.trace {
        headers.insert("traceparent", value(trace, "the trace")?);
    }
    Ok(headers)
}

/// The id of the resource that a call touches.
pub(super) fn id(tool: &Tool, template: &str, filling: Filling<'_>) -> Result<String, Unsendable> {
    filled(tool, template, filling)
}

fn address(tool: &Tool, template: &str, filling: Filling<'_>) -> Result<Url, Unsendable> {
    let filled = filled(tool, template, filling)?;
    check_segments(tool, &filled)?;
    Url::parse(&filled).map_err(|error| Unsendable::NoAddress {
        tool: tool.tool.to_string(),
        why: error.to_string(),
    })
}

fn filled(tool: &Tool, template: &str, filling: Filling<'_>) -> Result<String, Unsendable> {
    let name = || tool.tool.to_string();
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let (place, after) = after.split_once('}').ok_or_else(|| Unsendable::NoAddress {
            tool: name(),
            why: "a { is not closed".to_owned(),
        })?;
        fill(tool, place, filling, &mut filled)?;
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn fill(
    tool: &Tool,
    place: &str,
    filling: Filling<'_>,
    filled: &mut String,
) -> Result<(), Unsendable> {
    let tool = || tool.tool.to_string();
    if let Some(name) = place.strip_prefix("arguments.") {
        let given = match filling.arguments {
            Value::Map(given) => given.get(name),
            _ => None,
        };
        let value = given.ok_or_else(|| Unsendable::NoArgument {
            tool: tool(),
            name: name.to_owned(),
        })?;
        let text = plain(value).ok_or_else(|| Unsendable::NotPlain {
            tool: tool(),
            name: name.to_owned(),
        })?;
        if text.is_empty() && !filled.contains('?') {
            return Err(Unsendable::Segment {
                tool: tool(),
                segment: text,
            });
        }
        encode(&text, filled);
        return Ok(());
    }
    if let Some(name) = place.strip_prefix("receipt.") {
        let given = filling.receipt.and_then(|receipt| match name {
            "id" => receipt.id.as_deref(),
            _ => receipt.version.as_deref(),
        });
        let given = given.filter(|text| !text.is_empty());
        encode(
            given.ok_or_else(|| Unsendable::NoReceipt {
                tool: tool(),
                name: name.to_owned(),
            })?,
            filled,
        );
        return Ok(());
    }
    if let (Some(key), "key") = (filling.key, place) {
        filled.push_str(&key.hex());
        return Ok(());
    }
    let endpoint = filling
        .endpoints
        .get(place)
        .ok_or_else(|| Unsendable::NoEndpoint {
            tool: tool(),
            name: place.to_owned(),
            known: filling
                .endpoints
                .keys()
                .map(|name| format!("{{{name}}}"))
                .collect::<Vec<_>>()
                .join(", "),
        })?;
    filled.push_str(endpoint.trim_end_matches('/'));
    Ok(())
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => Some(value.to_string()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

fn encode(text: &str, into: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            into.push(char::from(byte));
        } else {
            // Writing into a String cannot fail.
            let _ = write!(into, "%{byte:02X}");
        }
    }
}

/// An argument must not lead to another resource than the contract's address names.
fn check_segments(tool: &Tool, filled: &str) -> Result<(), Unsendable> {
    let after_scheme = filled.split_once("://").map_or(filled, |(_, rest)| rest);
    let path = after_scheme.split(['?', '#']).next().unwrap_or_default();
    match path
        .split('/')
        .find(|segment| matches!(*segment, "." | ".."))
    {
        Some(segment) => Err(Unsendable::Segment {
            tool: tool.tool.to_string(),
            segment: segment.to_owned(),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
