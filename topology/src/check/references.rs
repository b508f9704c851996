//! References: each leads to something that is there when it is looked up.

use std::collections::BTreeSet;

use coppice_messages::{
    Value,
    event::run::Reason,
    ids::{NodeName, ToolName},
};

use super::{
    graph::ancestors,
    listed,
    schema::{Declared, follow, properties},
};
use crate::{
    bundle::Parts,
    expr::{Condition, Reference, Source, Template},
    load::{Diagnostic, suggestion},
    node::{Kind, Node},
};

/// A reference and the path to it in the file.
struct Cited<'a> {
    path: Vec<String>,
    reference: &'a Reference,
}

/// Whose nodes they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The root's, which works on its input.
    Root,
    /// A child's, which works on its item.
    Child,
}

pub(super) fn check(parts: &Parts, whose: Whose, faults: &mut Vec<Diagnostic>) {
    let nodes = &parts.topology.value.nodes;
    let ancestors = ancestors(nodes);
    for (name, node) in nodes {
        let none = BTreeSet::new();
        let mut place = Place {
            parts,
            whose,
            node: name,
            before: ancestors.get(name).unwrap_or(&none),
            check: None,
            faults,
        };
        match node.kind() {
            Ok(Kind::Call(call)) => {
                place.template(&under(name, &["call", "arguments"]), &call.arguments);
                place.arguments(
                    &under(name, &["call", "arguments"]),
                    &call.tool,
                    &call.arguments,
                );
            }
            Ok(Kind::Agent(agent)) => {
                place.template(&under(name, &["agent", "input"]), &agent.input)
            }
            Ok(Kind::FanOut(fan_out, _, _)) => {
                if let Some(over) = &fan_out.over {
                    place.template(&under(name, &["fan_out", "over"]), over);
                }
            }
            Ok(Kind::End(end)) => {
                place.template(&under(name, &["end", "answer"]), &end.answer);
                if end.reason == Reason::Succeeded {
                    place.answer(&under(name, &["end", "answer"]), &end.answer);
                }
                for (nth, evidence) in end.evidence.iter().enumerate() {
                    let nth = nth.to_string();
                    let arguments = under(name, &["end", "evidence", &nth, "arguments"]);
                    place.template(&arguments, &evidence.arguments);
                    place.arguments(&arguments, &evidence.check, &evidence.arguments);
                    place.check = Some(&evidence.check);
                    place.condition(
                        &under(name, &["end", "evidence", &nth, "expect"]),
                        &evidence.expect,
                    );
                    place.check = None;
                }
            }
            Ok(Kind::Branch(branch)) => {
                for (nth, case) in branch.cases.iter().enumerate() {
                    place.condition(
                        &under(name, &["branch", "cases", &nth.to_string(), "when"]),
                        &case.when,
                    );
                }
            }
            Ok(Kind::Loop(again)) => {
                place.condition(&under(name, &["loop", "until"]), &again.until)
            }
            Ok(Kind::Join(_) | Kind::Wait(_)) | Err(_) => {}
        }
    }
}

fn under<'a>(node: &'a NodeName, rest: &[&'a str]) -> Vec<&'a str> {
    [&["nodes", node.as_str()], rest].concat()
}

/// Where a reference stands, and so what it may cite.
struct Place<'a> {
    parts: &'a Parts,
    whose: Whose,
    node: &'a NodeName,
    before: &'a BTreeSet<&'a NodeName>,
    check: Option<&'a ToolName>,
    faults: &'a mut Vec<Diagnostic>,
}

