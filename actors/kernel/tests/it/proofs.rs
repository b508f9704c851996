//! Postconditions: what a tool says that it did counts once the world shows it.

use coppice_messages::event::run::Reason;

use crate::{
    control::world,
    world::{Lying, Weather, World},
};

pub const FILED: &str = "
  last: { call: { tool: create_ticket, arguments: { title: T, body: {}, request_id: r } } }
";

fn filed(lying: Lying) -> World {
    let mut world = world(FILED, 1, Weather::default());
    world.lying = lying;
    world
}

#[test]
fn what_the_world_shows_is_evidence() {
    let mut world = filed(Lying::Never);
    let ended = world.run();
    assert_eq!(ended.reason, Reason::Succeeded, "{}", ended.message);
    assert_eq!(world.count("effect.landed"), 1);
    // The postcondition, the result's schema and the end's own check.
    assert_eq!(world.count("check.passed"), 3);
    assert_eq!(ended.evidence.len(), 3);
}

#[test]
fn a_tool_that_says_done_while_the_world_does_not_show_it_fails_its_node_and_is_not_called_again() {
    let mut world = filed(Lying::Always);
    let ended = world.run();
    assert_eq!(
        (ended.reason, ended.class.as_deref()),
        (Reason::Failed, Some("postcondition_failed"))
    );
    assert_eq!(
        ended.message,
        "create_ticket says that it was done, and the world does not show it: expected one, saw none"
    );
    assert_eq!(world.count("effect.contradicted"), 1);
    assert_eq!(world.count("effect.intended"), 1, "no second call");
    assert_eq!(world.count("check.passed"), 0);
}

#[test]
fn what_nobody_may_look_at_is_named_and_proves_nothing() {
    let mut world = filed(Lying::Unreadable);
    let ended = world.run();
    assert_eq!(
        (ended.reason, ended.class.as_deref()),
        (Reason::Failed, Some("postcondition_unread"))
    );
    assert!(ended.message.contains("status 403"), "{}", ended.message);
    assert_eq!(world.count("check.failed"), 1);
    assert_eq!(world.count("effect.contradicted"), 0);
}
