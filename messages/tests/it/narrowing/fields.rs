//! Each field of a request widened alone is refused, and the error names that field; each field of a recorded child
//! that has more than its parent is not admitted.

use coppice_messages::{
    Access, Account, Bytes, Contract, Delegation, MicroUsd, Millis, Operation, Spent,
    contract::Authority,
    delegation::{AuthorityScope, BudgetRequest, Request, Root, Standing},
    ids::RunId,
};
use serde_json::{Value, json};

use super::tool_access;
use crate::samples::{self, all_named, at, named};

/// A parent that reads, keeps a minute for itself and has half of its steps left.
fn parent() -> Delegation {
    let sample = samples::contract();
    let contract = Contract {
        authority: Authority {
            tools: all_named(&["idle", "read_incident"]),
            access: Access::ReadOnly,
            ..sample.authority.clone()
        },
        ..sample
    };
    let root = Root {
        run: named("run_85a"),
        tenant: named("acme"),
        principal: "user:ada".into(),
        objective: "Compare".into(),
        result_schema: None,
        input_refs: all_named(&["incident_104", "incident_119"]),
    };
    Delegation::root(&contract, root, at(0))
}

fn child_id() -> RunId {
    RunId::child(&named("run_85a"), &named("research"), 2)
}

/// A request that goes to the limit in every field that has one.
fn request() -> Request {
    Request {
        parent_run_id: Some(named("run_85a")),
        child_run_id: Some(child_id()),
        objective: "Summarise".into(),
        input_refs: all_named(&["incident_104", "incident_119"]),
        permitted_tools: Some(all_named(&["idle", "read_incident", "search_runbook"])),
        may_delegate: all_named(&["search_runbook"]),
        authority_scope: AuthorityScope {
            tenant: Some(named("acme")),
            access: Access::ReadOnly,
        },
        resources: all_named(&["desk/*", "runbooks"]),
        deny: all_named(&["runbooks/old"]),
        budget: BudgetRequest {
            steps: Some(50),
            tokens: Some(200_000),
            cost: Some(MicroUsd(2_500_000)),
            network: Some(Bytes(1 << 20)),
            storage: Some(Bytes(10 << 20)),
            concurrency: Some(8),
            wall_clock: Some(Millis(1_680_000)),
        },
        operations: Some([(Operation::Read, 64), (Operation::Create, 1)].into()),
        deadline: Some(at(1740)),
        result_schema: Some(samples::schema().name),
        completion: "with evidence".into(),
        return_owner: Some(named("run_85a")),
        depth_left: 1,
        children_left: 16,
        spawn_per_minute: Some(60),
        join_reserve: Millis(0),
    }
}

/// Children that the parent has made: in all, and within the last minute.
#[derive(Default)]
struct Made(u32, u32);

fn narrow(parent: &Delegation, request: &Request, made: &Made) -> Result<Delegation, String> {
    let mut account = Account::open(parent.budget().clone());
    account.used.steps = 30;
    account.calls.steps = 15;
    account.children.steps = 5;
    let (schema, child) = (samples::schema(), child_id());
    let standing = Standing {
        account: &account,
        child: &child,
        children_made: made.0,
        made_within_minute: made.1,
        share: &Spent::step(),
        agent_tools: &all_named(&["read_incident"]),
        tool_access: &tool_access,
        result_schema: Some(&schema),
    };
    let narrowed = parent.narrow(request, &standing, at(60));
    narrowed.map_err(|widening| widening.to_string())
}

/// Given a request at its limits, when this alone is changed, then it is refused at that field, and said so.
#[track_caller]
fn check(change: impl FnOnce(&mut Request), refusal: &str) {
    check_made(&Made::default(), change, refusal);
}