impl Place<'_> {
    fn template(&mut self, path: &[&str], template: &Template) {
        let mut cited = Vec::new();
        walk(&strings(path), template, &mut cited);
        for cited in cited {
            self.reference(&cited);
        }
    }

    fn condition(&mut self, path: &[&str], condition: &Condition) {
        let mut cited = Vec::new();
        walk_condition(&strings(path), condition, &mut cited);
        for cited in cited {
            self.reference(&cited);
        }
    }

    fn refuse(&mut self, cited: &Cited<'_>, message: String, help: String) {
        let path: Vec<&str> = cited.path.iter().map(String::as_str).collect();
        let fault = self.parts.topology.at_value(&path, message).help(help);
        self.faults.push(fault);
    }

    fn reference(&mut self, cited: &Cited<'_>) {
        let topology = &self.parts.topology.value;
        let pointer = &cited.reference.at;
        let known = |schema: Option<&Value>| match schema.map(|schema| follow(schema, pointer)) {
            None | Some(Declared::Open | Declared::As(_)) => None,
            Some(Declared::Unknown { parent, schema }) => {
                Some((parent.to_owned(), properties(schema).join(", ")))
            }
        };
        let beyond = match &cited.reference.from {
            Source::Input if self.whose == Whose::Root => known(topology.input.as_ref()),
            // Which item it is depends on who makes the child.
            Source::Item if self.whose == Whose::Child => None,
            Source::Check => match self.check {
                Some(tool) => known(
                    self.parts
                        .tools
                        .get(tool)
                        .map(|(_, t)| t.value.output.document()),
                ),
                None => return self.not_here(cited),
            },
            Source::Input | Source::Item | Source::Arguments | Source::Receipt | Source::Body => {
                return self.not_here(cited);
            }
            Source::Node(name) => match topology.nodes.get(name) {
                None => return self.unknown_node(cited, name),
                Some(_) if !self.before.contains(name) => return self.not_before(cited, name),
                Some(node) => beyond_value(self.parts, node, pointer),
            },
        };
        if let Some((parent, there)) = beyond {
            let message = format!("{} leads to nothing", cited.reference);
            let place = if parent.is_empty() {
                "there".to_owned()
            } else {
                format!("in {parent}")
            };
            let help = if there.is_empty() {
                format!("nothing of that name is declared {place}")
            } else {
                format!("declared {place}: {there}")
            };
            self.refuse(cited, message, help);
        }
    }

    fn not_here(&mut self, cited: &Cited<'_>) {
        let from = &cited.reference.from;
        let before = listed(self.before.iter());
        let given = self.given();
        let help =
            format!("here a reference comes from {given}, or from a node that is done: {before}");
        self.refuse(cited, format!("there is no {from} here"), help);
    }

    /// What the run works on.
    fn given(&self) -> &'static str {
        match self.whose {
            Whose::Root => "input",
            Whose::Child => "item",
        }
    }

    fn unknown_node(&mut self, cited: &Cited<'_>, name: &NodeName) {
        let nodes = self.parts.topology.value.nodes.keys();
        let known: Vec<&str> = [self.given()]
            .into_iter()
            .chain(nodes.map(NodeName::as_str))
            .collect();
        let help = suggestion(name.as_str(), &known);
        self.refuse(cited, format!("there is no node {:?}", name.as_str()), help);
    }

    fn not_before(&mut self, cited: &Cited<'_>, name: &NodeName) {
        let here = self.node;
        let message = format!("{name} is not done when {here} begins");
        self.refuse(cited, message, format!("add {name} to after of {here}"));
    }

    /// Arguments that are written out have the keys that the tool takes.
    fn arguments(&mut self, path: &[&str], tool: &ToolName, arguments: &Template) {
        if let Some((_, loaded)) = self.parts.tools.get(tool) {
            let input = loaded.value.input.document();
            self.keys(path, tool.as_str(), input, arguments);
        }
    }

    /// An answer that is written out has the keys of the result schema.
    fn answer(&mut self, path: &[&str], answer: &Template) {
        let name = self.parts.topology.value.result_schema.as_ref();
        let schema = name.and_then(|name| Some((name, self.parts.schemas.get(name)?)));
        if let Some((name, schema)) = schema {
            self.keys(path, name.as_str(), &schema.value, answer);
        }
    }

    fn keys(&mut self, path: &[&str], what: &str, schema: &Value, template: &Template) {
        let Template::Map(given) = template else {
            return;
        };
        let topology = &self.parts.topology;
        let known = properties(schema);
        let closed = schema.at("/additionalProperties") == Some(&Value::Bool(false));
        for key in given
            .keys()
            .filter(|key| closed && !known.contains(&key.as_str()))
        {
            let path = [path, &[key.as_str()]].concat();
            let fault = topology.at_key(&path, format!("{what} has no {key:?}"));
            self.faults.push(fault.help(suggestion(key, &known)));
        }
        let required = schema.at("/required").and_then(Value::as_list);
        for key in required
            .unwrap_or_default()
            .iter()
            .filter_map(Value::as_text)
        {
            if !given.contains_key(key) {
                let fault = topology.at_key(path, format!("{what} needs {key:?}"));
                self.faults
                    .push(fault.help(format!("it has {}", known.join(", "))));
            }
        }
    }
}

