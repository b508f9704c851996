//! The model gateway with scripted models: which turn is next, what is checked, what fails.

use std::sync::Arc;

use coppice_actors::{
    gateway::{AskRequest, GatewayOptions, ModelGateway},
    schema::Schemas,
};
use coppice_kernel::{Turned, command::ModelOutcome};
use coppice_messages::{
    Digest, Payload, Spent, Value,
    event::model::{Asked, Proposal},
    ids::TenantId,
};
use coppice_topology::Plan;

use crate::recorder::{Recorder, released};

/// An agent that asks its model, call by call.
struct Asking {
    gateway: ModelGateway,
    recorder: Arc<Recorder>,
    plan: Plan,
    turns: Vec<Turned>,
}

fn value(json: &str) -> Value {
    Value::parse(json.as_bytes()).unwrap()
}

fn payload(json: &str) -> Payload {
    Payload::Inline(value(json))
}

impl Asking {
    /// The library's researcher, whose model has these turns instead of its own.
    fn script(turns: &str) -> Self {
        let mut asking = Self::library();
        let script = format!("model: summarise\nturns:\n{turns}");
        let digest = asking.recorder.put(script.as_bytes());
        let models = &mut asking.plan.manifest.models;
        models.insert("scripted/summarise".to_owned(), digest);
        asking
    }

    fn library() -> Self {
        let (plan, recorder) = released("incident-comparison");
        let gateway = ModelGateway::new(GatewayOptions {
            record: recorder.clone(),
            schemas: Schemas::new(),
        });
        Self {
            gateway,
            recorder,
            plan,
            turns: Vec::new(),
        }
    }

