//! The policy set: what it allows, denies and leaves to people, what of it is refused, and what changes while something waits.

mod changes;
mod files;

use std::{collections::BTreeMap, path::Path};

use coppice_actors::policy::{PolicyFiles, PolicySet, SCHEMA};
use coppice_kernel::governor::{Governor as _, Judged, Question, Subject, Taint};
use coppice_messages::{
    Access, Spent, Value,
    event::policy::Decision,
    ids::{EffectKey, TenantId, TreeId},
};
use coppice_topology::plan::PinnedTool;

use crate::recorder::released;

/// A set of these policies, with the schema that is shown to everybody.
pub fn files(policies: &str, entities: &str) -> PolicyFiles {
    let texts = [
        ("schema.cedarschema", SCHEMA),
        ("own.cedar", policies),
        ("entities.json", entities),
    ];
    let texts: BTreeMap<String, String> = texts
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
    PolicyFiles::of("policies", texts)
}

pub fn set(policies: &str) -> PolicySet {
    with_entities(policies, "[]")
}

fn with_entities(policies: &str, entities: &str) -> PolicySet {
    PolicySet::load(&files(policies, entities)).unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Writes a set into a directory.
pub fn write(directory: &Path, policies: &str) {
    std::fs::write(directory.join("schema.cedarschema"), SCHEMA).unwrap();
    std::fs::write(directory.join("own.cedar"), policies).unwrap();
    std::fs::write(directory.join("entities.json"), "[]").unwrap();
}

pub fn subject() -> Subject {
    let run = crate::broker::run();
    Subject {
        principal: "user:ada".to_owned(),
        tenant: TenantId::default_tenant(),
        tree: TreeId::of_root(&run),
        run,
        depth: 1,
        agent: Some("refunder".parse().unwrap()),
        access: Access::ReadWrite,
        left: Spent {
            steps: 10,
            ..Spent::default()
        },
        taint: [Taint::Model].into(),
    }
}

fn tool(name: &str) -> PinnedTool {
    let (plan, _) = released("incident-comparison");
    plan.tools[&name.parse().unwrap()].clone()
}

fn refund(amount: &str) -> Value {
    Value::map([
        ("order", Value::from("o-1")),
        ("amount", Value::from(amount)),
        ("currency", Value::from("USD")),
    ])
}

fn judge_as(set: &PolicySet, subject: &Subject, arguments: &Value) -> Judged {
    set.judge(&Question {
        subject,
        tool: &tool("pay_refund"),
        arguments: Some(arguments),
        key: EffectKey::derive(
            &subject.tenant,
            &"pay_refund".parse().unwrap(),
            &subject.run,
            "o-1",
        ),
    })
}

fn judge(set: &PolicySet, amount: &str) -> Judged {
    judge_as(set, &subject(), &refund(amount))
}

fn approve(by: &str, people: u32) -> Decision {
    Decision::Approve {
        by: by.to_owned(),
        people,
    }
}

const LIMITED: &str = r#"
@id("small-refunds")
permit (principal in Agent::"refunder", action == Action::"pay_refund", resource)
when { context.amounts.amount.lessThanOrEqual(decimal("50.00")) };

@id("larger-refunds") @approve("role:operator") @reason("refunds over 50.00 are for people")
permit (principal, action == Action::"pay_refund", resource)
when { context.amounts.amount.greaterThan(decimal("50.00")) };

@id("huge-refunds") @approve("role:treasurer") @people("2")
permit (principal, action == Action::"pay_refund", resource)
when { context.amounts.amount.greaterThan(decimal("500.00")) };

@id("no-refund-over-1000") @reason("nobody pays over 1000.00 here")
forbid (principal, action == Action::"pay_refund", resource)
when { context.amounts.amount.greaterThan(decimal("1000.00")) };
"#;

#[test]
fn small_is_allowed_larger_is_for_people_and_a_forbid_wins_over_every_permit() {
    let set = set(LIMITED);
    let table = [
        ("50.00", Decision::Allow, &["small-refunds"][..], ""),
        (
            "50.01",
            approve("role:operator", 1),
            &["larger-refunds"],
            "refunds over 50.00 are for people",
        ),
        (
            "500.01",
            approve("role:treasurer", 2),
            &["huge-refunds", "larger-refunds"],
            "refunds over 50.00 are for people",
        ),
        (
            "1000.01",
            Decision::Deny,
            &["no-refund-over-1000"],
            "nobody pays over 1000.00 here",
        ),
    ];
    for (amount, decision, policies, reason) in table {
        let judged = judge(&set, amount);
        assert_eq!(judged.decision, decision, "{amount}: {judged:?}");
        assert_eq!(judged.policies, policies, "{amount}");
        assert_eq!(judged.reason, reason, "{amount}");
        assert_eq!(judged.policy, set.digest());
    }
}

#[test]
fn what_nothing_permits_is_denied() {
    let judged = judge(&set(""), "1.00");
    assert_eq!(judged.decision, Decision::Deny);
    assert!(judged.policies.is_empty());
    assert_eq!(judged.reason, "no policy permits pay_refund");
    let mut other = subject();
    other.agent = Some("researcher".parse().unwrap());
    let judged = judge_as(&set(LIMITED), &other, &refund("1.00"));
    assert_eq!(
        judged.decision,
        Decision::Deny,
        "another agent than refunder"
    );
}

#[test]
fn a_policy_speaks_about_the_run_the_user_behind_it_and_where_arguments_come_from() {
    let entities = r#"[
      { "uid": { "type": "User", "id": "ada" }, "attrs": {}, "parents": [ { "type": "Role", "id": "support" } ] },
      { "uid": { "type": "Role", "id": "support" }, "attrs": {}, "parents": [] }
    ]"#;
    for condition in [
        r#"principal in Role::"support""#,
        r#"principal in User::"ada""#,
        r#"principal.tenant == "default" && principal.depth == 1"#,
        r#"principal.launched_by == "user:ada" && principal.agent == "refunder""#,
        r#"context.tenant == "default" && context.taint.contains("model")"#,
        r#"context.budget.steps == 10 && context.budget.cost == 0"#,
        r#"context.arguments.order like "o-*""#,
        r#"resource == Resource::"order::o-1" && resource.kind == "order""#,
    ] {
        let holds = format!(
            "permit (principal, action == Action::\"pay_refund\", resource) when {{ {condition} }};"
        );
        let judged = judge(&with_entities(&holds, entities), "1.00");
        assert_eq!(judged.decision, Decision::Allow, "{condition}: {judged:?}");
        let fails = holds.replace(" when ", " unless ");
        let judged = judge(&with_entities(&fails, entities), "1.00");
        assert_eq!(judged.decision, Decision::Deny, "not {condition}");
    }
}

