//! The events of outside effects: what is intended, and what comes of it.

use coppice_messages::{Digest, Millis, Operation, Payload, Spent, Value, event::effect};

use super::{at, blob, events::key, inline, named, spent};

pub fn effect_events() -> Vec<effect::Event> {
    vec![
        effect::Event::Intended(Box::new(effect::Intended {
            key: key(),
            node: named("file"),
            call: 0,
            tool: named("create_ticket"),
            tool_digest: Digest::of(b"create_ticket"),
            operation: Operation::Create,
            arguments: inline(),
            action: Digest::of(b"action"),
            attempt: 1,
            send_by: at(30),
            policy: None,
            reserved: spent(),
        })),
        effect::Event::NotSent(effect::NotSent {
            waited: false,
            key: key(),
            attempt: 1,
            why: "connection refused".into(),
        }),
        effect::Event::Lost(effect::Lost {
            what: effect::LostCall::Read {
                key: key(),
                attempt: 1,
            },
            charged: spent(),
        }),
        effect::Event::Lost(effect::Lost {
            what: effect::LostCall::Model {
                node: named("loop"),
                call: 2,
            },
            charged: spent(),
        }),
        effect::Event::Unknown(effect::Unknown {
            key: key(),
            attempt: 1,
            why: "timeout after 5s".into(),
        }),
        effect::Event::Escalated(effect::Escalated {
            key: key(),
            why: "the desk has no look-up; see ticket list".into(),
        }),
        effect::Event::Withdrawn(effect::Withdrawn {
            key: key(),
            attempt: 2,
            why: "the queue is closed".into(),
        }),
        effect::Event::Conflicted(effect::Conflicted {
            key: key(),
            had: Digest::of(b"had"),
            asked: Digest::of(b"asked"),
        }),
        effect::Event::Contradicted(effect::Contradicted {
            key: key(),
            attempt: 1,
            expected: "\"Differences\"".into(),
            seen: "404 not_found".into(),
        }),
    ]
}

fn receipt() -> effect::Receipt {
    effect::Receipt {
        id: Some("T-1".into()),
        version: Some("1".into()),
        result: Digest::of(b"result"),
    }
}

pub fn outcome_events() -> Vec<effect::Event> {
    let landed = |receipt, result, value| {
        effect::Event::Landed(effect::Landed {
            key: key(),
            attempt: 1,
            receipt,
            result,
            value,
            usage: spent(),
        })
    };
    let unusable = || (effect::Receipt::default(), Payload::Inline(Value::Null));
    let reconciled = |outcome, source| {
        effect::Event::Reconciled(effect::Reconciled {
            key: key(),
            attempt: 1,
            outcome,
            source,
            usage: spent(),
        })
    };
    let retryable = |retry_after| {
        effect::Event::Retryable(effect::Retryable {
            key: key(),
            attempt: 1,
            code: "429".into(),
            retry_after,
            usage: Spent::step(),
        })
    };
    let (nothing, null) = unusable();
    vec![
        landed(receipt(), effect::ResultCheck::Ok, inline()),
        landed(
            nothing.clone(),
            effect::ResultCheck::OutputInvalid,
            null.clone(),
        ),
        landed(nothing, effect::ResultCheck::OutputTooLarge, null),
        effect::Event::Declined(effect::Declined {
            key: key(),
            attempt: 1,
            code: "409 key_conflict".into(),
            message: "the key is used".into(),
            usage: Spent::step(),
        }),
        retryable(Some(Millis(2000))),
        retryable(None),
        reconciled(
            effect::ReconciledOutcome::Landed {
                receipt: receipt(),
                result: effect::ResultCheck::Ok,
                value: blob(),
            },
            effect::Source::Lookup,
        ),
        reconciled(
            effect::ReconciledOutcome::NotHappened,
            effect::Source::Answer,
        ),
    ]
}
