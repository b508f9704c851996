//! What an answer means, by the tool's error table and then by the general rules, and whether its result can be used.

use std::time::Duration;

use coppice_kernel::command::EffectOutcome;
use coppice_messages::{
    Digest, Millis, Operation, Spent, Value,
    event::effect::{Receipt, ResultCheck},
};
use coppice_topology::tool::{Attempts, Meaning, Tool, Transport};

use super::{
    in_process::ToolFailure,
    kept::redacted,
    transport::{Answer, Fault},
};
use crate::{
    limits::RETRY_AFTER_MAX,
    schema::{Schemas, cut},
};

/// A result, checked before anything reads it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Inspected {
    pub(super) receipt: Receipt,
    pub(super) check: ResultCheck,
    /// Null when it cannot be used.
    pub(super) value: Value,
    /// What cannot be used, as it came.
    pub(super) bad: Option<Vec<u8>>,
    /// What is wrong with it, for people.
    pub(super) why: String,
}

/// What an answer means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// It happened; the result is still to be kept.
    Landed(Inspected),
    /// Anything else.
    Not(EffectOutcome),
}

/// What the outside said beside its status.
struct Said {
    code: Option<String>,
    message: String,
}

/// What an exchange means for the effect.
pub(super) fn judge(
    tool: &Tool,
    schemas: &Schemas,
    exchanged: Result<Answer, Fault>,
    usage: Spent,
) -> Verdict {
    let answer = match exchanged {
        Ok(answer) => answer,
        Err(Fault::NoConnection(why)) => return Verdict::Not(EffectOutcome::NotSent { why }),
        Err(Fault::Lost(why)) => return Verdict::Not(EffectOutcome::Unknown { why }),
    };
    let said = said(&answer);
    match meaning(tool, answer.status, said.code()) {
        Meaning::Landed => Verdict::Landed(inspect(tool, schemas, answer.body.as_deref())),
        Meaning::Declined => Verdict::Not(EffectOutcome::Declined {
            code: said.named(answer.status),
            message: said.message,
            usage,
        }),
        Meaning::Retryable => Verdict::Not(EffectOutcome::Retryable {
            code: said.named(answer.status),
            retry_after: answer.retry_after,
            usage,
        }),
        Meaning::Unknown => Verdict::Not(EffectOutcome::Unknown {
            why: said.in_words(answer.status),
        }),
    }
}

/// What the word of a function means for the effect.
pub(super) fn judge_function(
    tool: &Tool,
    schemas: &Schemas,
    said: Result<Value, ToolFailure>,
    usage: Spent,
) -> Verdict {
    Verdict::Not(match said {
        Ok(value) => return Verdict::Landed(inspect_value(tool, schemas, value)),
        Err(ToolFailure::Declined { code, message }) => EffectOutcome::Declined {
            code: cut(&code),
            message: cut(&message),
            usage,
        },
        Err(ToolFailure::Retryable { code, after }) => EffectOutcome::Retryable {
            code: cut(&code),
            retry_after: after.map(retry_after),
            usage,
        },
        Err(ToolFailure::NotDone { why }) => EffectOutcome::NotSent { why: cut(&why) },
        Err(ToolFailure::Unknown { why }) => EffectOutcome::Unknown { why: cut(&why) },
    })
}

fn retry_after(asked: Duration) -> Millis {
    let longest = asked.min(RETRY_AFTER_MAX);
    Millis(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX))
}

