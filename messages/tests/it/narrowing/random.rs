//! Random parents, accounts and requests. A request takes from what its parent has and, now and then, from beyond.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::{
    Access, Account, Bytes, Contract, Delegation, MicroUsd, Millis, Operation, Spent,
    budget::Held,
    contract::{Authority, ContractBudget},
    delegation::{AuthorityScope, BudgetRequest, Request, Root},
    ids::ToolName,
    scope::{Pattern, Resources},
};
use proptest::{
    option,
    prelude::*,
    sample::{select, subsequence},
};

use crate::{
    samples::{self, all_named, named},
    strategies::{amounts, some_of},
};

const TOOLS: &[&str] = &[
    "close_ticket",
    "create_ticket",
    "idle",
    "read_incident",
    "search_runbook",
];
/// Of these, `unheard_of` is in no catalogue.
const TOOLS_BEYOND: &[&str] = &["close_ticket", "read_incident", "unheard_of"];
/// Patterns that overlap in every way.
pub const PATTERNS: &[&str] = &[
    "a", "a/", "a/*", "a/b", "a/b/", "a/b/*", "a/bc", "b/*", "b/x",
];
/// Resources to which they may lead.
pub const PROBES: &[&str] = &[
    "", "a", "a/", "a/*", "a/b", "a/b/", "a/b/c", "a/bc", "ab", "b", "b/", "b/x", "b/xy", "c",
];
const INPUTS: &[&str] = &["incident_104", "incident_119", "incident_200"];

/// A parent, where it stands, and what is asked of it.
#[derive(Debug, Clone)]
pub struct Case {
    pub parent: Delegation,
    pub standing: Place,
    pub request: Request,
}

/// The owned twin of a standing.
#[derive(Debug, Clone)]
pub struct Place {
    pub account: Account,
    pub children_made: u32,
    pub made_within_minute: u32,
    pub share: Spent,
    pub agent_tools: BTreeSet<ToolName>,
    pub schema_known: bool,
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![1 => Just(Access::None), 2 => Just(Access::ReadOnly), 7 => Just(Access::ReadWrite)]
}

/// Random rules.
pub fn resources() -> impl Strategy<Value = Resources> {
    (some_of(PATTERNS), some_of(PATTERNS)).prop_map(|(allow, deny)| Resources { allow, deny })
}

/// A root's envelope under a random contract.
pub fn parent() -> impl Strategy<Value = Delegation> {
    let authority = (some_of(TOOLS), some_of(TOOLS), access(), resources()).prop_map(
        |(tools, may_delegate, access, resources)| Authority {
            tools,
            may_delegate,
            access,
            resources,
            valid_for: Millis(900_000),
        },
    );
    let held = [1_u32..4, 1..5, 1..5];
    let clocks = [0_u64..2_000_000, 0..200_000];
    let parts = (
        authority,
        amounts(50),
        held,
        clocks,
        [0_u64..9, 0..9],
        some_of::<String>(INPUTS),
    );
    parts.prop_map(
        |(authority, spent, held, clocks, [concurrency, storage], inputs)| {
            let [depth, children, spawn_per_minute] = held;
            let [wall_clock, join_reserve] = clocks.map(Millis);
            let contract = Contract {
                authority,
                allowed_operations: spent.operations,
                budget: ContractBudget {
                    steps: spent.steps,
                    tokens: spent.tokens,
                    cost: MicroUsd(spent.cost),
                    network: Bytes(spent.network),
                    wall_clock,
                    concurrency,
                    storage: Bytes(storage),
                    depth,
                    children,
                    spawn_per_minute,
                    join_reserve,
                },
                ..samples::contract()
            };
            let root = Root {
                run: named("run_85a"),
                tenant: named("acme"),
                principal: "user:ada".into(),
                objective: "Compare".into(),
                result_schema: None,
                input_refs: inputs,
            };
            Delegation::root(&contract, root, samples::at(0))
        },
    )
}

/// Some of `had`, and seldom one more that may be beyond.
fn mostly_of<T: Clone + Ord + std::fmt::Debug + 'static>(
    had: &BTreeSet<T>,
    beyond: Vec<T>,
) -> impl Strategy<Value = BTreeSet<T>> + use<T> {
    let had: Vec<T> = had.iter().cloned().collect();
    let count = had.len();
    let more = option::weighted(0.04, select(beyond));
    (subsequence(had, 0..=count), more)
        .prop_map(|(some, more)| some.into_iter().chain(more).collect())
}

/// At most `had`, and seldom one more.
fn mostly_within(had: u64) -> impl Strategy<Value = u64> {
    prop_oneof![40 => 0..=had, 1 => Just(had.saturating_add(1))]
}

