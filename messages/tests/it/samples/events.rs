//! The events, group by group.

use coppice_messages::{
    Digest, Dimension, Event, Millis, Operation, Payload, Spent,
    delegation::{AuthorityScope, BudgetRequest, Request},
    event::{
        budget, callback, check, child, join, model, node, policy, progress, run, system, timer,
    },
    ids::{EffectKey, RunId},
};

use super::{
    all_named, at, blob,
    effects::{effect_events, outcome_events},
    inline, named, root, schema, spent, value,
};

/// Every sample, in the order of the catalogue.
pub fn events() -> Vec<Event> {
    let mut all: Vec<Event> = Vec::new();
    all.extend(run_events().into_iter().map(Event::Run));
    all.extend(node_events().into_iter().map(Event::Node));
    all.extend(child_events().into_iter().map(Event::Child));
    all.extend(join_events().into_iter().map(Event::Join));
    all.extend(model_events().into_iter().map(Event::Model));
    all.extend(effect_events().into_iter().map(Event::Effect));
    all.extend(outcome_events().into_iter().map(Event::Effect));
    all.extend(policy_events().into_iter().map(Event::Policy));
    all.extend(check_events().into_iter().map(Event::Check));
    all.extend(budget_events().into_iter().map(Event::Budget));
    all.push(Event::Progress(progress::Event::Stalled(stalled())));
    all.extend(callback_events().into_iter().map(Event::Callback));
    all.extend(timer_events().into_iter().map(Event::Timer));
    all.extend(system_events().into_iter().map(Event::System));
    all
}

fn child_run() -> RunId {
    RunId::child(&named("run_85a"), &named("research"), 2)
}

pub fn key() -> EffectKey {
    EffectKey::derive(
        &named("acme"),
        &named("create_ticket"),
        &named("run_85a"),
        "REQ-1",
    )
}

fn run_events() -> Vec<run::Event> {
    let opened = run::Opened {
        contract: Digest::of(b"contract"),
        topology: Digest::of(b"topology"),
        release: Digest::of(b"release"),
        tools: [(named("read_incident"), Digest::of(b"read_incident"))].into(),
        program: run::Program::Topology {
            name: "incident-comparison".into(),
        },
        path: "root".into(),
        envelope: root(),
        input: inline(),
        lineage: named("run_85a"),
        labels: [("team".to_owned(), "support".to_owned())].into(),
    };
    let as_child = run::Opened {
        program: run::Program::Agent {
            agent: named("researcher"),
            slot: named("research"),
            ordinal: 2,
        },
        path: "root/research[2]".into(),
        input: blob(),
        labels: [].into(),
        ..opened.clone()
    };
    let ended = |reason| run::Ended {
        reason,
        class: None,
        message: String::new(),
        answer: None,
        evidence: vec![],
        usage: Spent::default(),
        in_doubt: vec![],
    };
    let mut all = vec![
        run::Event::Opened(Box::new(opened)),
        run::Event::Opened(Box::new(as_child)),
    ];
    for why in [
        run::ClaimReason::Start,
        run::ClaimReason::Restart,
        run::ClaimReason::Failover,
    ] {
        let owner = named("host-1");
        all.push(run::Event::Claimed(run::Claimed { owner, why }));
    }
    all.push(run::Event::Ended(run::Ended {
        class: Some("result_invalid".into()),
        message: "the answer lacks a field".into(),
        answer: Some(inline()),
        evidence: vec![12, 14],
        usage: spent(),
        in_doubt: vec![key()],
        ..ended(run::Reason::Succeeded)
    }));
    for reason in [
        run::Reason::Failed,
        run::Reason::Refused,
        run::Reason::Cancelled,
        run::Reason::TimedOut,
        run::Reason::BudgetExhausted,
        run::Reason::NeedsHuman,
    ] {
        all.push(run::Event::Ended(ended(reason)));
    }
    for from in [None, Some(named("run_84f"))] {
        all.push(run::Event::CancelRequested(run::CancelRequested {
            by: "user:dana".into(),
            why: "the request was withdrawn".into(),
            from,
        }));
    }
    all.push(run::Event::CancelSettled(run::CancelSettled {
        acknowledged: 3,
        killed: 1,
        unreachable: 0,
        ended_before: 2,
        effects_landed: 1,
        effects_not_sent: 2,
        effects_in_doubt: 1,
        quiet_after: Millis(412),
        steps_after: 1,
        tokens_after: 200,
        descendants: inline(),
    }));
    for value in [None, Some(inline())] {
        let happened = value.is_some();
        all.push(run::Event::Late(run::Late {
            key: key(),
            happened,
            value,
        }));
    }
    all
}