/// The contract's first row that fits decides; without one the general rules do.
fn meaning(tool: &Tool, status: u16, code: Option<&str>) -> Meaning {
    let fits = |row: &&coppice_topology::tool::ErrorRow| {
        row.status == status && (row.code.is_none() || row.code.as_deref() == code)
    };
    let rows = match &tool.transport {
        Transport::Http(http) => http.errors.as_slice(),
        Transport::InProcess(_) => &[],
    };
    if let Some(row) = rows.iter().find(fits) {
        return row.meaning;
    }
    let repeats_do_nothing = tool.is_read()
        || (tool.idempotency.attempts == Attempts::AtLeastOnce && tool.deduplicates());
    match status {
        200..=299 => Meaning::Landed,
        408 | 429 | 503 if repeats_do_nothing => Meaning::Retryable,
        408 | 429 | 500..=599 => Meaning::Unknown,
        // Somewhere else is the answer, and going there is not in the contract: a read has none, a write may have happened.
        300..=399 if !tool.is_read() => Meaning::Unknown,
        _ => Meaning::Declined,
    }
}

fn said(answer: &Answer) -> Said {
    let body = answer.body.as_deref().unwrap_or_default();
    let text = |value: &Value, at: &str| value.at(at).and_then(Value::as_text).map(cut);
    match Value::parse(body) {
        Ok(value) => Said {
            code: text(&value, "/code"),
            message: text(&value, "/message").unwrap_or_default(),
        },
        Err(_) => Said {
            code: None,
            message: cut(String::from_utf8_lossy(body).trim()),
        },
    }
}

impl Said {
    fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Status, code and words.
    fn in_words(&self, status: u16) -> String {
        format!("{}: {}", self.named(status), self.message)
    }

    fn named(&self, status: u16) -> String {
        match &self.code {
            Some(code) => format!("{status} {code}"),
            None => status.to_string(),
        }
    }
}

/// Checks a result as it came: greatest size, JSON, output schema.
fn inspect(tool: &Tool, schemas: &Schemas, body: Option<&[u8]>) -> Inspected {
    let Some(body) = body else {
        return too_large(tool);
    };
    // An answer without a body is one without a result.
    let parsed = if body.is_empty() {
        Ok(Value::Null)
    } else {
        Value::parse(body)
    };
    match parsed {
        Ok(value) => inspect_value(tool, schemas, value),
        Err(invalid) => Inspected {
            receipt: Receipt {
                result: Digest::of(body),
                ..Receipt::default()
            },
            check: ResultCheck::OutputInvalid,
            value: Value::Null,
            bad: Some(body.to_owned()),
            why: invalid.to_string(),
        },
    }
}

/// Checks a result that is part of a look-up's answer.
pub(super) fn inspect_value(tool: &Tool, schemas: &Schemas, value: Value) -> Inspected {
    let canonical = value.canonical();
    if canonical.len() as u64 > tool.result_bytes_max().0 {
        return too_large(tool);
    }
    let pointed = |pointer: &Option<String>| plain(value.at(pointer.as_deref()?)?);
    let receipt = Receipt {
        id: pointed(&tool.receipt().id),
        version: pointed(&tool.receipt().version),
        result: Digest::of(&canonical),
    };
    match schemas.check(&tool.output, &value) {
        Ok(()) => Inspected {
            receipt,
            check: ResultCheck::Ok,
            value: redacted(tool, value),
            bad: None,
            why: String::new(),
        },
        Err(mismatch) => Inspected {
            receipt,
            check: ResultCheck::OutputInvalid,
            value: Value::Null,
            bad: Some(canonical),
            why: mismatch.to_string(),
        },
    }
}

/// An id or a version: text or a number.
pub(super) fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(cut(text)),
        Value::Int(_) | Value::Float(_) => Some(value.to_string()),
        Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => None,
    }
}

/// Of what was not read whole there is no digest.
fn too_large(tool: &Tool) -> Inspected {
    Inspected {
        receipt: Receipt::default(),
        check: ResultCheck::OutputTooLarge,
        value: Value::Null,
        bad: None,
        why: format!("more than {}", tool.result_bytes_max()),
    }
}

/// What one exchange used. Never more than was reserved: what an account could not be charged for must not appear in it.
pub(super) fn usage(operation: Operation, network: u64, reserved: &Spent) -> Spent {
    Spent {
        steps: 1,
        network: network.min(reserved.network),
        operations: [(operation, 1)].into(),
        ..Spent::default()
    }
}
