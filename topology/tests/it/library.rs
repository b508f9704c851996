//! The files of the library are what a build of the product carries: each must make a release.

use coppice_messages::{
    Account, Delegation, Millis, Timestamp,
    delegation::{Field, Request, Root, Standing, Widening},
    ids::{AgentName, RunId},
};
use coppice_topology::{Plan, bundle, compile, load};

use crate::files::Directory;

#[test]
fn every_topology_of_the_library_makes_a_release() {
    let library = Directory::library();
    let mut names: Vec<_> = std::fs::read_dir(library.0.join("topologies"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(
        names.contains(&"incident-comparison.yaml".to_owned()),
        "{names:?}"
    );
    for name in names {
        let file = format!("topologies/{name}");
        let made = bundle(&file, &library.bytes(&file), &library);
        let made = made.unwrap_or_else(|faults| panic!("{faults}"));
        assert!(made.documents.contains_key(&made.release));
        assert!(made.documents.contains_key(&made.manifest.topology));
    }
}

#[test]
fn a_release_compiles_from_its_documents_to_the_same_plan() {
    let library = Directory::library();
    let file = "topologies/incident-comparison.yaml";
    let made = bundle(file, &library.bytes(file), &library).unwrap();
    let again = compile(made.release, &|digest| made.documents.get(digest).cloned());
    assert_eq!(again.unwrap(), made.plan);
}

#[test]
fn a_release_with_a_document_missing_names_it() {
    let library = Directory::library();
    let file = "topologies/incident-comparison.yaml";
    let made = bundle(file, &library.bytes(file), &library).unwrap();
    let contract = made.manifest.contract;
    let without = |digest: &coppice_messages::Digest| {
        (*digest != contract)
            .then(|| made.documents.get(digest).cloned())
            .flatten()
    };
    let error = compile(made.release, &without).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the contract of this release is not there: {contract}")
    );
}

/// Narrows for a child of `parent` that does an agent's work.
fn narrow(
    plan: &Plan,
    parent: &Delegation,
    agent: &AgentName,
    request: &Request,
) -> Result<Delegation, Widening> {
    let run = RunId::child(parent.run(), &"slot".parse().unwrap(), 0);
    let account = Account::open(parent.budget().clone());
    let standing = Standing {
        account: &account,
        child: &run,
        children_made: 0,
        made_within_minute: 0,
        share: &account.left().share(4),
        agent_tools: &plan.agents[agent].tools,
        tool_access: &|tool| Some(plan.tools.get(tool)?.contract.operation.access()),
        result_schema: None,
    };
    parent.narrow(request, &standing, Timestamp(0))
}

#[test]
fn the_script_that_overreaches_is_refused_for_a_tool_a_deadline_and_a_budget() {
    let library = Directory::library();
    let file = "topologies/widening-refused.yaml";
    let plan = bundle(file, &library.bytes(file), &library).unwrap().plan;
    let root = Root {
        run: "root-1".parse().unwrap(),
        tenant: "default".parse().unwrap(),
        principal: "user:ada".to_owned(),
        objective: String::new(),
        result_schema: None,
        input_refs: [].into(),
    };
    let root = Delegation::root(&plan.contract, root, Timestamp(0));
    let gather = &plan.root.nodes[&"gather".parse().unwrap()];
    let (agent, request) = (
        &gather.fan_out.as_ref().unwrap().agent,
        gather.delegation.as_ref().unwrap(),
    );
    let child = narrow(&plan, &root, agent, request).unwrap();
    assert!(child.deadline() <= Timestamp(0).plus(Millis(60_000)));

    let script = library.bytes("models/overreach.yaml");
    let script = load::script("overreach.yaml", &script).unwrap().value;
    let wanted = script
        .turns
        .iter()
        .filter_map(|turn| turn.delegate.as_ref());
    let fields: Vec<Field> = wanted
        .map(|wanted| narrow(&plan, &child, &wanted.agent, &wanted.delegation))
        .map(|refused| refused.unwrap_err().field)
        .collect();
    let expected = [Field::PermittedTools, Field::Deadline, Field::Budget];
    assert_eq!(fields, expected);

    let modest = Request {
        budget: coppice_messages::delegation::BudgetRequest {
            steps: Some(2),
            ..Default::default()
        },
        authority_scope: request.authority_scope.clone(),
        ..Request::default()
    };
    let helper: AgentName = "helper".parse().unwrap();
    let granted = narrow(&plan, &child, &helper, &modest).unwrap();
    assert_eq!(granted.budget().steps, 2, "what is narrower is granted");
}

#[test]
fn a_contract_written_out_makes_the_plan_of_a_named_one() {
    let library = Directory::library();
    let file = "topologies/incident-comparison.yaml";
    let named = String::from_utf8(library.bytes(file)).unwrap();
    let contract = String::from_utf8(library.bytes("contracts/default.yaml")).unwrap();
    let indented: String = contract.lines().map(|line| format!("  {line}\n")).collect();
    let written_out = named.replace("contract: default\n", &format!("contract:\n{indented}"));
    let plan = |text: &str| bundle(file, text.as_bytes(), &library).unwrap();
    let (named, written_out) = (plan(&named), plan(&written_out));
    assert_eq!(written_out.plan.contract, named.plan.contract);
    let again = compile(written_out.release, &|digest| {
        written_out.documents.get(digest).cloned()
    });
    assert_eq!(again.unwrap(), written_out.plan);
}