#[test]
fn a_resource_of_another_tenant_is_denied_whatever_the_policies_say() {
    let everything = "permit (principal, action, resource);";
    let of = |tenant: &str| {
        let uid = r#"{ "type": "Resource", "id": "order::o-1" }"#;
        format!(
            r#"[ {{ "uid": {uid}, "attrs": {{ "kind": "order", "id": "o-1", "tenant": "{tenant}" }}, "parents": [] }} ]"#
        )
    };
    let own = judge(&with_entities(everything, &of("default")), "1.00");
    assert_eq!(own.decision, Decision::Allow);
    let foreign = judge(&with_entities(everything, &of("globex")), "1.00");
    assert_eq!(foreign.decision, Decision::Deny);
    assert_eq!(
        foreign.reason,
        "order::o-1 belongs to another tenant than default"
    );
}

#[test]
fn what_a_policy_cannot_look_at_is_denied_and_not_passed_over() {
    // The forbid cannot be evaluated, and Cedar alone would pass over it.
    let set = set(r#"
        permit (principal, action, resource);
        @id("limit") forbid (principal, action == Action::"pay_refund", resource)
        when { context.amounts.amount.greaterThan(decimal("50.00")) };"#);
    assert_eq!(judge(&set, "50.00").decision, Decision::Allow);
    let judged = judge(&set, "many");
    assert_eq!(judged.decision, Decision::Deny);
    assert_eq!(judged.policies, ["limit"]);
    assert!(judged.reason.contains("cannot be evaluated"), "{judged:?}");
}

#[test]
fn a_schema_that_calls_a_payment_a_read_opens_nothing() {
    let mut texts = files(
        "permit (principal, action in Action::\"read\", resource);",
        "[]",
    )
    .texts()
    .clone();
    let schema = SCHEMA.replace("pay_refund in [pay]", "pay_refund in [read]");
    texts.insert("schema.cedarschema".to_owned(), schema);
    let set = PolicySet::load(&PolicyFiles::of("policies", texts)).unwrap();
    let judged = judge(&set, "1.00");
    assert_eq!(judged.decision, Decision::Deny);
    assert!(
        judged.reason.contains("action pay_refund in [pay]"),
        "{judged:?}"
    );
}

#[test]
fn arguments_beyond_the_bounds_are_denied_at_once() {
    let everything = set("permit (principal, action, resource);");
    let many = Value::List((0..2_000).map(Value::Int).collect());
    let long = Value::Text("x".repeat(70_000));
    for large in [many, long] {
        let arguments = Value::map([("order", "o-1".into()), ("note", large)]);
        let judged = judge_as(&everything, &subject(), &arguments);
        assert_eq!(judged.decision, Decision::Deny);
        assert!(
            judged.reason.contains("no policy looks at them"),
            "{judged:?}"
        );
    }
    let subject = subject();
    let judged = everything.judge(&Question {
        subject: &subject,
        tool: &tool("pay_refund"),
        // Those that lie beside the event.
        arguments: None,
        key: EffectKey::derive(
            &subject.tenant,
            &"pay_refund".parse().unwrap(),
            &subject.run,
            "o-1",
        ),
    });
    assert_eq!(judged.decision, Decision::Deny);
}

#[test]
fn the_same_question_has_the_same_answer_and_every_form_of_json_can_be_asked_about() {
    let set = set("permit (principal, action, resource);");
    let arguments = Value::parse(
        br#"{"order": "o-1", "note": null, "ratio": 0.25, "third": 0.3333333333333333, "deep": {"list": [1, "two", false, [null]]}, "amount": "-7.5"}"#,
    )
    .unwrap();
    let first = judge_as(&set, &subject(), &arguments);
    assert_eq!(first.decision, Decision::Allow);
    assert_eq!(judge_as(&set, &subject(), &arguments), first);
}
