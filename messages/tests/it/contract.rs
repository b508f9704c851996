//! The execution contract: ten fields, none of which may be missing, and a root's envelope made of them.

use coppice_messages::{
    Access, Contract, Delegation, Dimension, Millis, Operation, delegation::Root,
};

use crate::samples::{self, all_named, at, named};

/// One line a field, so that each can be taken away.
const CONTRACT: [&str; 12] = [
    "contract: incidents",
    "version: 3",
    "task_boundary: { accepts: [comparisons of incident records], excludes: [changes of records], systems: [desk], environments: [test], unit_of_work: one comparison, person_takes_over: when records disagree }",
    "success_evidence: { answer: a ticket id, world: [exactly one ticket], artifacts: [report], uncertainty: named in the answer }",
    "allowed_operations: { read: 64, create: 1 }",
    "authority: { tools: [read_incident, create_ticket], may_delegate: [search_runbook], access: read_write, resources: { allow: [desk/*, runbooks], deny: [desk/secret/*] }, valid_for: 1h }",
    "data_boundary: { may_read: [incidents], may_leave: [ticket text to desk], keep_for: 1d, redact: [/body/email] }",
    "budget: { steps: 100, tokens: 200000, cost: \"2.50 USD\", wall_clock: 30m, concurrency: 8, storage: 10MiB, network: 1MiB, depth: 2, children: 16, spawn_per_minute: 60, join_reserve: 1m }",
    "human_control: { create: none }",
    "termination: { consecutive_failures: 3, no_progress: 4 }",
    "recovery: { attempts: 3, backoff: 200ms }",
    "rollback: { controller: 0.1.0, tools: tools-7, policy: policy-2, sandbox_image: none, route: scripted/summarise }",
];

const FIELDS: [&str; 10] = [
    "task_boundary",
    "success_evidence",
    "allowed_operations",
    "authority",
    "data_boundary",
    "budget",
    "human_control",
    "termination",
    "recovery",
    "rollback",
];

/// Given a contract of these lines, when it is read, then it is refused, and the error names this.
#[track_caller]
fn check_refused(lines: &[&str], named: &str) {
    let refused = serde_saphyr::from_str::<Contract>(&lines.join("\n"));
    let said = refused.expect_err("it is not a contract").to_string();
    assert!(said.contains(named), "{said:?} does not name {named:?}");
}

fn name_of(line: &str) -> &str {
    line.split_once(':').expect("a line is a field").0
}

#[test]
fn a_contract_with_all_ten_fields_is_read() {
    let read: Contract = serde_saphyr::from_str(&CONTRACT.join("\n")).expect("it is whole");
    assert_eq!(read, samples::contract());
    let json = serde_json::to_vec(&read).expect("it is JSON");
    let again: Contract = serde_json::from_slice(&json).expect("its JSON is read");
    assert_eq!(again, read);
}

#[test]
fn a_contract_without_one_of_its_fields_is_refused_and_the_field_named() {
    let fields: Vec<&str> = CONTRACT.iter().map(|line| name_of(line)).collect();
    assert!(FIELDS.iter().all(|field| fields.contains(field)));
    for field in fields {
        let without: Vec<&str> = CONTRACT
            .into_iter()
            .filter(|line| name_of(line) != field)
            .collect();
        check_refused(&without, &format!("`{field}`"));
    }
}

#[test]
fn a_field_that_is_empty_is_no_field() {
    for field in FIELDS {
        let line = format!("{field}:");
        let emptied = CONTRACT.map(|whole| {
            if name_of(whole) == field {
                &*line
            } else {
                whole
            }
        });
        let refused = serde_saphyr::from_str::<Contract>(&emptied.join("\n"));
        assert!(refused.is_err(), "an empty {field} is taken for a field");
    }
}

#[test]
fn a_part_of_a_field_that_is_missing_is_refused_and_named() {
    for (line, part) in [
        ("termination: { consecutive_failures: 3 }", "`no_progress`"),
        ("recovery: { attempts: 3 }", "`backoff`"),
        ("task_boundary: { accepts: [all] }", "`excludes`"),
    ] {
        let lacking = CONTRACT.map(|whole| {
            if name_of(whole) == name_of(line) {
                line
            } else {
                whole
            }
        });
        check_refused(&lacking, part);
    }
}

#[test]
fn a_field_that_no_contract_has_is_refused_and_named() {
    let more = [&CONTRACT[..], &["goal: be helpful"]].concat();
    check_refused(&more, "goal");
}

#[test]
fn a_field_that_stands_twice_is_refused() {
    let twice = [&CONTRACT[..], &["recovery: { attempts: 9, backoff: 1ms }"]].concat();
    check_refused(&twice, "recovery");
}

fn root_of(contract: &Contract) -> Delegation {
    let root = Root {
        run: named("run_85a"),
        tenant: named("acme"),
        principal: "user:ada".into(),
        objective: "Compare".into(),
        result_schema: Some(samples::schema()),
        input_refs: all_named(&["incident_104"]),
    };
    Delegation::root(contract, root, at(0))
}

#[test]
fn a_root_has_what_its_contract_allows() {
    let root = root_of(&samples::contract());
    assert_eq!((root.parent(), root.return_owner()), (None, None));
    assert_eq!(
        root.permitted_tools(),
        &all_named(&["create_ticket", "read_incident"])
    );
    assert_eq!(root.may_delegate(), &all_named(&["search_runbook"]));
    assert_eq!(root.access(), Access::ReadWrite);
    assert!(root.resources().permits("desk/1"));
    assert!(!root.resources().permits("desk/secret/1"));
    assert_eq!(root.budget().get(Dimension::Cost), 2_500_000);
    assert_eq!(
        root.budget().get(Dimension::Operation(Operation::Create)),
        1
    );
    assert_eq!(root.budget().get(Dimension::Operation(Operation::Pay)), 0);
    assert_eq!((root.held().depth_left, root.held().children_left), (2, 16));
    assert_eq!(root.join_reserve(), Millis(60_000));
}

#[test]
fn a_root_ends_with_its_wall_clock_or_its_authority_whichever_is_earlier() {
    let mut contract = samples::contract();
    assert_eq!(root_of(&contract).deadline(), at(1800));
    contract.authority.valid_for = Millis(60_000);
    assert_eq!(root_of(&contract).deadline(), at(60));
}

#[test]
fn a_class_with_the_count_0_is_the_same_as_one_that_is_absent() {
    let mut contract = samples::contract();
    let without = root_of(&contract);
    contract.allowed_operations.insert(Operation::Pay, 0);
    assert_eq!(root_of(&contract), without);
}