fn node_events() -> Vec<node::Event> {
    let ended = |outcome, effect| {
        node::Event::Ended(node::Ended {
            node: named("gather"),
            visit: 1,
            outcome,
            effect,
        })
    };
    vec![
        node::Event::Started(node::Started {
            node: named("gather"),
            visit: 1,
        }),
        ended(node::Outcome::Done, None),
        ended(node::Outcome::Done, Some(key())),
        ended(node::Outcome::Skipped, None),
        ended(node::Outcome::Repeated, None),
        ended(
            node::Outcome::Failed {
                class: "join_not_met".into(),
                message: "one of two slots failed".into(),
            },
            None,
        ),
    ]
}

fn child_events() -> Vec<child::Event> {
    let child = child_run();
    let returned = |class, answer| {
        child::Event::Returned(child::Returned {
            child: child_run(),
            reason: run::Reason::Succeeded,
            class,
            answer,
            commit: Digest::of(b"the last commit of the child"),
        })
    };
    let crashed = |restart_at| {
        child::Event::Crashed(child::Crashed {
            child: child_run(),
            why: "killed".into(),
            restart_at,
        })
    };
    vec![
        child::Event::Delegated(Box::new(child::Delegated {
            node: named("gather"),
            slot: named("research"),
            ordinal: 2,
            agent: named("researcher"),
            item: Payload::Inline("incident_104".into()),
            envelope: root(),
        })),
        crashed(Some(at(9))),
        crashed(None),
        child::Event::Restarted(child::Restarted {
            child: child.clone(),
            nth: 1,
        }),
        child::Event::GivenUp(child::GivenUp {
            child: child.clone(),
            why: "3 restarts within 1m".into(),
        }),
        returned(None, Some(inline())),
        returned(Some("deadline".into()), None),
        child::Event::Rejected(child::Rejected {
            child: child.clone(),
            schema: named("incident_comparison_v2"),
            why: "/summary is missing".into(),
        }),
        child::Event::Settled(child::Settled {
            child,
            charged: Spent::step(),
            returned: spent().less(&Spent::step()),
        }),
    ]
}

fn join_events() -> Vec<join::Event> {
    vec![
        join::Event::Opened(join::Opened {
            node: named("gather"),
            slot: named("research"),
            first: 1,
            members: 6,
        }),
        join::Event::Decided(join::Decided {
            node: named("gather"),
            outcomes: vec![
                join::SlotOutcome::Ended(run::Reason::TimedOut),
                join::SlotOutcome::ResultInvalid,
                join::SlotOutcome::Unreachable,
                join::SlotOutcome::Skipped,
                join::SlotOutcome::Open,
            ],
            rule: "all, on failure collect".into(),
            met: false,
        }),
    ]
}

fn request() -> Request {
    Request {
        parent_run_id: Some(named("run_85a")),
        child_run_id: Some(child_run()),
        objective: "Summarise".into(),
        input_refs: all_named(&["incident_104"]),
        permitted_tools: Some(all_named(&["read_incident"])),
        may_delegate: all_named(&["search_runbook"]),
        authority_scope: AuthorityScope {
            tenant: Some(named("acme")),
            access: coppice_messages::Access::ReadOnly,
        },
        resources: all_named(&["desk/open/*"]),
        deny: all_named(&["desk/open/1"]),
        budget: BudgetRequest {
            steps: Some(12),
            tokens: Some(18_000),
            cost: Some(coppice_messages::MicroUsd(10_000)),
            network: Some(coppice_messages::Bytes(4096)),
            storage: Some(coppice_messages::Bytes(0)),
            concurrency: Some(1),
            wall_clock: Some(Millis(300_000)),
        },
        operations: Some([(Operation::Read, 3)].into()),
        deadline: Some(at(600)),
        result_schema: Some(schema().name),
        completion: "return evidence for every difference".into(),
        return_owner: Some(named("run_85a")),
        depth_left: 1,
        children_left: 2,
        spawn_per_minute: Some(2),
        join_reserve: Millis(1000),
    }
}

fn model_events() -> Vec<model::Event> {
    let proposals = [
        model::Proposal::Say("I look at both records first.".into()),
        model::Proposal::Call {
            tool: named("read_incident"),
            arguments: inline(),
        },
        model::Proposal::Delegate {
            agent: named("researcher"),
            items: vec!["incident_104".into(), value()],
            delegation: Box::new(request()),
        },
        model::Proposal::Answer(blob()),
    ];
    let mut all = vec![model::Event::Asked(model::Asked {
        node: named("loop"),
        call: 1,
        agent: named("researcher"),
        route: "scripted/summarise".into(),
        context: Digest::of(b"context"),
        reserved: spent(),
    })];
    all.extend(proposals.into_iter().map(|proposal| {
        model::Event::Proposed(model::Proposed {
            node: named("loop"),
            call: 1,
            proposal,
            usage: spent(),
            latency_ms: 850,
        })
    }));
    all.push(model::Event::Failed(model::Failed {
        node: named("loop"),
        call: 2,
        class: "rate_limited".into(),
        message: "try again in 2s".into(),
        usage: Spent::step(),
    }));
    all.push(model::Event::Refused(model::Refused {
        node: named("loop"),
        call: 3,
        path: "budget.steps".into(),
        why: "asked 900, the parent has 88".into(),
    }));
    all
}

