//! Loops that get nowhere are stopped, and loops that get somewhere are not (B112, B113).

use std::sync::Arc;

use coppice_messages::{
    Payload, Value,
    event::{
        model::Proposal,
        run::{Ended, Reason},
    },
};

use crate::{
    control,
    world::{Weather, World, calls},
};

/// One agent on its own; the contract of the library allows four calls in a row that bring nothing new, and five failures.
const ALONE: &str = "
  think: { agent: { agent: reader, input: { from: input, at: /incidents/0 } } }
  last: { after: [think], call: { tool: read_incident, arguments: { id: x } } }
";

type Model = fn(&Value, &str, usize, Option<Payload>) -> Proposal;

fn alone(proposes: Model, weather: Weather) -> World {
    let mut world = control::world(ALONE, 1, weather);
    world.proposes = proposes;
    world
}

fn search(text: &str) -> Proposal {
    calls("search_runbook", Value::map([("text", Value::from(text))]))
}

fn answer() -> Proposal {
    Proposal::Answer(Payload::Inline(Value::from("done")))
}

#[track_caller]
fn check(given: &str, proposes: Model, expected: (Reason, Option<&str>), asked: usize) {
    for host_dies in [0, 5] {
        let weather = Weather {
            host_dies,
            ..Weather::default()
        };
        let mut world = alone(proposes, weather);
        let Ended { reason, class, .. } = world.run();
        assert_eq!((reason, class.as_deref()), expected, "{given}");
        let answered = world.count("model.proposed");
        assert_eq!(answered, asked, "{given}");
        let stalled = usize::from(class.as_deref() == Some("no_progress"));
        assert_eq!(world.count("progress.stalled"), stalled, "{given}");
    }
}

const STALLED: (Reason, Option<&str>) = (Reason::Failed, Some("no_progress"));

#[test]
fn the_same_call_with_the_same_answer_is_stopped_after_the_limit() {
    check("one call for ever", |_, _, _, _| search("same"), STALLED, 5);
}

#[test]
fn two_calls_in_turn_are_no_more_progress_than_one() {
    let ping_pong: Model = |_, _, made, _| search(["one", "other"][made % 2]);
    check("two calls in turn", ping_pong, STALLED, 6);
}

#[test]
fn words_alone_are_no_progress_whatever_they_say() {
    let talks: Model = |_, _, made, _| Proposal::Say(format!("thought {made}"));
    check("words", talks, STALLED, 4);
}

#[test]
fn a_call_that_is_refused_with_another_text_each_time_is_stopped_by_its_class() {
    let repeated = (Reason::Failed, Some("repeated_failure"));
    let forbidden: Model =
        |_, _, made, _| calls("pay_refund", Value::from(made.to_string().as_str()));
    check("a tool that people must approve", forbidden, repeated, 5);
    let alternating: Model = |_, _, made, _| {
        calls(
            ["close_ticket", "create_ticket"][made % 2],
            Value::from(made.to_string().as_str()),
        )
    };
    check("two tools that it may not call", alternating, repeated, 5);
}

#[test]
fn a_success_that_was_had_before_hides_no_row_of_refusals() {
    let mixed: Model = |_, _, made, _| match made % 2 {
        0 => calls("pay_refund", Value::from(made.to_string().as_str())),
        _ => search("same"),
    };
    check("a denied call and an old search in turn", mixed, STALLED, 6);
}

#[test]
fn a_model_that_fails_now_and_then_hides_no_row_of_repetitions() {
    let mut world = alone(|_, _, _, _| search("same"), Weather::default());
    world.weather.model_fails = 3;
    let ended = world.run();
    assert_eq!((ended.reason, ended.class.as_deref()), STALLED);
    assert_eq!(world.count("model.proposed"), 5);
    assert!(
        world.count("model.failed") > 0,
        "the seed has a failure in it"
    );
}

#[test]
fn nine_different_calls_with_equal_empty_answers_are_not_stopped() {
    let looks: Model = |_, _, made, _| match made {
        0..9 => search(&format!("query {made}")),
        _ => answer(),
    };
    let mut world = alone(looks, Weather::default());
    world.gives = |_| Payload::Inline(Value::List(Vec::new()));
    assert_eq!(world.run().reason, Reason::Succeeded);
    assert_eq!(world.count("model.proposed"), 10);
}

#[test]
fn something_new_between_repetitions_begins_the_count_anew() {
    let now_and_then: Model = |_, _, made, _| match made {
        12 => answer(),
        _ if made % 4 == 3 => search(&format!("new {made}")),
        _ => search("same"),
    };
    check(
        "something new each fourth call",
        now_and_then,
        (Reason::Succeeded, None),
        13,
    );
}

#[test]
fn the_same_call_whose_answer_changes_is_progress() {
    let polls: Model = |_, _, made, _| if made < 9 { search("state") } else { answer() };
    let mut world = alone(polls, Weather::default());
    world.gives = |intended| Payload::Inline(Value::Int(i64::from(intended.call)));
    assert_eq!(world.run().reason, Reason::Succeeded);
}

#[test]
fn an_annotation_that_is_reworded_does_not_make_another_call() {
    let rewords: Model = |_, _, made, _| {
        let note = Value::Text(format!("reason {made}"));
        calls(
            "search_runbook",
            Value::map([("text", Value::from("same")), ("note", note)]),
        )
    };
    let mut world = alone(rewords, Weather::default());
    world.gives = |_| Payload::Inline(Value::Null);
    let tool = "search_runbook".parse().expect("an id");
    let plan = Arc::make_mut(&mut world.plan);
    let search = plan.tools.get_mut(&tool).expect("a tool of the library");
    search.contract.annotations.insert("note".to_owned());
    let ended = world.run();
    assert_eq!((ended.reason, ended.class.as_deref()), STALLED);
}

#[test]
fn an_agent_of_the_root_calls_no_tool_that_its_declaration_does_not_list() {
    let writes: Model = |_, _, made, _| match made {
        0 => calls("create_ticket", Value::map([("title", Value::from("t"))])),
        _ => answer(),
    };
    let mut world = alone(writes, Weather::default());
    assert_eq!(world.run().reason, Reason::Succeeded);
    assert_eq!((world.count("proposal.refused"), world.desk.len()), (1, 0));
}