    /// The recorded calls before the next one: what was proposed, and its result.
    fn after(mut self, turns: impl IntoIterator<Item = (Option<Proposal>, &'static str)>) -> Self {
        for (proposal, result) in turns {
            self.turns.push(Turned {
                call: u32::try_from(self.turns.len()).unwrap() + 1,
                proposal,
                result: Some(payload(result)),
            });
        }
        self
    }

    fn request(&self) -> AskRequest {
        AskRequest {
            plan: Arc::new(self.plan.clone()),
            tenant: TenantId::default_tenant(),
            run: "research-0".parse().unwrap(),
            asked: Arc::new(Asked {
                node: "work".parse().unwrap(),
                call: u32::try_from(self.turns.len()).unwrap() + 1,
                agent: "researcher".parse().unwrap(),
                route: "scripted/summarise".to_owned(),
                context: Digest::ZERO,
                reserved: Spent {
                    tokens: 1_000,
                    ..Spent::step()
                },
            }),
            input: Value::from("incident_104"),
            turns: Arc::new(self.turns.clone()),
        }
    }

    async fn ask(&self) -> ModelOutcome {
        self.gateway.ask(self.request()).await
    }

    async fn proposal(&self) -> Proposal {
        match self.ask().await {
            ModelOutcome::Proposed { proposal, .. } => proposal,
            failed @ ModelOutcome::Failed { .. } => panic!("it proposes something: {failed:?}"),
        }
    }

    /// Class and message of the failure.
    async fn failure(&self) -> (String, String) {
        match self.ask().await {
            ModelOutcome::Failed { class, message, .. } => (class, message),
            proposed @ ModelOutcome::Proposed { .. } => panic!("it fails: {proposed:?}"),
        }
    }

    async fn said(&self) -> String {
        match self.proposal().await {
            Proposal::Say(text) => text,
            other => panic!("it says something: {other:?}"),
        }
    }
}

fn call(tool: &str, arguments: &str) -> Option<Proposal> {
    Some(Proposal::Call {
        tool: tool.parse().unwrap(),
        arguments: payload(arguments),
    })
}

fn say(text: &str) -> Option<Proposal> {
    Some(Proposal::Say(text.to_owned()))
}

const INCIDENT: &str = r#"{"id":"incident_104","summary":"it broke","severity":"high"}"#;

#[tokio::test]
async fn the_researcher_reads_searches_and_answers() {
    let asking = Asking::library();
    let read = call("read_incident", r#"{"id":"incident_104"}"#);
    assert_eq!(Some(asking.proposal().await), read);
    let asking = asking.after([(read, INCIDENT)]);
    let search = call("search_runbook", r#"{"text":"high"}"#);
    assert_eq!(Some(asking.proposal().await), search);
    let asking = asking.after([(search, r#"{"count":0,"runbooks":[]}"#)]);
    let ModelOutcome::Proposed {
        proposal,
        answer_valid,
        usage,
        ..
    } = asking.ask().await
    else {
        panic!("it answers");
    };
    let answer = r#"{"incident":"incident_104","summary":"it broke","severity":"high"}"#;
    assert_eq!(proposal, Proposal::Answer(payload(answer)));
    assert_eq!(answer_valid, Ok(()));
    assert_eq!((usage.steps, usage.tokens), (1, 730));
}

#[tokio::test]
async fn a_turn_is_taken_as_often_as_it_repeats() {
    let script = "  - { say: again, repeat: 2 }\n  - { say: done }\n";
    let asking = Asking::script(script);
    assert_eq!(asking.said().await, "again");
    let asking = asking.after([(say("again"), "null")]);
    assert_eq!(asking.said().await, "again");
    let asking = asking.after([(say("again"), "null")]);
    assert_eq!(asking.said().await, "done");
    let asking = asking.after([(say("done"), "null")]);
    let (class, message) = asking.failure().await;
    assert_eq!(class, "script_exhausted");
    assert_eq!(
        message,
        "no turn of the script summarise is left for call 4"
    );
}

#[tokio::test]
async fn a_question_that_was_lost_meets_the_same_turn() {
    let asking = Asking::script("  - { say: first }\n  - { say: second }\n");
    assert_eq!(asking.said().await, asking.said().await);
}

#[tokio::test]
async fn the_first_turn_whose_condition_holds_is_taken() {
    let script = r#"
  - { when: { eq: [ { from: body, at: /error }, declined ] }, say: sorry }
  - { when: { eq: [ { from: arguments, at: /call }, 1 ] }, say: one }
  - { when: { eq: [ { from: item }, incident_104 ] }, say: mine }
"#;
    let asking = Asking::script(script);
    assert_eq!(asking.said().await, "one");
    let asking = asking.after([(say("one"), "null")]);
    assert_eq!(asking.said().await, "mine");
    let asking = Asking::script(script).after([(say("one"), r#"{"error":"declined"}"#)]);
    assert_eq!(asking.said().await, "sorry");
}

#[tokio::test]
async fn only_what_tools_gave_is_among_the_results() {
    let script = r#"
  - { say: one }
  - propose: { tool: read_incident, arguments: { id: { from: input } } }
  - answer: { incident: { from: check, at: /results/0/id }, summary: s, severity: low }
"#;
    let asking = Asking::script(script).after([
        (say("one"), r#"{"error":"refused"}"#),
        (call("read_incident", r#"{"id":"incident_104"}"#), INCIDENT),
    ]);
    let Proposal::Answer(answer) = asking.proposal().await else {
        panic!("it answers");
    };
    let answer = answer.resolve(&coppice_messages::payload::NoBlobs).unwrap();
    assert_eq!(answer.at("/incident"), Some(&Value::from("incident_104")));
}

#[tokio::test]
async fn what_leads_to_nothing_is_malformed() {
    let script =
        "  - propose: { tool: read_incident, arguments: { id: { from: body, at: /id } } }\n";
    let (class, message) = Asking::script(script).failure().await;
    assert_eq!(class, "malformed");
    assert_eq!(message, "turns[0]: {from: body, at: /id} leads to nothing");
}

async fn answer_valid(answer: &str) -> Result<(), (String, String)> {
    match Asking::script(&format!("  - answer: {answer}\n"))
        .ask()
        .await
    {
        ModelOutcome::Proposed { answer_valid, .. } => answer_valid,
        failed @ ModelOutcome::Failed { .. } => panic!("it answers: {failed:?}"),
    }
}

#[tokio::test]
async fn an_answer_is_held_against_the_agents_result_schema() {
    let good = r#"{ incident: i, summary: s, severity: low }"#;
    assert_eq!(answer_valid(good).await, Ok(()));
    let (path, why) = answer_valid(r#"{ incident: i, summary: "", severity: low }"#)
        .await
        .unwrap_err();
    assert_eq!(path, "/summary");
    assert!(why.contains("shorter than 1 character"), "{why}");
    let (path, why) = answer_valid(r#"{ incident: i }"#).await.unwrap_err();
    assert_eq!(path, "");
    assert!(why.contains("is a required property"), "{why}");
}

#[tokio::test]
async fn an_empty_object_is_no_answer_whatever_the_schema_says() {
    let mut asking = Asking::script("  - answer: {}\n");
    let schema = asking.recorder.put(b"{}");
    for digest in asking.plan.manifest.schemas.values_mut() {
        *digest = schema;
    }
    let ModelOutcome::Proposed { answer_valid, .. } = asking.ask().await else {
        panic!("it answers");
    };
    assert_eq!(
        answer_valid,
        Err((String::new(), "an empty object is no result".to_owned()))
    );
}

#[tokio::test]
async fn a_delegation_is_proposed_as_it_stands() {
    let script = r#"
  - delegate:
      agent: researcher
      items: [incident_104, incident_118]
      delegation: { objective: "Look at {item}", authority_scope: { access: read_only } }
"#;
    let Proposal::Delegate {
        agent,
        items,
        delegation,
    } = Asking::script(script).proposal().await
    else {
        panic!("it delegates");
    };
    assert_eq!(agent.as_str(), "researcher");
    assert_eq!(
        items,
        [Value::from("incident_104"), Value::from("incident_118")]
    );
    assert_eq!(delegation.objective, "Look at {item}");
}

#[tokio::test]
async fn a_proposal_larger_than_64_kib_is_malformed() {
    let (class, message) = Asking::script(&format!("  - say: {}\n", "x".repeat(70_000)))
        .failure()
        .await;
    assert_eq!(class, "malformed");
    assert_eq!(message, "the proposal has 70000 bytes, more than 65536");
}

#[tokio::test]
async fn large_arguments_are_stored_before_they_are_proposed() {
    let text = "x".repeat(70_000);
    let script = format!("  - propose: {{ tool: read_incident, arguments: {{ id: {text} }} }}\n");
    let asking = Asking::script(&script);
    let Proposal::Call {
        arguments: Payload::Blob { digest, .. },
        ..
    } = asking.proposal().await
    else {
        panic!("the arguments are a blob");
    };
    let tenant = TenantId::default_tenant();
    assert!(coppice_actors::record::Record::blob(&*asking.recorder, &tenant, &digest).is_some());
}

#[tokio::test]
async fn a_turn_that_fails_fails_with_its_class_and_is_charged() {
    let asking = Asking::script("  - { fail: rate_limited, tokens: 7 }\n");
    let ModelOutcome::Failed {
        class,
        message,
        usage,
    } = asking.ask().await
    else {
        panic!("it fails");
    };
    assert_eq!(class, "rate_limited");
    assert_eq!(message, "turns[0] of the script fails");
    assert_eq!((usage.steps, usage.tokens), (1, 7));
}

#[tokio::test]
async fn a_turn_cannot_use_more_than_was_reserved() {
    let asking = Asking::script("  - { say: hm, tokens: 1001 }\n");
    let ModelOutcome::Failed { class, usage, .. } = asking.ask().await else {
        panic!("it fails");
    };
    assert_eq!(class, "tokens_exceeded");
    assert_eq!(usage.tokens, 1_000);
}

#[tokio::test]
async fn a_model_takes_its_time() {
    let asking = Asking::script("  - { say: hm, after: 20ms }\n");
    let ModelOutcome::Proposed { latency, .. } = asking.ask().await else {
        panic!("it proposes something");
    };
    assert!(latency.0 >= 20, "{latency}");
}

#[tokio::test]
async fn a_model_without_a_route_fails_with_what_there_is() {
    let asking = Asking::library();
    let mut request = asking.request();
    Arc::make_mut(&mut request.asked).route = "cloud/large".to_owned();
    let ModelOutcome::Failed { class, message, .. } = asking.gateway.ask(request).await else {
        panic!("it fails");
    };
    assert_eq!(class, "no_route");
    assert_eq!(
        message,
        "nothing leads to the model \"cloud/large\": this host serves scripted/NAME, and the release has scripted/summarise"
    );
}

#[tokio::test]
async fn a_script_that_is_not_in_the_log_is_unavailable() {
    let asking = Asking::library();
    let digest = asking.plan.manifest.models["scripted/summarise"];
    asking.recorder.forget(&digest);
    assert_eq!(asking.failure().await.0, "unavailable");
}