fn policy_events() -> Vec<policy::Event> {
    let decided = policy::Decided {
        node: named("file"),
        call: 0,
        key: key(),
        attempt: 1,
        tool: named("create_ticket"),
        action: Digest::of(b"action"),
        decision: policy::Decision::Allow,
        policy: Digest::of(b"policy set"),
        policies: vec!["support-writes".into()],
        reason: String::new(),
    };
    let denied = policy::Decided {
        decision: policy::Decision::Deny,
        policies: vec!["refund-limit".into()],
        reason: "refunds over 100.00 are for people".into(),
        ..decided.clone()
    };
    let nothing_permits = policy::Decided {
        decision: policy::Decision::Deny,
        policies: vec![],
        ..decided.clone()
    };
    let approve = policy::Decided {
        decision: policy::Decision::Approve {
            by: "role:operator".into(),
            people: 2,
        },
        ..decided.clone()
    };
    [decided, denied, nothing_permits, approve]
        .into_iter()
        .map(|decided| policy::Event::Decided(Box::new(decided)))
        .collect()
}

fn check_events() -> Vec<check::Event> {
    vec![
        check::Event::Passed(check::Passed {
            node: named("done"),
            check: "1".into(),
            effect: None,
            seen: inline(),
        }),
        check::Event::Failed(check::Failed {
            node: named("done"),
            check: "schema".into(),
            effect: None,
            expected: "/ticket is text".into(),
            seen: blob(),
        }),
    ]
}

fn budget_events() -> Vec<budget::Event> {
    Spent::dimensions()
        .map(|dimension: Dimension| {
            budget::Event::Exhausted(budget::Exhausted {
                dimension,
                asked: 2,
                left: 1,
            })
        })
        .collect()
}

fn stalled() -> progress::Stalled {
    progress::Stalled {
        node: named("think"),
        call: 9,
        repeats: 4,
        limit: 4,
    }
}

fn callback_events() -> Vec<callback::Event> {
    vec![
        callback::Event::Received(callback::Received {
            key: key(),
            id: "cb-1".into(),
            value: inline(),
        }),
        callback::Event::Absorbed(callback::Absorbed {
            key: key(),
            id: "cb-1".into(),
            why: "it came before".into(),
        }),
        callback::Event::Signal(callback::Signal {
            name: "go".into(),
            id: "sig-1".into(),
            value: inline(),
        }),
    ]
}

fn timer_events() -> Vec<timer::Event> {
    vec![
        timer::Event::Set(timer::Set {
            node: named("cool_down"),
            visit: 1,
            due: at(90_000_000),
        }),
        timer::Event::Due(timer::Due {
            node: named("cool_down"),
            visit: 1,
        }),
    ]
}

fn system_events() -> Vec<system::Event> {
    let injected = |run| {
        system::Event::FaultInjected(system::FaultInjected {
            address: "kill run_85a@effect.intended".into(),
            run,
            noted_at: at(3),
        })
    };
    let refused = |id: Option<String>, unrecorded| {
        system::Event::CallbackRefused(system::CallbackRefused {
            tenant: named("tenant-1"),
            key: id.as_ref().map(|_| key()),
            id,
            code: "unsigned".into(),
            why: "its signature is not that of the tenant".into(),
            unrecorded,
        })
    };
    vec![
        system::Event::HostStarted(system::HostStarted {
            host: named("host-1"),
            version: "0.1.0".into(),
            pid: 4711,
        }),
        system::Event::HostStopped(system::HostStopped {
            host: named("host-1"),
        }),
        injected(Some(named("run_85a"))),
        injected(None),
        refused(Some("cb-1".into()), 2),
        refused(None, 0),
        system::Event::PolicyChanged(system::PolicyChanged {
            from: None,
            to: Some(Digest::of(b"policy set")),
            files: [("refunds.cedar".to_owned(), Digest::of(b"refunds"))].into(),
        }),
        system::Event::PolicyChanged(system::PolicyChanged {
            from: Some(Digest::of(b"policy set")),
            to: None,
            files: [].into(),
        }),
    ]
}