#[track_caller]
fn check_made(made: &Made, change: impl FnOnce(&mut Request), refusal: &str) {
    let mut request = request();
    narrow(&parent(), &request, &Made(15, 59)).expect("what is at the limit is granted");
    change(&mut request);
    let refused = narrow(&parent(), &request, made).expect_err("it is more than the parent has");
    assert_eq!(refused, format!("delegation refused at {refusal}"));
}

#[test]
fn another_parent_is_refused() {
    check(
        |request| request.parent_run_id = Some(named("run_1")),
        "parent_run_id: asked run_1, the parent has run_85a",
    );
}

#[test]
fn another_id_than_the_derived_one_is_refused() {
    check(
        |request| request.child_run_id = Some(named("run_2")),
        &format!("child_run_id: asked run_2, the parent has {}", child_id()),
    );
}

#[test]
fn another_owner_of_the_result_is_refused() {
    check(
        |request| request.return_owner = Some(named("run_3")),
        "return_owner: asked run_3, the parent has run_85a",
    );
}

#[test]
fn an_input_that_the_parent_may_not_read_is_refused() {
    check(
        |request| request.input_refs.extend(["incident_200".to_owned()]),
        "input_refs: asked incident_200, the parent has incident_104, incident_119",
    );
}

#[test]
fn a_tool_that_the_parent_can_neither_call_nor_pass_on_is_refused() {
    check(
        |request| request.permitted_tools = Some(all_named(&["create_ticket"])),
        "permitted_tools: asked create_ticket, the parent has idle, read_incident, search_runbook",
    );
}

#[test]
fn passing_on_a_tool_that_the_parent_may_only_call_is_refused() {
    check(
        |request| request.may_delegate = all_named(&["read_incident"]),
        "may_delegate: asked read_incident, the parent has search_runbook",
    );
}

#[test]
fn another_tenant_is_refused() {
    check(
        |request| request.authority_scope.tenant = Some(named("other")),
        "authority_scope.tenant: asked other, the parent has acme",
    );
}

#[test]
fn more_access_is_refused() {
    check(
        |request| request.authority_scope.access = Access::ReadWrite,
        "authority_scope.access: asked read_write, the parent has read_only",
    );
}

#[test]
fn a_tool_that_needs_more_access_than_is_asked_is_refused() {
    check(
        |request| request.authority_scope.access = Access::None,
        "authority_scope.access: asked read_only for read_incident, the parent has none",
    );
}

#[test]
fn a_resource_that_no_rule_covers_is_refused() {
    check(
        |request| request.resources = all_named(&["desk/1", "wiki/*"]),
        "resources: asked wiki/*, the parent has desk/*, runbooks",
    );
}

#[test]
fn a_prefix_of_an_allowed_resource_is_refused() {
    check(
        |request| request.resources = all_named(&["runbooks/*"]),
        "resources: asked runbooks/*, the parent has desk/*, runbooks",
    );
}

#[test]
fn more_operations_are_refused() {
    check(
        |request| request.operations = Some([(Operation::Create, 2)].into()),
        "operations: asked 2 create, the parent has 1 left",
    );
}

#[test]
fn an_operation_of_a_class_that_the_parent_lacks_is_refused() {
    check(
        |request| request.operations = Some([(Operation::Pay, 1)].into()),
        "operations: asked 1 pay, the parent has 0 left",
    );
}

#[test]
fn more_steps_than_are_left_after_used_and_reserved_are_refused() {
    check(
        |request| request.budget.steps = Some(51),
        "budget: asked 51 steps, the parent has 50 left",
    );
}

#[test]
fn more_tokens_are_refused() {
    check(
        |request| request.budget.tokens = Some(200_001),
        "budget: asked 200001 tokens, the parent has 200000 left",
    );
}

#[test]
fn more_money_is_refused() {
    check(
        |request| request.budget.cost = Some(MicroUsd(2_500_001)),
        "budget: asked 2500001 cost, the parent has 2500000 left",
    );
}