/// The parent and what is declared in it, when a pointer leads beyond the value of a node.
fn beyond_value(parts: &Parts, node: &Node, pointer: &str) -> Option<(String, String)> {
    let agent_schema = |agent| {
        let agent = parts.topology.value.agents.get(agent)?;
        Some(&parts.schemas.get(&agent.result_schema)?.value)
    };
    let (schema, inner, outer) = match node.kind().ok()? {
        Kind::Call(call) => (
            parts.tools.get(&call.tool)?.1.value.output.document(),
            pointer,
            "",
        ),
        Kind::Agent(agent) => (agent_schema(&agent.agent)?, pointer, ""),
        Kind::FanOut(fan_out, _, _) => {
            if let Some(beyond) = beyond_gathered(pointer, &["results", "outcomes"]) {
                return Some(beyond);
            }
            let (outer, inner) = item_of_results(pointer)?;
            (agent_schema(&fan_out.agent)?, inner, outer)
        }
        Kind::Join(_) => return beyond_gathered(pointer, &["results", "outcomes"]),
        Kind::Wait(_) | Kind::Branch(_) | Kind::Loop(_) | Kind::End(_) => return None,
    };
    match follow(schema, inner) {
        Declared::Unknown { parent, schema } => {
            Some((format!("{outer}{parent}"), properties(schema).join(", ")))
        }
        Declared::As(_) | Declared::Open => None,
    }
}

/// A join's value has lists: `/results`, and an index into it.
fn beyond_gathered(pointer: &str, lists: &[&str]) -> Option<(String, String)> {
    let mut steps = pointer.split('/').skip(1);
    let first = steps.next()?;
    if !lists.contains(&first) {
        return Some((String::new(), lists.join(", ")));
    }
    let second = steps.next()?;
    second
        .parse::<usize>()
        .is_err()
        .then(|| (format!("/{first}"), "0, 1, 2, …".to_owned()))
}

/// `/results/2/summary` → (`/results/2`, `/summary`)
fn item_of_results(pointer: &str) -> Option<(&str, &str)> {
    let rest = pointer.strip_prefix("/results/")?;
    let digits = rest.find('/').unwrap_or(rest.len());
    let cut = pointer.len() - rest.len() + digits;
    pointer.split_at_checked(cut)
}

fn strings(path: &[&str]) -> Vec<String> {
    path.iter().map(|&step| step.to_owned()).collect()
}

fn walk<'a>(path: &[String], template: &'a Template, cited: &mut Vec<Cited<'a>>) {
    let deeper = |step: String| [path, &[step]].concat();
    match template {
        Template::Literal(_) => {}
        Template::Reference(reference) => cited.push(Cited {
            path: path.to_vec(),
            reference,
        }),
        Template::List(list) => {
            for (nth, item) in list.iter().enumerate() {
                walk(&deeper(nth.to_string()), item, cited);
            }
        }
        Template::Map(map) => {
            for (key, item) in map {
                walk(&deeper(key.clone()), item, cited);
            }
        }
    }
}

fn walk_condition<'a>(path: &[String], condition: &'a Condition, cited: &mut Vec<Cited<'a>>) {
    let deeper = |steps: &[&str]| [path, &strings(steps)].concat();
    let pair = |word, pair: &'a [Template; 2], cited: &mut Vec<Cited<'a>>| {
        for (nth, side) in pair.iter().enumerate() {
            walk(&deeper(&[word, &nth.to_string()]), side, cited);
        }
    };
    let several = |word, list: &'a [Condition], cited: &mut Vec<Cited<'a>>| {
        for (nth, inner) in list.iter().enumerate() {
            walk_condition(&deeper(&[word, &nth.to_string()]), inner, cited);
        }
    };
    match condition {
        Condition::Eq(both) => pair("eq", both, cited),
        Condition::Ne(both) => pair("ne", both, cited),
        Condition::Lt(both) => pair("lt", both, cited),
        Condition::Gt(both) => pair("gt", both, cited),
        Condition::In(both) => pair("in", both, cited),
        Condition::Exists(template) => walk(&deeper(&["exists"]), template, cited),
        Condition::All(list) => several("all", list, cited),
        Condition::Any(list) => several("any", list, cited),
        Condition::Not(inner) => walk_condition(&deeper(&["not"]), inner, cited),
    }
}
