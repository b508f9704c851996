//! Topologies built in Rust.

use coppice_messages::{Operation, Value, ids::NodeName};
use coppice_topology::{
    Builder, DocumentKind, Documents, bundle,
    expr::{Source, Template},
    load,
    node::Node,
    tool::Tool,
};

use crate::files::Directory;

fn value(json: &str) -> Value {
    Value::parse(json.as_bytes()).unwrap()
}

fn named(name: &str) -> NodeName {
    name.parse().unwrap()
}

/// One call of a function and an end.
fn greeting() -> Builder {
    let output = value(r#"{"type": "object", "properties": {"text": {"type": "string"}}}"#);
    let input = value(r#"{"type": "object", "properties": {"name": {"type": "string"}}}"#);
    let greet = Tool::function("greet".parse().unwrap(), Operation::Read, input, output);
    let arguments = Template::object([("name", Template::cite(Source::Input, "/name"))]);
    let text = Template::cite(Source::Node(named("greet")), "/text");
    Builder::new("greeting", "One greeting")
        .tool(greet, 1)
        .node(
            named("greet"),
            Node::calling("greet".parse().unwrap(), arguments),
        )
        .node(
            named("done"),
            Node::succeeding(Template::object([("text", text)])).behind([named("greet")]),
        )
}

#[test]
fn what_is_built_is_what_its_documents_say() {
    let built = greeting().bundle().unwrap();
    let get = |digest: &coppice_messages::Digest| built.documents.get(digest).cloned();
    assert_eq!(
        coppice_topology::compile(built.release, &get).unwrap(),
        built.plan
    );
    assert_eq!(greeting().bundle().unwrap().release, built.release);
}

#[test]
fn a_topology_of_the_library_built_from_its_parts_means_the_same() {
    let library = Directory::library();
    let file = "topologies/incident-comparison.yaml";
    let read = bundle(file, &library.bytes(file), &library).unwrap();
    let mut builder = Builder::new("incident-comparison", "One request");
    builder.topology = load::topology(file, &library.bytes(file)).unwrap().value;
    builder.contract = read.plan.contract.clone();
    for (name, tool) in &read.plan.tools {
        builder
            .tools
            .insert(name.to_string(), tool.contract.clone());
    }
    for name in read.manifest.schemas.keys() {
        let found = library.find(DocumentKind::Schema, name.as_str()).unwrap();
        builder = builder.schema(name, Value::parse(&found.bytes).unwrap());
    }
    for route in read.manifest.models.keys() {
        let name = route.strip_prefix("scripted/").unwrap();
        let found = library.find(DocumentKind::Model, name).unwrap();
        builder = builder.model(load::script(&found.file, &found.bytes).unwrap().value);
    }
    let built = builder.bundle().unwrap().plan;
    assert_eq!(built.root, read.plan.root);
    assert_eq!(built.children, read.plan.children);
    assert_eq!(built.contract, read.plan.contract);
    assert_eq!(built.agents, read.plan.agents);
    assert_eq!(built.input_schema, read.plan.input_schema);
    let contracts = |plan: &coppice_topology::Plan| -> Vec<Tool> {
        plan.tools
            .values()
            .map(|tool| tool.contract.clone())
            .collect()
    };
    assert_eq!(contracts(&built), contracts(&read.plan));
}

#[test]
fn what_is_wrong_with_a_built_topology_is_said_with_its_place() {
    let mut builder = greeting();
    builder.contract.authority.tools.clear();
    let done = builder.topology.nodes.get_mut(&named("done")).unwrap();
    done.after = vec![named("great")];
    let faults = builder.bundle().unwrap_err().to_string();
    assert!(faults.contains("greeting (built in Rust):"), "{faults}");
    assert!(faults.contains(r#"there is no node "great""#), "{faults}");
    assert!(
        faults.contains("the contract greeting does not permit greet"),
        "{faults}"
    );
}
