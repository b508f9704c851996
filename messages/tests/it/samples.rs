//! Fixed events of every kind, with every shape that a body can have, and one commit for each kind.
//!
//! The golden bytes are made from these: a sample of a recorded format is never changed, new ones are added.

mod effects;
mod events;

use coppice_messages::{
    Access, Bytes, Cause, Commit, Contract, Delegation, Digest, Entry, Event, MicroUsd, Millis,
    Operation, ParentRef, Payload, Timestamp, Value,
    budget::Spent,
    commit::FORMAT,
    contract::{
        Authority, ContractBudget, DataBoundary, HumanControl, Recovery, Rollback, SuccessEvidence,
        TaskBoundary, Termination,
    },
    delegation::{Root, SchemaRef},
    event::model,
    ids::{RunId, TenantId, TreeId},
    scope::Resources,
};

pub use self::events::events;

/// Reads any id, name or pattern that is known to be good.
pub fn named<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a sample is well formed")
}

/// Several of them.
pub fn all_named<T: std::str::FromStr<Err: std::fmt::Debug>, C: FromIterator<T>>(
    texts: &[&str],
) -> C {
    texts.iter().map(|text| named(text)).collect()
}

/// A time in August 2026, `seconds` after the samples' first.
pub fn at(seconds: u64) -> Timestamp {
    named::<Timestamp>("2026-08-07T18:00:00.000250Z").plus(Millis(seconds * 1000))
}

/// A small value with every JSON type.
pub fn value() -> Value {
    Value::map([
        ("absent", Value::Null),
        ("count", Value::Int(-3)),
        (
            "lines",
            Value::List(vec!["first".into(), "zweite Zeile ä".into()]),
        ),
        ("open", Value::Bool(true)),
        ("ratio", Value::Float(0.25)),
    ])
}

/// A value within an event.
pub fn inline() -> Payload {
    Payload::Inline(value())
}

/// A value beside an event.
pub fn blob() -> Payload {
    Payload::Blob {
        digest: Digest::of(b"a large value"),
        bytes: 70_000,
    }
}

/// An amount of everything that is spent.
pub fn spent() -> Spent {
    Spent {
        steps: 12,
        tokens: 18_000,
        cost: 1_500_000,
        network: 65_536,
        operations: [(Operation::Read, 20), (Operation::Create, 1)].into(),
    }
}

/// A contract with every field.
pub fn contract() -> Contract {
    let words = |word: &str| vec![word.to_owned()];
    Contract {
        contract: "incidents".into(),
        version: 3,
        task_boundary: TaskBoundary {
            accepts: words("comparisons of incident records"),
            excludes: words("changes of records"),
            systems: words("desk"),
            environments: words("test"),
            unit_of_work: "one comparison".into(),
            person_takes_over: "when records disagree".into(),
        },
        success_evidence: SuccessEvidence {
            answer: "a ticket id".into(),
            world: words("exactly one ticket"),
            artifacts: words("report"),
            uncertainty: "named in the answer".into(),
        },
        allowed_operations: [(Operation::Read, 64), (Operation::Create, 1)].into(),
        authority: Authority {
            tools: all_named(&["create_ticket", "read_incident"]),
            may_delegate: all_named(&["search_runbook"]),
            access: Access::ReadWrite,
            resources: Resources {
                allow: all_named(&["desk/*", "runbooks"]),
                deny: all_named(&["desk/secret/*"]),
            },
            valid_for: Millis(3_600_000),
        },
        data_boundary: DataBoundary {
            may_read: words("incidents"),
            may_leave: words("ticket text to desk"),
            keep_for: Millis(86_400_000),
            redact: words("/body/email"),
        },
        budget: ContractBudget {
            steps: 100,
            tokens: 200_000,
            cost: MicroUsd(2_500_000),
            wall_clock: Millis(1_800_000),
            concurrency: 8,
            storage: Bytes(10 << 20),
            network: Bytes(1 << 20),
            depth: 2,
            children: 16,
            spawn_per_minute: 60,
            join_reserve: Millis(60_000),
        },
        human_control: [(Operation::Create, HumanControl::None)].into(),
        termination: Termination {
            consecutive_failures: 3,
            no_progress: 4,
        },
        recovery: Recovery {
            attempts: 3,
            backoff: Millis(200),
        },
        rollback: Rollback {
            controller: "0.1.0".into(),
            tools: "tools-7".into(),
            policy: "policy-2".into(),
            sandbox_image: "none".into(),
            route: "scripted/summarise".into(),
        },
    }
}

/// The envelope of a root run under [`contract`].
pub fn root() -> Delegation {
    let root = Root {
        run: named("run_85a"),
        tenant: named("acme"),
        principal: "user:ada".into(),
        objective: "Compare the two named incident records".into(),
        result_schema: Some(schema()),
        input_refs: all_named(&["incident_104", "incident_119"]),
    };
    Delegation::root(&contract(), root, at(0))
}

/// A pinned schema.
pub fn schema() -> SchemaRef {
    SchemaRef {
        name: named("incident_comparison_v2"),
        digest: Digest::of(b"schema"),
    }
}

/// One commit that holds every sample of `kind`, with each kind of cause among them.
pub fn commit(kind: &str) -> Commit {
    let of_kind = events().into_iter().filter(|event| event.kind() == kind);
    Commit {
        v: FORMAT,
        tenant: named("acme"),
        tree: TreeId::of_root(&named("run_85a")),
        run: named("run_85a"),
        seq: 7,
        epoch: 2,
        prev: Digest::of(b"the commit before"),
        at: at(5),
        trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        parent: Some(ParentRef {
            run: RunId::root(&TenantId::default_tenant(), &named("first")),
            seq: 4,
            commit: Digest::of(b"the commit of the parent"),
        }),
        events: of_kind.enumerate().map(entry).collect(),
    }
}

/// The event with the cause that its place in a commit gives it.
pub fn entry((place, event): (usize, Event)) -> Entry {
    let cause = match place % 3 {
        0 => Some(Cause::Command("start-1".into())),
        1 => Some(Cause::Event {
            commit: Digest::of(b"the commit that led to it"),
            index: 1,
        }),
        _ => None,
    };
    Entry { cause, event }
}

/// A model's answer of this value.
pub fn answer_of(value: Value) -> Event {
    Event::Model(model::Event::Proposed(model::Proposed {
        node: named("loop"),
        call: 1,
        proposal: model::Proposal::Answer(Payload::Inline(value)),
        usage: Spent::step(),
        latency_ms: 1,
    }))
}