fn count_within(had: u32) -> impl Strategy<Value = u32> {
    mostly_within(u64::from(had)).prop_map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

fn operations_within(
    had: &BTreeMap<Operation, u64>,
) -> impl Strategy<Value = BTreeMap<Operation, u64>> + use<> {
    let each: Vec<_> = had
        .iter()
        .map(|(operation, count)| (Just(*operation), mostly_within(*count)))
        .collect();
    let beyond = option::weighted(0.04, (select(Operation::ALL.to_vec()), 0_u64..2));
    (each, beyond).prop_map(|(some, beyond)| some.into_iter().chain(beyond).collect())
}

/// Where `parent` may stand: something used, something reserved, some children made.
fn standing_for(parent: &Delegation) -> impl Strategy<Value = Place> + use<> {
    let granted = parent.budget().clone();
    let held = parent.held().clone();
    let passable = parent.permitted_tools() | parent.may_delegate();
    let parts = (
        prop_oneof![Just(Spent::default()), amounts(20)],
        amounts(3),
        1_u64..4,
        [
            count_within(held.children_left / 2),
            count_within(held.spawn_per_minute / 2),
        ],
        mostly_of(&passable, all_named(TOOLS_BEYOND)),
        any::<bool>(),
    );
    parts.prop_map(
        move |(used, calls, parts, [made, lately], agent_tools, schema_known)| {
            let mut account = Account::open(granted.clone());
            account.used = granted.less(&granted.less(&used));
            if account.affords(&calls).is_ok() {
                account.calls = calls;
            }
            Place {
                share: account.left().share(parts),
                account,
                children_made: made,
                made_within_minute: lately,
                agent_tools,
                schema_known,
            }
        },
    )
}

fn budget_for(parent: &Delegation) -> impl Strategy<Value = BudgetRequest> + use<> {
    let (spent, held): (&Spent, &Held) = (parent.budget(), parent.held());
    let seldom = |had| option::weighted(0.3, mostly_within(had / 2));
    let held_within = |had| option::weighted(0.3, mostly_within(had));
    (
        [
            seldom(spent.steps),
            seldom(spent.tokens),
            seldom(spent.cost),
            seldom(spent.network),
        ],
        [held_within(held.storage.0), held_within(held.concurrency)],
        option::weighted(0.1, 0_u64..1_000_000),
    )
        .prop_map(
            |([steps, tokens, cost, network], [storage, concurrency], wall_clock)| BudgetRequest {
                steps,
                tokens,
                cost: cost.map(MicroUsd),
                network: network.map(Bytes),
                storage: storage.map(Bytes),
                concurrency,
                wall_clock: wall_clock.map(Millis),
            },
        )
}

/// What may be asked of `parent`.
fn request_for(parent: &Delegation) -> impl Strategy<Value = Request> + use<> {
    let had = parent.access();
    let held = parent.held();
    let scope = (
        prop_oneof![20 => Just(had), 1 => access()],
        option::weighted(0.02, Just(named("another"))),
        mostly_of::<Pattern>(&parent.resources().allow, all_named(PATTERNS)),
        some_of::<Pattern>(PATTERNS),
    );
    let passable = parent.permitted_tools() | parent.may_delegate();
    let tools = (
        option::of(mostly_of::<ToolName>(&passable, all_named(TOOLS_BEYOND))),
        mostly_of::<ToolName>(parent.may_delegate(), all_named(TOOLS_BEYOND)),
        mostly_of::<String>(parent.input_refs(), all_named(INPUTS)),
    );
    let limits = (
        [
            count_within(held.depth_left.saturating_sub(1)),
            count_within(held.children_left),
        ],
        option::of(count_within(held.spawn_per_minute)),
        0_u64..100_000,
        option::weighted(0.1, 0_u64..1000),
    );
    let spent = (
        budget_for(parent),
        option::weighted(0.3, operations_within(&parent.budget().operations)),
        option::weighted(0.1, Just(samples::schema().name)),
    );
    (scope, tools, limits, spent).prop_map(|(scope, tools, limits, spent)| {
        let (access, tenant, resources, deny) = scope;
        let (permitted_tools, may_delegate, input_refs) = tools;
        let ([depth_left, children_left], spawn_per_minute, join_reserve, deadline) = limits;
        let (budget, operations, result_schema) = spent;
        Request {
            objective: "Summarise".into(),
            completion: "with evidence".into(),
            input_refs,
            permitted_tools,
            may_delegate,
            authority_scope: AuthorityScope { tenant, access },
            resources,
            deny,
            budget,
            operations,
            deadline: deadline.map(samples::at),
            result_schema,
            depth_left,
            children_left,
            spawn_per_minute,
            join_reserve: Millis(join_reserve),
            ..Request::default()
        }
    })
}

/// Any case.
pub fn case() -> impl Strategy<Value = Case> {
    parent().prop_flat_map(case_under)
}

/// Any case of this parent. Boxed, because the composed type is too large for the stack of a test.
pub fn case_under(parent: Delegation) -> BoxedStrategy<Case> {
    (standing_for(&parent), request_for(&parent))
        .prop_map(move |(standing, request)| Case {
            parent: parent.clone(),
            standing,
            request,
        })
        .boxed()
}
