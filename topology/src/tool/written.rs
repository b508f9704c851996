//! A tool as it is written: with a key for each way to call it, of which exactly one is there.

use std::collections::BTreeSet;

use coppice_messages::{Operation, ids::ToolName};
use serde::{Deserialize, Serialize};

use super::{
    Data, EffectClass, Http, Idempotency, InProcess, Limits, Probe, Resource, Schema, Tool,
    Transport,
};

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    tool: ToolName,
    namespace: String,
    owner: String,
    version: u32,
    operation: Operation,
    effect: EffectClass,
    input: Schema,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    annotations: BTreeSet<String>,
    output: Schema,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    http: Option<Http>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_process: Option<InProcess>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource: Option<Resource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    precondition: Option<Probe>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    postcondition: Option<Probe>,
    #[serde(default)]
    idempotency: Idempotency,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Data>,
}

/// A tool that does not say in one way how it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidTransport {
    #[error("the tool does not say how it is called: give it http or in_process")]
    None,
    #[error("the tool has http and in_process: give it one of them")]
    Both,
}

impl TryFrom<Written> for Tool {
    type Error = InvalidTransport;

    fn try_from(written: Written) -> Result<Self, InvalidTransport> {
        let transport = match (written.http, written.in_process) {
            (Some(http), None) => Transport::Http(Box::new(http)),
            (None, Some(function)) => Transport::InProcess(function),
            (None, None) => return Err(InvalidTransport::None),
            (Some(_), Some(_)) => return Err(InvalidTransport::Both),
        };
        Ok(Self {
            tool: written.tool,
            namespace: written.namespace,
            owner: written.owner,
            version: written.version,
            operation: written.operation,
            effect: written.effect,
            input: written.input,
            annotations: written.annotations,
            output: written.output,
            transport,
            resource: written.resource,
            precondition: written.precondition,
            postcondition: written.postcondition,
            idempotency: written.idempotency,
            limits: written.limits,
            data: written.data,
        })
    }
}

impl From<Tool> for Written {
    fn from(tool: Tool) -> Self {
        let (http, in_process) = match tool.transport {
            Transport::Http(http) => (Some(*http), None),
            Transport::InProcess(function) => (None, Some(function)),
        };
        Self {
            tool: tool.tool,
            namespace: tool.namespace,
            owner: tool.owner,
            version: tool.version,
            operation: tool.operation,
            effect: tool.effect,
            input: tool.input,
            annotations: tool.annotations,
            output: tool.output,
            http,
            in_process,
            resource: tool.resource,
            precondition: tool.precondition,
            postcondition: tool.postcondition,
            idempotency: tool.idempotency,
            limits: tool.limits,
            data: tool.data,
        }
    }
}
