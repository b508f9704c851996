//! Single decisions, one reason each.

use std::sync::Arc;

use coppice_messages::{
    Event, Operation,
    contract::HumanControl,
    event,
    event::{join::SlotOutcome, run::Reason},
};

use crate::{
    control,
    world::{Weather, World, comparison, input},
};

/// Runs with one child killed each time it starts to act, and gives the world at its end.
fn killed_on(event: &'static str, times: u32) -> World {
    let mut world = World::new(comparison(), input(2), 2, Weather::default());
    world.prepare();
    let mut left = times;
    while world.ended().is_none() {
        world.step();
        let victim = world.log.last().filter(|last| {
            last.commit.run != world.root
                && last
                    .commit
                    .events
                    .iter()
                    .any(|entry| entry.event.kind() == event)
        });
        let victim = victim.map(|last| last.commit.run.clone()).filter(|run| {
            world.drivers.contains_key(run) && run.as_str().starts_with("research-0")
        });
        if let (Some(run), true) = (victim, left > 0) {
            left -= 1;
            world.kill(&run);
        }
    }
    world
}

#[test]
fn a_child_that_crashes_once_is_restarted_and_the_tree_succeeds() {
    let world = killed_on("model.asked", 1);
    assert_eq!(world.ended().expect("ended").reason, Reason::Succeeded);
    assert_eq!(
        (
            world.count("child.crashed"),
            world.count("child.restarted"),
            world.count("child.given_up")
        ),
        (1, 1, 0)
    );
}

#[test]
fn a_child_that_crashes_more_often_than_its_intensity_is_given_up_and_the_join_says_so() {
    let world = killed_on("model.asked", 4);
    assert_eq!(
        (world.count("child.crashed"), world.count("child.given_up")),
        (4, 1)
    );
    let outcomes = world.events().find_map(|(_, event)| match event {
        Event::Join(event::join::Event::Decided(decided)) => Some(decided.outcomes.clone()),
        _ => None,
    });
    let expected = vec![
        SlotOutcome::Ended(Reason::Failed),
        SlotOutcome::Ended(Reason::Succeeded),
    ];
    assert_eq!(outcomes, Some(expected));
    assert_eq!(
        world.ended().expect("ended").reason,
        Reason::Succeeded,
        "the rule is collect"
    );
}

#[test]
fn an_operation_before_which_people_must_be_asked_is_not_intended() {
    for level in [HumanControl::Approve, HumanControl::Forbidden] {
        let mut plan = (*comparison()).clone();
        let control = &mut plan.contract.human_control;
        control.insert(Operation::Create, level);
        let mut world = World::new(Arc::new(plan), input(2), 2, Weather::default());
        world.prepare();
        while world.ended().is_none() {
            world.step();
        }
        let ended = world.ended().expect("ended");
        assert_eq!(ended.class.as_deref(), Some("refused_tool"));
        assert!(world.desk.is_empty(), "nothing was written");
    }
}

#[test]
fn a_call_that_waits_again_and_again_for_a_place_at_its_tool_is_no_failure() {
    let nodes = "  last: { call: { tool: search_runbook, arguments: { text: x } } }";
    let mut world = control::world(nodes, 1, Weather::default());
    world.no_place = 20;
    assert_eq!(world.run().reason, Reason::Succeeded);
    assert_eq!(world.count("effect.not_sent"), 20);
    assert_eq!(world.count("effect.intended"), 21);
}

#[test]
fn a_resource_that_the_envelope_denies_is_not_touched() {
    let nodes = "  last: { call: { tool: create_ticket, arguments: { title: t, body: {}, request_id: r } } }";
    for (rule, class) in [
        (Some("queue/support"), Some("refused_resource")),
        (Some("queue/*"), Some("refused_resource")),
        (Some("queue/other"), None),
        (None, None),
    ] {
        let mut world = control::world(nodes, 1, Weather::default());
        let plan = Arc::make_mut(&mut world.plan);
        let denied = rule.map(|rule| rule.parse().expect("a pattern"));
        plan.contract.authority.resources.deny.extend(denied);
        let ended = world.run();
        assert_eq!(ended.class.as_deref(), class, "{rule:?}");
        assert_eq!(world.desk.len(), usize::from(class.is_none()), "{rule:?}");
    }
}
