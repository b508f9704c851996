//! How values, references and envelopes are written.

use std::collections::BTreeMap;

use coppice_messages::{Millis, Value, ids::RunId, scope::Access};
use coppice_topology::{
    expr::{Condition, Reference, Source, Template},
    load,
};
use proptest::prelude::*;

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

#[test]
fn the_envelope_of_the_seed_parses_as_it_stands() {
    let request = load::delegation("seed.yaml", SEED.as_bytes())
        .unwrap()
        .value
        .delegation;
    let parent: RunId = "run_85a".parse().unwrap();
    assert_eq!(request.parent_run_id, Some(parent.clone()));
    assert_eq!(request.return_owner, Some(parent));
    assert_eq!(request.permitted_tools.unwrap().len(), 2);
    assert_eq!(request.authority_scope.access, Access::ReadOnly);
    assert_eq!(request.budget.steps, Some(12));
    assert_eq!(request.budget.wall_clock, Some(Millis(300_000)));
    assert_eq!(
        request.deadline.unwrap().to_string(),
        "2026-08-07T18:30:00.000000Z"
    );
}

fn sources() -> impl Strategy<Value = Source> {
    prop_oneof![
        Just(Source::Input),
        Just(Source::Item),
        Just(Source::Arguments),
        Just(Source::Receipt),
        Just(Source::Body),
        Just(Source::Check),
        "[a-z][a-z0-9_-]{0,10}".prop_map(|name| name.parse().unwrap()),
    ]
}

fn references() -> impl Strategy<Value = Reference> {
    (sources(), "(/[a-z0-9]{1,6}){0,3}").prop_map(|(from, at)| Reference { from, at })
}

fn templates() -> impl Strategy<Value = Template> {
    let leaf = prop_oneof![
        Just(Template::Literal(Value::Null)),
        any::<bool>().prop_map(|value| Template::Literal(Value::Bool(value))),
        any::<i32>().prop_map(|value| Template::Literal(Value::Int(value.into()))),
        "\\PC{0,12}".prop_map(|text| Template::Literal(Value::Text(text))),
        references().prop_map(Template::Reference),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Template::List),
            prop::collection::btree_map("[a-e]{1,3}", inner, 0..4).prop_map(Template::Map),
        ]
    })
}

fn without_references(template: &Template) -> bool {
    template.references().is_empty()
}

proptest! {
    #[test]
    fn a_template_is_read_as_it_was_written(template in templates()) {
        let json = serde_json::to_vec(&template).unwrap();
        let back: Template = serde_json::from_slice(&json).unwrap();
        prop_assert_eq!(&back, &template);
        let yaml = load::read::<BTreeMap<String, Template>>("t.yaml", &[b"{\"t\": ", json.as_slice(), b"}"].concat());
        let yaml = yaml.unwrap().value;
        prop_assert_eq!(yaml.get("t"), Some(&template));
    }

    #[test]
    fn a_template_without_references_is_its_own_value(template in templates().prop_filter("literal", without_references)) {
        let resolved = template.resolve(&|_: &Source| None).unwrap();
        prop_assert_eq!(serde_json::to_vec(&resolved).unwrap(), serde_json::to_vec(&template).unwrap());
    }

    #[test]
    fn a_reference_that_leads_to_nothing_is_named(template in templates()) {
        let resolved = template.resolve(&|_: &Source| None);
        match template.references().first() {
            None => prop_assert!(resolved.is_ok()),
            Some(_) => {
                let dangling = resolved.unwrap_err().reference;
                prop_assert!(template.references().contains(&&dangling));
            }
        }
    }

    #[test]
    fn a_resolved_template_holds_the_values_that_its_references_lead_to(reference in references(), found in any::<i32>()) {
        let scope = |source: &Source| {
            (*source == reference.from).then(|| {
                reference.at.rsplit('/').filter(|step| !step.is_empty()).fold(
                    Value::Int(found.into()),
                    |value, step| Value::map([(step, value)]),
                )
            })
        };
        let template = Template::List(vec![Template::Reference(reference.clone())]);
        prop_assert_eq!(template.resolve(&scope).unwrap(), Value::List(vec![Value::Int(found.into())]));
    }

    #[test]
    fn a_condition_and_its_negation_never_both_hold(left in templates(), right in templates()) {
        let scope = |source: &Source| (*source == Source::Input).then_some(Value::Int(1));
        for condition in [
            Condition::Eq([left.clone(), right.clone()]),
            Condition::Lt([left.clone(), right.clone()]),
            Condition::Exists(left.clone()),
        ] {
            let negated = Condition::Not(Box::new(condition.clone()));
            prop_assert_ne!(condition.holds(&scope), negated.holds(&scope));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(fault) = load::topology("any.yaml", &bytes) {
            prop_assert!(fault.line >= 1 && fault.column >= 1 && !fault.message.is_empty());
        }
    }
}

#[test]
fn a_deeply_nested_template_is_refused_where_it_is_too_deep() {
    let text = format!("{{\"t\": {}1{}}}", "[".repeat(70), "]".repeat(70));
    let fault = load::read::<BTreeMap<String, Template>>("t.yaml", text.as_bytes()).unwrap_err();
    assert_eq!(
        (fault.message.as_str(), fault.column),
        ("nested deeper than 64", 70)
    );
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        text.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    let fault = load::read::<Value>("bomb.yaml", text.as_bytes()).unwrap_err();
    assert!(fault.message.contains("too large"), "{fault}");
}
