//! The notation in which delegation is asked for: the seeds' block parses as it stands, and strictly.

use coppice_messages::{
    Access, Bytes, MicroUsd, Millis, Operation,
    delegation::{AuthorityScope, BudgetRequest, Request, RequestDocument},
};

use crate::samples::{all_named, named};

/// As it stands in the specification.
const SEED: &str = r#"
    delegation:
      parent_run_id: run_85a
      child_run_id: run_85a_research_2
      objective: "Compare the two named incident records"
      input_refs: [incident_104, incident_119]
      permitted_tools: [read_incident, search_runbook]
      authority_scope: {tenant: acme, access: read_only}
      budget: {steps: 12, tokens: 18000, wall_clock: 5m}
      deadline: 2026-08-07T18:30:00Z
      result_schema: incident_comparison_v2
      completion: "return evidence for every difference"
      return_owner: run_85a
"#;

/// Given a document, when it is read, then it is this request, and comes back equal from every form it is kept in.
#[track_caller]
fn check(yaml: &str, delegation: Request) {
    let expected = RequestDocument { delegation };
    let read: RequestDocument = serde_saphyr::from_str(yaml).expect("it is well formed");
    assert_eq!(read, expected);
    let json = serde_json::to_string(&read).expect("it is JSON");
    let again: RequestDocument = serde_json::from_str(&json).expect("its JSON is read");
    assert_eq!(again, expected);
    let again: RequestDocument = serde_saphyr::from_str(&json).expect("JSON is YAML");
    assert_eq!(again, expected);
    let packed = rmp_serde::to_vec_named(&read).expect("it is MessagePack");
    let again: RequestDocument = rmp_serde::from_slice(&packed).expect("it is read");
    assert_eq!(again, expected);
}

/// Given a delegation of these lines, when it is read, then it is refused, and the error says why.
#[track_caller]
fn check_refused(lines: &str, reason: &str) {
    let yaml = format!("delegation:\n  objective: Look\n  {lines}\n");
    let refused = serde_saphyr::from_str::<RequestDocument>(&yaml).expect_err("it is wrong");
    let said = refused.to_string();
    assert!(said.contains(reason), "{said:?} does not say {reason:?}");
}

#[test]
fn the_block_of_the_seeds_parses_as_it_stands() {
    check(
        SEED,
        Request {
            parent_run_id: Some(named("run_85a")),
            child_run_id: Some(named("run_85a_research_2")),
            objective: "Compare the two named incident records".into(),
            input_refs: all_named(&["incident_104", "incident_119"]),
            permitted_tools: Some(all_named(&["read_incident", "search_runbook"])),
            authority_scope: AuthorityScope {
                tenant: Some(named("acme")),
                access: Access::ReadOnly,
            },
            budget: BudgetRequest {
                steps: Some(12),
                tokens: Some(18_000),
                wall_clock: Some(Millis(300_000)),
                ..BudgetRequest::default()
            },
            deadline: Some(named("2026-08-07T18:30:00Z")),
            result_schema: Some(named("incident_comparison_v2")),
            completion: "return evidence for every difference".into(),
            return_owner: Some(named("run_85a")),
            ..Request::default()
        },
    );
}

#[test]
fn what_coppice_adds_stands_beside_it() {
    let yaml = r#"
delegation:
  objective: Summarise
  permitted_tools: []
  may_delegate: [search_runbook]
  authority_scope: {access: read_write}
  resources: [desk/*, runbooks]
  deny: [desk/secret/*]
  operations: {read: 5, create: 1}
  budget: {cost: "1.50 USD", network: 64KiB, storage: 512, concurrency: 2}
  depth_left: 1
  children_left: 4
  spawn_per_minute: 2
  join_reserve: 30s
"#;
    check(
        yaml,
        Request {
            objective: "Summarise".into(),
            permitted_tools: Some([].into()),
            may_delegate: all_named(&["search_runbook"]),
            authority_scope: AuthorityScope {
                tenant: None,
                access: Access::ReadWrite,
            },
            resources: all_named(&["desk/*", "runbooks"]),
            deny: all_named(&["desk/secret/*"]),
            operations: Some([(Operation::Read, 5), (Operation::Create, 1)].into()),
            budget: BudgetRequest {
                cost: Some(MicroUsd(1_500_000)),
                network: Some(Bytes(64 << 10)),
                storage: Some(Bytes(512)),
                concurrency: Some(2),
                ..BudgetRequest::default()
            },
            depth_left: 1,
            children_left: 4,
            spawn_per_minute: Some(2),
            join_reserve: Millis(30_000),
            ..Request::default()
        },
    );
}

#[test]
fn only_the_objective_must_be_there() {
    let request = Request {
        objective: "Look".into(),
        ..Request::default()
    };
    check("delegation: {objective: Look}", request);
    let refused = serde_saphyr::from_str::<RequestDocument>("delegation: {}");
    let said = refused.expect_err("it has no objective").to_string();
    assert!(said.contains("objective"), "{said}");
}

#[test]
fn an_unknown_key_is_refused_and_named() {
    check_refused("tools: [read_incident]", "tools");
    check_refused("budget: {step: 1}", "step");
    check_refused("authority_scope: {role: admin}", "role");
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    check_refused("depth_left: 1\n  depth_left: 2", "depth_left");
    check_refused("budget: {steps: 1, steps: 2}", "steps");
    check_refused("operations: {pay: 1, pay: 2}", "pay");
}

#[test]
fn there_is_no_word_for_all_of_the_parents() {
    check_refused("permitted_tools: all", "sequence");
    check_refused("permitted_tools: ['*']", "only the characters");
    check_refused("resources: ['*']", "not a resource pattern");
    check_refused("authority_scope: {access: all}", "all");
    check_refused("operations: {all: 1}", "all");
}

#[test]
fn a_quantity_without_its_unit_is_refused() {
    check_refused("budget: {wall_clock: 5}", "5m");
    check_refused("budget: {cost: 1.50}", "1.50 USD");
    check_refused("budget: {steps: -1}", "-1");
    check_refused("budget: {steps: 1.5}", "1.5");
    check_refused("deadline: 2026-08-07", "RFC 3339");
}
