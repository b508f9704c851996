//! A policy set is asked before each intent: what it decides is recorded with the intent, or with the refusal.

use std::sync::Arc;

use coppice_kernel::{
    Command,
    command::EffectOutcome,
    governor::{Governor, Judged, Question, Taint},
};
use coppice_messages::{
    Digest, Event,
    event::{
        effect, model,
        node::{self, Outcome},
        policy::{self, Decided, Decision},
        run::Reason,
    },
};

use crate::world::{Weather, World, comparison, input, plan_of};

/// Answers by the name of the tool.
struct ByTool(fn(&Question<'_>) -> Decision);

impl Governor for ByTool {
    fn judge(&self, question: &Question<'_>) -> Judged {
        Judged {
            decision: (self.0)(question),
            policy: self.version(),
            policies: vec!["by-tool".to_owned()],
            reason: "the test says so".to_owned(),
        }
    }

    fn version(&self) -> Digest {
        Digest::of(b"by tool")
    }
}

fn governed(decide: fn(&Question<'_>) -> Decision) -> World {
    let mut world = World::new(comparison(), input(2), 3, Weather::default());
    world.governor = Some(Arc::new(ByTool(decide)));
    world
}

fn writes_are_denied(question: &Question<'_>) -> Decision {
    if question.tool.contract.is_read() {
        Decision::Allow
    } else {
        Decision::Deny
    }
}

fn decisions(world: &World) -> Vec<Decided> {
    let decided = world.events().filter_map(|(_, event)| match event {
        Event::Policy(policy::Event::Decided(decided)) => Some(Decided::clone(decided)),
        _ => None,
    });
    decided.collect()
}

#[test]
fn every_intent_stands_right_behind_the_decision_that_allowed_it() {
    let mut world = governed(|_| Decision::Allow);
    assert_eq!(world.run().reason, Reason::Succeeded);
    let mut intents = 0;
    for recorded in &world.log {
        for (at, entry) in recorded.commit.events.iter().enumerate() {
            let Event::Effect(effect::Event::Intended(intended)) = &entry.event else {
                continue;
            };
            intents += 1;
            let before = at
                .checked_sub(1)
                .map(|before| &recorded.commit.events[before].event);
            let Some(Event::Policy(policy::Event::Decided(decided))) = before else {
                panic!("{before:?} stands before {intended:?}");
            };
            assert_eq!((decided.key, decided.attempt), (intended.key, 1));
            assert_eq!(decided.action, intended.action);
            assert_eq!(intended.policy, Some(Digest::of(b"by tool")));
        }
    }
    assert_eq!(intents, 5, "two reads an incident and the ticket");
    assert_eq!(world.count("policy.decided"), intents);
}

#[test]
fn without_a_policy_set_nothing_is_recorded_of_one() {
    let mut world = World::new(comparison(), input(2), 3, Weather::default());
    assert_eq!(world.run().reason, Reason::Succeeded);
    assert_eq!(world.count("policy.decided"), 0);
}

#[test]
fn a_call_that_is_denied_fails_its_node_with_the_reason_and_is_not_tried_again() {
    let mut world = governed(writes_are_denied);
    let ended = world.run();
    assert_eq!(
        (ended.reason, ended.class.as_deref()),
        (Reason::Failed, Some("policy_denied"))
    );
    assert!(world.desk.is_empty(), "nothing was written");
    let denied: Vec<_> = decisions(&world)
        .into_iter()
        .filter(|decided| decided.decision == Decision::Deny)
        .collect();
    assert_eq!(denied.len(), 1);
    let message = world.events().find_map(|(_, event)| match event {
        Event::Node(node::Event::Ended(ended)) => match &ended.outcome {
            Outcome::Failed { message, .. } => Some(message.clone()),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(
        message.as_deref(),
        Some("denied by policy (by-tool): the test says so")
    );
}

#[test]
fn a_proposal_that_is_denied_reaches_the_agent_as_a_refusal_with_the_reason() {
    let mut world = governed(|question| {
        if question.tool.contract.tool.as_str() == "search_runbook" {
            Decision::Deny
        } else {
            Decision::Allow
        }
    });
    let ended = world.run();
    assert_eq!(ended.reason, Reason::Succeeded, "{ended:?}");
    let refusals: Vec<_> = world
        .log
        .iter()
        .flat_map(|recorded| {
            let events = &recorded.commit.events;
            events.iter().zip(events.iter().skip(1))
        })
        .filter_map(|(before, entry)| match &entry.event {
            Event::Model(model::Event::Refused(refused)) => Some((&before.event, refused)),
            _ => None,
        })
        .collect();
    assert_eq!(refusals.len(), 2, "one a researcher");
    for (before, refused) in refusals {
        assert_eq!(before.kind(), "policy.decided");
        assert_eq!(refused.why, "denied by policy (by-tool): the test says so");
    }
}

#[test]
fn while_nobody_can_be_asked_what_needs_approval_is_refused() {
    let mut world = governed(|question| {
        if question.tool.contract.is_read() {
            return Decision::Allow;
        }
        Decision::Approve {
            by: "role:operator".to_owned(),
            people: 2,
        }
    });
    let ended = world.run();
    assert_eq!(ended.class.as_deref(), Some("refused_tool"));
    assert!(world.desk.is_empty());
    assert!(
        ended.message.contains("2 people of role:operator"),
        "{}",
        ended.message
    );
}

#[test]
fn a_further_attempt_is_judged_anew_and_a_denial_ends_the_tries() {
    let weather = Weather {
        not_sent: 1,
        ..Weather::default()
    };
    let mut world = World::new(plan_of(ONE_TICKET), input(1), 5, weather);
    world.governor = Some(Arc::new(ByTool(|_| Decision::Allow)));
    world.prepare();
    while world.count("effect.not_sent") == 0 {
        world.step();
    }
    world.governor = Some(Arc::new(ByTool(writes_are_denied)));
    let ended = world.run_on();
    assert_eq!(ended.class.as_deref(), Some("policy_denied"));
    assert_eq!(world.count("effect.intended"), 1);
    let attempts: Vec<_> = decisions(&world)
        .into_iter()
        .map(|decided| (decided.attempt, decided.decision))
        .collect();
    assert_eq!(attempts, [(1, Decision::Allow), (2, Decision::Deny)]);
    assert!(world.fold(&world.root).account().is_conserved());
}

#[test]
fn a_denial_at_the_moment_of_use_withdraws_the_intent_naming_the_policies() {
    let mut world = World::new(plan_of(ONE_TICKET), input(1), 5, Weather::default());
    world.governor = Some(Arc::new(ByTool(|_| Decision::Allow)));
    world.prepare();
    while world.count("effect.intended") == 0 {
        world.step();
    }
    let intended = world.events().find_map(|(_, event)| match event {
        Event::Effect(effect::Event::Intended(intended)) => Some(intended.clone()),
        _ => None,
    });
    let (root, intended) = (world.root.clone(), intended.expect("it is intended"));
    let judged = Judged {
        decision: Decision::Deny,
        policy: Digest::of(b"a later set"),
        policies: vec!["no-tickets".to_owned()],
        reason: "the desk is being moved".to_owned(),
    };
    world.tell(
        &root,
        Command::Effect {
            key: intended.key,
            attempt: 1,
            outcome: EffectOutcome::Denied(Box::new(judged)),
        },
    );
    let ended = world.run_on();
    assert_eq!(ended.class.as_deref(), Some("policy_denied"));
    let withdrawn = world.events().find_map(|(_, event)| match event {
        Event::Effect(effect::Event::Withdrawn(withdrawn)) => Some(withdrawn.why.clone()),
        _ => None,
    });
    assert_eq!(
        withdrawn.as_deref(),
        Some("denied by policy (no-tickets): the desk is being moved")
    );
    let last = decisions(&world).pop().expect("it is recorded");
    assert_eq!(last.policy, Digest::of(b"a later set"));
    let state = world.fold(&world.root);
    assert!(state.account().is_conserved());
    assert!(state.account().calls.is_nothing(), "nothing stays reserved");
}

#[test]
fn a_question_says_who_asks_and_where_the_arguments_come_from() {
    let mut world = governed(|question| {
        let subject = question.subject;
        assert_eq!(subject.principal, "user:tester");
        match question.tool.contract.tool.as_str() {
            "create_ticket" => {
                assert_eq!((subject.depth, &subject.agent), (0, &None));
                assert_eq!(subject.taint, [Taint::Model].into());
            }
            _ => {
                assert_eq!(subject.depth, 1);
                assert_eq!(
                    subject.agent.as_ref().map(ToString::to_string).as_deref(),
                    Some("researcher")
                );
                assert_eq!(subject.taint, [Taint::Model].into());
            }
        }
        Decision::Allow
    });
    assert_eq!(world.run().reason, Reason::Succeeded);
}

const ONE_TICKET: &str = r#"
topology: one-ticket
version: 1
contract: default
result_schema: ticket_ref_v1
input: { type: object }
nodes:
  file:
    call: { tool: create_ticket, arguments: { title: "One", body: "b", request_id: { from: input, at: /request_id } } }
  done:
    after: [file]
    end: { reason: succeeded, answer: { ticket: { from: file, at: /id } }, evidence: [ { check: find_ticket, arguments: { request_id: { from: input, at: /request_id } }, expect: { eq: [ { from: check, at: /count }, 1 ] } } ] }
"#;
