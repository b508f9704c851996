//! Each measure that is zero in a good run can be something else: made here from commits and testimonies that no good run leaves.

use coppice_actors::api::{Compared, Finding, Law, VerifyReport};
use coppice_messages::{
    Commit, Delegation, Digest, Event, Payload, Timestamp, Value,
    commit::{Entry, FORMAT},
    delegation::Root,
    event::{
        effect::{self, Intended, Landed, Receipt, ResultCheck},
        run::{self, Opened, Program},
        system::{self, FaultInjected, HostStarted},
    },
    ids::{EffectKey, RunId, TenantId, TreeId},
    scope::Operation,
};
use coppice_topology::load;

use super::{measures, seen::Seen};
use crate::{
    desk::{RequestCount, Route, Witness},
    library,
};

fn named<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("it is well formed")
}

fn tree() -> TreeId {
    named("root")
}

fn commit(run: RunId, events: Vec<Event>) -> Commit {
    let entry = |event| Entry { cause: None, event };
    Commit {
        v: FORMAT,
        tenant: TenantId::default_tenant(),
        tree: tree(),
        run,
        seq: 1,
        epoch: 1,
        prev: Digest::ZERO,
        at: Timestamp(0),
        trace: String::new(),
        parent: None,
        events: events.into_iter().map(entry).collect(),
    }
}

fn root(events: Vec<Event>) -> Commit {
    commit(tree().root(), events)
}

fn seen(commits: &[Commit]) -> Seen {
    Seen::of(commits, &TenantId::default_tenant(), &tree())
}

fn opened() -> Event {
    let text = library::text("contracts/default.yaml").expect("it is in the library");
    let contract = load::contract("default", text.as_bytes()).expect("it is a contract");
    let root = Root {
        run: tree().root(),
        tenant: TenantId::default_tenant(),
        principal: "user:test".to_owned(),
        objective: String::new(),
        result_schema: None,
        input_refs: [].into(),
    };
    Event::Run(run::Event::Opened(Box::new(Opened {
        contract: Digest::ZERO,
        topology: Digest::ZERO,
        release: Digest::ZERO,
        tools: [].into(),
        program: Program::Topology {
            name: "t".to_owned(),
        },
        path: "root".to_owned(),
        envelope: Delegation::root(&contract.value, root, Timestamp(0)),
        input: Payload::Inline(Value::Null),
        lineage: tree().root(),
        labels: [].into(),
    })))
}

fn key(operation: &str) -> EffectKey {
    let (tenant, tool) = (TenantId::default_tenant(), named("create_ticket"));
    EffectKey::derive(&tenant, &tool, &tree().root(), operation)
}

fn intended(tool: &str, operation: &str) -> Event {
    Event::Effect(effect::Event::Intended(Box::new(Intended {
        key: key(operation),
        node: named("file"),
        call: 0,
        tool: named(tool),
        tool_digest: Digest::ZERO,
        operation: Operation::Create,
        arguments: Payload::Inline(Value::Null),
        action: Digest::ZERO,
        attempt: 1,
        send_by: Timestamp(0),
        policy: None,
        reserved: Default::default(),
    })))
}

fn landed(operation: &str) -> Event {
    Event::Effect(effect::Event::Landed(Landed {
        key: key(operation),
        attempt: 1,
        receipt: Receipt::default(),
        result: ResultCheck::Ok,
        value: Payload::Inline(Value::Null),
        usage: Default::default(),
    }))
}

/// A desk that committed a ticket under each of these operations.
fn witness(operations: &[&str]) -> Witness {
    let row = |operation: &&str| RequestCount {
        tenant: "default".to_owned(),
        key: key(operation).hex(),
        route: Route::CreateTicket,
        argument_digest: String::new(),
        count: 1,
        committed: 1,
    };
    Witness {
        requests: operations.iter().map(row).collect(),
        tickets: operations.len() as u64,
        refunds: 0,
        files: 0,
        duplicates: 0,
        callbacks: Vec::new(),
        reads: 0,
    }
}

