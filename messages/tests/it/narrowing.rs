//! Narrowing: a child's envelope is at most its parent's in every field, or there is none (`spec/delegation.md` 2).
//!
//! Here are the properties, over random parents, accounts and requests; `fields` widens each field alone.

mod fields;
pub mod random;

use coppice_messages::{
    Access, Account, Delegation, Millis, Spent,
    delegation::{Field, Request, Standing},
    ids::{RunId, ToolName},
};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};

use self::random::{Case, PROBES, case};
use crate::samples::{self, named};

/// The access that each known tool needs.
fn tool_access(tool: &ToolName) -> Option<Access> {
    match tool.as_str() {
        "read_incident" | "search_runbook" => Some(Access::ReadOnly),
        "create_ticket" | "close_ticket" => Some(Access::ReadWrite),
        "idle" => Some(Access::None),
        _ => None,
    }
}

/// Given a child made under this parent, when both are compared, then no field has more than the parent's, and the
/// check that folding makes agrees.
fn check_at_most(parent: &Delegation, child: &Delegation) -> Result<(), TestCaseError> {
    prop_assert!(
        parent.admits(child),
        "{:?} does not admit {:?}",
        parent,
        child
    );
    prop_assert_eq!(child.parent(), Some(parent.run()));
    prop_assert_eq!(child.return_owner(), Some(parent.run()));
    check_no_more(parent, child)
}

/// What holds over any number of generations.
fn check_no_more(elder: &Delegation, child: &Delegation) -> Result<(), TestCaseError> {
    prop_assert_eq!(child.tenant(), elder.tenant());
    prop_assert_eq!(child.principal(), elder.principal());
    prop_assert!(child.access() <= elder.access());
    let passable = elder.permitted_tools() | elder.may_delegate();
    prop_assert!(child.permitted_tools().is_subset(&passable));
    prop_assert!(child.may_delegate().is_subset(elder.may_delegate()));
    prop_assert!(child.input_refs().is_subset(elder.input_refs()));
    for resource in PROBES {
        let permitted = child.resources().permits(resource);
        prop_assert!(
            !permitted || elder.resources().permits(resource),
            "{}",
            resource
        );
    }
    prop_assert!(elder.resources().deny.is_subset(&child.resources().deny));
    for dimension in Spent::dimensions() {
        let (has, had) = (child.budget().get(dimension), elder.budget().get(dimension));
        prop_assert!(has <= had, "{}: {} > {}", dimension, has, had);
    }
    let (has, had) = (child.held(), elder.held());
    prop_assert!(has.concurrency <= had.concurrency);
    prop_assert!(has.storage <= had.storage);
    prop_assert!(has.depth_left < had.depth_left);
    prop_assert!(has.children_left <= had.children_left);
    prop_assert!(has.spawn_per_minute <= had.spawn_per_minute);
    prop_assert!(child.deadline() <= elder.deadline().minus(elder.join_reserve()));
    Ok(())
}

/// Narrows as the case says.
fn narrow(case: &Case) -> Result<Delegation, coppice_messages::delegation::Widening> {
    let child = RunId::child(case.parent.run(), &named("research"), 1);
    let schema = samples::schema();
    let standing = Standing {
        account: &case.standing.account,
        child: &child,
        children_made: case.standing.children_made,
        made_within_minute: case.standing.made_within_minute,
        share: &case.standing.share,
        agent_tools: &case.standing.agent_tools,
        tool_access: &tool_access,
        result_schema: case.standing.schema_known.then_some(&schema),
    };
    case.parent
        .narrow(&case.request, &standing, samples::at(60))
}

/// A case, and one below the child that it makes; below its parent when it makes none.
fn generations() -> impl Strategy<Value = (Case, Case)> {
    case().prop_flat_map(|first| {
        let parent = narrow(&first).unwrap_or_else(|_| first.parent.clone());
        (Just(first), random::case_under(parent))
    })
}

