//! The parts of a topology in few words.

use std::collections::BTreeMap;

use coppice_messages::{
    Bytes, Millis, Operation, Value,
    event::run::Reason,
    ids::{NodeName, ToolName},
};

use crate::{
    expr::{Reference, Source, Template},
    node::{Call, End, Node},
    tool::{EffectClass, Idempotency, InProcess, OnUnknown, ReceiptPointers, Tool, Transport},
};

impl Template {
    /// A value elsewhere, at this JSON Pointer; empty for the whole.
    #[must_use]
    pub fn cite(from: Source, at: &str) -> Self {
        Self::Reference(Reference {
            from,
            at: at.to_owned(),
        })
    }

    /// An object.
    #[must_use]
    pub fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        let members = members.map(|(key, item)| (key.to_owned(), item));
        Self::Map(BTreeMap::from(members))
    }
}

impl Node {
    /// One tool call.
    #[must_use]
    pub fn calling(tool: ToolName, arguments: Template) -> Self {
        Self {
            call: Some(Call { tool, arguments }),
            ..Self::empty()
        }
    }

    /// The end of a run that succeeded.
    #[must_use]
    pub fn succeeding(answer: Template) -> Self {
        let end = End {
            reason: Reason::Succeeded,
            answer,
            evidence: Vec::new(),
        };
        Self {
            end: Some(end),
            ..Self::empty()
        }
    }

    /// This node once these are done too.
    #[must_use]
    pub fn behind(mut self, before: impl IntoIterator<Item = NodeName>) -> Self {
        self.after.extend(before);
        self
    }
}

impl Tool {
    /// A tool that is the function of the same name in the host's own program, with 30 s for a call and 64 KiB for a result. It takes and gives
    /// what these JSON Schemas say. A write is at most a reversible one, and a person finds out what became of it if nobody knows; a
    /// function that can look up says so in `transport`.
    #[must_use]
    pub fn function(name: ToolName, operation: Operation, input: Value, output: Value) -> Self {
        let effect = match operation {
            Operation::Read => EffectClass::Read,
            Operation::Create
            | Operation::Update
            | Operation::Delete
            | Operation::Communicate
            | Operation::Pay
            | Operation::Deploy
            | Operation::Execute => EffectClass::ReversibleWrite,
        };
        Self {
            transport: Transport::InProcess(InProcess {
                function: name.to_string(),
                timeout: Millis(30_000),
                max_bytes: Bytes(64 << 10),
                receipt: ReceiptPointers::default(),
                lookup_by_key: None,
                deduplicates: false,
                on_unknown: OnUnknown::Person,
            }),
            tool: name,
            namespace: "own".to_owned(),
            owner: "the program".to_owned(),
            version: 1,
            operation,
            effect,
            input: input.into(),
            annotations: [].into(),
            output: output.into(),
            resource: None,
            precondition: None,
            postcondition: None,
            idempotency: Idempotency::default(),
            limits: None,
            data: None,
        }
    }
}