#[test]
fn an_effect_that_only_the_log_or_only_the_desk_knows_is_lost() {
    let recorded = [root(vec![
        opened(),
        intended("create_ticket", "a"),
        landed("a"),
    ])];
    let seen = seen(&recorded);
    assert_eq!(measures::lost(&witness(&["a"]), &seen), 0);
    assert_eq!(measures::lost(&witness(&[]), &seen), 1);
    assert_eq!(measures::lost(&witness(&["a", "b"]), &seen), 1);
    assert_eq!(measures::lost(&witness(&["b"]), &seen), 2);
}

#[test]
fn a_doubt_that_the_log_names_is_not_lost_until_the_log_says_that_it_did_not_happen() {
    let unknown = Event::Effect(effect::Event::Unknown(effect::Unknown {
        key: key("a"),
        attempt: 1,
        why: "timeout".to_owned(),
    }));
    let late = |happened| {
        Event::Run(run::Event::Late(run::Late {
            key: key("a"),
            happened,
            value: None,
        }))
    };
    let doubt = || vec![opened(), intended("create_ticket", "a"), unknown.clone()];
    let lost =
        |events: Vec<Event>, desk: &[&str]| measures::lost(&witness(desk), &seen(&[root(events)]));
    assert_eq!((lost(doubt(), &["a"]), lost(doubt(), &[])), (0, 0));
    let found_out = |happened| [doubt(), vec![late(happened)]].concat();
    assert_eq!(
        (lost(found_out(true), &["a"]), lost(found_out(true), &[])),
        (0, 1)
    );
    assert_eq!(
        (lost(found_out(false), &["a"]), lost(found_out(false), &[])),
        (1, 0)
    );
}

#[test]
fn an_intent_beyond_the_envelope_is_a_violation() {
    let within = seen(&[root(vec![opened(), intended("create_ticket", "a")])]);
    assert_eq!(within.beyond_envelope, 0);
    let beyond = seen(&[root(vec![opened(), intended("drop_table", "a")])]);
    assert_eq!(beyond.beyond_envelope, 1);
}

#[test]
fn decisions_of_people_are_hand_work_also_of_kinds_that_this_build_does_not_know() {
    let unknown = |kind: &str| Event::Unrecognised {
        kind: kind.to_owned(),
    };
    let seen = seen(&[root(vec![
        opened(),
        unknown("approval.granted"),
        unknown("effect.settled"),
        unknown("approval.requested"),
    ])]);
    assert_eq!(measures::hand_work(&seen), 2);
}

#[test]
fn restarts_and_faults_are_counted_from_the_first_start_on_also_before_the_tree_is_opened() {
    let started = || {
        Event::System(system::Event::HostStarted(HostStarted {
            host: named("h1"),
            version: String::new(),
            pid: 1,
        }))
    };
    let fault = Event::System(system::Event::FaultInjected(FaultInjected {
        address: "root@run.opened:before=kill_host".to_owned(),
        run: None,
        noted_at: Timestamp(0),
    }));
    let system = |event| commit(RunId::system(), vec![event]);
    let quiet = seen(&[system(started()), root(vec![opened()])]);
    assert_eq!((quiet.host_restarts, quiet.count("host.started")), (0, 1));
    let seen = seen(&[
        system(started()),
        system(fault),
        system(started()),
        root(vec![opened()]),
        system(started()),
    ]);
    assert_eq!(seen.host_restarts, 2);
    assert_eq!(seen.count("host.started"), 3);
    assert_eq!(seen.count("fault.injected"), 1);
    assert_eq!(seen.struck, ["root@run.opened:before=kill_host"]);
}

#[test]
fn anything_that_verify_finds_is_a_divergence() {
    let good = VerifyReport {
        pos: 1,
        chains: 1,
        commits: 1,
        events: 1,
        state: Digest::ZERO,
        log: Compared::Equal(1),
        live: Compared::Skipped,
        stream: Compared::Equal(1),
        findings: Vec::new(),
    };
    assert!(!measures::diverged(&good));
    let stream = VerifyReport {
        stream: Compared::Different,
        ..good.clone()
    };
    assert!(measures::diverged(&stream));
    let finding = Finding {
        law: Law::Chain,
        tenant: TenantId::default_tenant(),
        run: None,
        pos: None,
        what: "a hash is wrong".to_owned(),
    };
    let found = VerifyReport {
        findings: vec![finding],
        ..good
    };
    assert!(measures::diverged(&found));
}