/// The request that repeats everything its parent has.
fn equal_request(parent: &Delegation) -> Request {
    Request {
        objective: "The same again".into(),
        input_refs: parent.input_refs().clone(),
        permitted_tools: Some(parent.permitted_tools().clone()),
        may_delegate: parent.may_delegate().clone(),
        authority_scope: coppice_messages::delegation::AuthorityScope {
            tenant: None,
            access: parent.access(),
        },
        resources: parent.resources().allow.clone(),
        deny: parent.resources().deny.clone(),
        budget: coppice_messages::delegation::BudgetRequest {
            steps: Some(parent.budget().steps),
            tokens: Some(parent.budget().tokens),
            cost: Some(coppice_messages::MicroUsd(parent.budget().cost)),
            network: Some(coppice_messages::Bytes(parent.budget().network)),
            storage: Some(parent.held().storage),
            concurrency: Some(parent.held().concurrency),
            wall_clock: None,
        },
        operations: Some(parent.budget().operations.clone()),
        depth_left: parent.held().depth_left.saturating_sub(1),
        children_left: parent.held().children_left,
        spawn_per_minute: Some(parent.held().spawn_per_minute),
        join_reserve: Millis(0),
        ..Request::default()
    }
}

proptest! {
    #![proptest_config(Config::with_cases(1000))]

    #[test]
    fn a_child_has_at_most_what_its_parent_has(case in case()) {
        if let Ok(child) = narrow(&case) {
            check_at_most(&case.parent, &child)?;
            prop_assert!(case.standing.account.affords(child.budget()).is_ok(), "more than is left");
            prop_assert_eq!(child.objective(), &case.request.objective);
            prop_assert_eq!(child.completion(), &case.request.completion);
            if let Some(span) = case.request.budget.wall_clock {
                prop_assert!(child.deadline() <= samples::at(60).plus(span));
            }
            if let Some(deadline) = case.request.deadline {
                prop_assert!(child.deadline() <= deadline);
            }
        }
    }

    #[test]
    fn a_request_is_granted_as_asked_or_refused_and_never_clipped(case in case()) {
        if let Ok(child) = narrow(&case) {
            let asked = &case.request;
            prop_assert_eq!(child.budget(), &asked.spent(&case.standing.share));
            prop_assert_eq!(child.access(), asked.authority_scope.access);
            prop_assert_eq!(child.permitted_tools(), asked.permitted_tools.as_ref().unwrap_or(&case.standing.agent_tools));
            prop_assert_eq!(child.may_delegate(), &asked.may_delegate);
            prop_assert_eq!(child.input_refs(), &asked.input_refs);
            prop_assert_eq!(&child.resources().allow, &asked.resources);
            prop_assert!(asked.deny.is_subset(&child.resources().deny));
            prop_assert_eq!(child.held().depth_left, asked.depth_left);
            prop_assert_eq!(child.held().children_left, asked.children_left);
        }
    }

    #[test]
    fn narrowing_is_transitive((first, second) in generations()) {
        if let Some((child, grandchild)) = narrow(&first).ok().zip(narrow(&second).ok()) {
            check_at_most(&child, &grandchild)?;
            check_no_more(&first.parent, &grandchild)?;
        }
    }

    #[test]
    fn an_equal_request_is_refused_as_not_narrower(parent in random::parent(), zero in any::<bool>(), less_held in any::<bool>()) {
        let mut request = equal_request(&parent);
        if zero {
            request.operations.get_or_insert_default().entry(coppice_messages::Operation::Pay).or_insert(0);
        }
        if less_held {
            request.children_left = 0;
        }
        let account = Account::open(parent.budget().clone());
        let standing = Standing {
            account: &account,
            child: &named("child"),
            children_made: 0,
            made_within_minute: 0,
            share: &Spent::default(),
            agent_tools: &[].into(),
            tool_access: &|_| Some(Access::None),
            result_schema: None,
        };
        let refused = parent.narrow(&request, &standing, samples::at(0)).expect_err("it is equal");
        prop_assert_eq!(refused.field, Field::NotNarrower);
    }
}

#[test]
fn the_random_requests_are_granted_and_refused_often_enough() {
    let mut runner = TestRunner::deterministic();
    let granted = (0..1000)
        .filter(|_| {
            let tree = case().new_tree(&mut runner).expect("a case can be made");
            narrow(&tree.current()).is_ok()
        })
        .count();
    assert!((200..800).contains(&granted), "{granted} of 1000 granted");
}