#[test]
fn more_network_is_refused() {
    check(
        |request| request.budget.network = Some(Bytes((1 << 20) + 1)),
        "budget: asked 1048577 network, the parent has 1048576 left",
    );
}

#[test]
fn more_storage_is_refused() {
    check(
        |request| request.budget.storage = Some(Bytes(11 << 20)),
        "budget.storage: asked 11MiB, the parent has 10MiB",
    );
}

#[test]
fn more_concurrency_is_refused() {
    check(
        |request| request.budget.concurrency = Some(9),
        "budget.concurrency: asked 9, the parent has 8",
    );
}

#[test]
fn a_wall_clock_that_runs_into_the_reserve_of_the_parent_is_refused() {
    check(
        |request| request.budget.wall_clock = Some(Millis(1_680_001)),
        "budget.wall_clock: asked 2026-08-07T18:29:00.001250Z, the parent has 2026-08-07T18:29:00.000250Z",
    );
}

#[test]
fn a_deadline_within_the_reserve_of_the_parent_is_refused() {
    check(
        |request| request.deadline = Some(at(1741)),
        "deadline: asked 2026-08-07T18:29:01.000250Z, the parent has 2026-08-07T18:29:00.000250Z",
    );
}

#[test]
fn a_depth_that_does_not_fall_is_refused() {
    check(
        |request| request.depth_left = 2,
        "depth_left: asked 2, the parent has 1",
    );
}

#[test]
fn more_children_are_refused() {
    check(
        |request| request.children_left = 17,
        "children_left: asked 17, the parent has 16",
    );
}

#[test]
fn a_faster_rate_of_spawning_is_refused() {
    check(
        |request| request.spawn_per_minute = Some(61),
        "spawn_per_minute: asked 61, the parent has 60",
    );
}

#[test]
fn a_child_beyond_the_number_of_children_is_refused() {
    check_made(
        &Made(16, 0),
        |_| (),
        "children_left: asked 17, the parent has 16",
    );
}

#[test]
fn a_child_beyond_the_rate_is_refused() {
    check_made(
        &Made(0, 60),
        |_| (),
        "spawn_per_minute: asked 61, the parent has 60",
    );
}

#[test]
fn a_schema_that_is_not_known_is_refused() {
    check(
        |request| request.result_schema = Some(named("anything")),
        "result_schema: asked anything, the parent has incident_comparison_v2",
    );
}

#[test]
fn a_tool_in_no_catalogue_is_refused_where_it_stands() {
    let mut contract = samples::contract();
    contract.authority.tools = all_named(&["unheard_of"]);
    contract.authority.may_delegate = all_named(&["unheard_of"]);
    let root = Root {
        run: named("run_85a"),
        tenant: named("acme"),
        principal: "user:ada".into(),
        objective: "Compare".into(),
        result_schema: None,
        input_refs: [].into(),
    };
    let parent = Delegation::root(&contract, root, at(0));
    let refused = |request| {
        let refused = narrow(&parent, &request, &Made::default());
        refused.expect_err("nobody knows what the tool needs")
    };
    let called = Request {
        permitted_tools: Some(all_named(&["unheard_of"])),
        ..Request::default()
    };
    assert!(refused(called).contains("at permitted_tools: asked unheard_of"));
    let passed_on = Request {
        permitted_tools: Some([].into()),
        may_delegate: all_named(&["unheard_of"]),
        ..Request::default()
    };
    assert!(refused(passed_on).contains("at may_delegate: asked unheard_of"));
}

#[test]
fn a_child_at_the_last_level_cannot_delegate() {
    let leaf = Request {
        depth_left: 0,
        ..request()
    };
    let child = narrow(&parent(), &leaf, &Made::default()).expect("it is granted");
    let nothing = Request {
        permitted_tools: Some([].into()),
        budget: BudgetRequest {
            steps: Some(0),
            ..BudgetRequest::default()
        },
        ..Request::default()
    };
    let refused = narrow(&child, &nothing, &Made::default());
    assert_eq!(
        refused.expect_err("there is no level left"),
        "delegation refused at depth_left: asked one more level, the parent has no level left"
    );
}

#[test]
fn what_is_left_out_is_never_all_of_the_parents() {
    let child = narrow(
        &parent(),
        &Request {
            authority_scope: AuthorityScope {
                access: Access::ReadOnly,
                tenant: None,
            },
            ..Request::default()
        },
        &Made::default(),
    )
    .expect("a request for nothing in particular is granted");
    assert_eq!(child.permitted_tools(), &all_named(&["read_incident"]));
    assert_eq!(child.may_delegate(), &[].into());
    assert_eq!(child.input_refs(), &[].into());
    assert_eq!(child.resources().allow, [].into());
    assert_eq!(child.budget(), &Spent::step());
    assert_eq!(child.deadline(), at(1740));
    assert_eq!(child.result_schema(), Some(&samples::schema()));
    let held = child.held();
    assert_eq!((held.concurrency, held.storage), (0, Bytes(0)));
    let limits = (held.depth_left, held.children_left, held.spawn_per_minute);
    assert_eq!(limits, (0, 0, 0));
}

#[test]
fn denies_are_inherited_and_win_over_what_is_asked() {
    let asked = Request {
        resources: all_named(&["desk/secret/1", "desk/secret/*", "desk/open"]),
        ..request()
    };
    let child = narrow(&parent(), &asked, &Made::default()).expect("what is asked is covered");
    assert!(child.resources().permits("desk/open"));
    assert!(!child.resources().permits("desk/secret/1"));
    assert_eq!(
        child.resources().deny,
        all_named(&["desk/secret/*", "runbooks/old"])
    );
}

/// Given a child as it was recorded, when this alone is put in its place, then the parent does not admit it.
#[track_caller]
fn check_not_admitted(pointer: &str, put: Value) {
    let child = narrow(&parent(), &request(), &Made::default()).expect("it is granted");
    let recorded = serde_json::to_value(&child).expect("an envelope is JSON");
    let as_recorded: Delegation = serde_json::from_value(recorded.clone()).expect("it is read");
    assert_eq!(as_recorded, child);
    assert!(parent().admits(&child));
    let mut changed = recorded;
    let place = changed.pointer_mut(pointer).expect("the field is recorded");
    assert_ne!(*place, put, "{pointer} is not changed");
    *place = put;
    let child: Delegation = serde_json::from_value(changed).expect("it is well formed");
    assert!(!parent().admits(&child), "{pointer}");
}

#[test]
fn a_recorded_child_that_has_more_in_any_field_is_not_admitted() {
    for (pointer, put) in [
        ("/parent_run_id", json!("run_1")),
        ("/parent_run_id", json!(null)),
        ("/return_owner", json!("run_1")),
        ("/return_owner", json!(null)),
        ("/tenant", json!("other")),
        ("/principal", json!("user:eve")),
        ("/access", json!("read_write")),
        ("/permitted_tools", json!(["create_ticket"])),
        ("/may_delegate", json!(["read_incident"])),
        ("/input_refs", json!(["incident_200"])),
        ("/resources/allow", json!(["desk/1", "wiki"])),
        ("/resources/deny", json!(["runbooks/old"])),
        ("/budget/steps", json!(101)),
        ("/budget/tokens", json!(200_001)),
        ("/budget/cost", json!(2_500_001)),
        ("/budget/network", json!(1_048_577)),
        ("/budget/operations", json!({"create": 2})),
        ("/held/concurrency", json!(9)),
        ("/held/storage", json!("11MiB")),
        ("/held/depth_left", json!(2)),
        ("/held/children_left", json!(17)),
        ("/held/spawn_per_minute", json!(61)),
        ("/deadline", json!("2026-08-07T18:29:00.000251Z")),
    ] {
        check_not_admitted(pointer, put);
    }
}
