//! The ownership tree, from commits made by hand.

mod story;

use std::path::PathBuf;

use coppice_messages::{
    Event, Spent,
    event::{
        child::{self, Crashed, GivenUp, Restarted},
        effect::{self, Escalated, Lost, LostCall, Unknown},
        model::{self, Refused},
        run::{self, ClaimReason, Claimed, Reason},
        timer,
    },
};
use coppice_topology::tree::{Frame, State, TextOptions, Tree, WaitingFor};

use self::story::{Story, spent};
use crate::recorded::difference;

fn picture(name: &str, tree: &Tree, options: &TextOptions) {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/pictures");
    let record = directory.join(name).with_extension("txt");
    let wrong = difference(&record, &tree.text(options));
    assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
}

/// Four children: one is done, one asks its model, one died, one is only delegated.
fn four_children() -> Story {
    let mut story = Story::new("incident-comparison");
    let root = story.open_root();
    story.starts(&root, "gather");
    let children: Vec<_> = (0..4)
        .map(|nth| story.delegate(&root, "research", nth))
        .collect();
    for child in &children[..3] {
        story.open_child(child);
        story.starts(child, "work");
        story.asks(child, 1);
    }
    story.proposes(&children[0], 1, 420);
    story.asks(&children[0], 2);
    story.proposes(&children[0], 2, 700);
    story.ends(&children[0], Reason::Succeeded, None);
    story.settles(&root, &children[0]);
    story.push(
        &root,
        Event::Child(child::Event::Crashed(Crashed {
            child: children[2].clone(),
            why: "index out of bounds".to_owned(),
            restart_at: Some(story.now()),
        })),
    );
    story
}

#[test]
fn a_tree_at_work_shows_who_does_what() {
    let story = four_children();
    picture("at-work", &story.tree, &TextOptions::default());
    let plain = TextOptions {
        unicode: false,
        ..TextOptions::default()
    };
    picture("at-work-ascii", &story.tree, &plain);
    let wide = TextOptions {
        width: 120,
        color: true,
        ..TextOptions::default()
    };
    picture("at-work-wide-in-colour", &story.tree, &wide);
}

#[test]
fn many_children_are_counted_and_those_that_need_a_look_are_shown() {
    let mut story = Story::new("incident-comparison");
    let root = story.open_root();
    story.starts(&root, "gather");
    for nth in 0..40 {
        let child = story.delegate(&root, "research", nth);
        story.open_child(&child);
        if nth == 31 {
            story.asks(&child, 1);
        } else {
            story.ends(&child, Reason::Succeeded, None);
            story.settles(&root, &child);
        }
    }
    let options = TextOptions {
        children_max: 4,
        ..TextOptions::default()
    };
    picture("many-children", &story.tree, &options);
}

#[test]
fn a_doubt_says_what_is_not_known_and_who_can_find_out() {
    let mut story = Story::new("incident-comparison");
    let root = story.open_root();
    story.starts(&root, "file");
    let key = story.intends(&root, "create_ticket");
    story.push(
        &root,
        Event::Effect(effect::Event::Unknown(Unknown {
            key,
            attempt: 1,
            why: "the connection was reset after the request was sent".to_owned(),
        })),
    );
    picture("doubt", &story.tree, &TextOptions::default());
    let frame = story.tree.frame();
    let waiting = frame.runs[0].waiting.as_ref().unwrap();
    assert_eq!(waiting.what, WaitingFor::Reconciliation);
    story.push(
        &root,
        Event::Effect(effect::Event::Escalated(Escalated {
            key,
            why: "look for a ticket with this key at the desk".to_owned(),
        })),
    );
    picture("doubt-for-a-person", &story.tree, &TextOptions::default());
}

#[test]
fn a_timer_says_until_when() {
    let mut story = Story::new("incident-comparison");
    let root = story.open_root();
    story.starts(&root, "settle");
    let set = timer::Set {
        node: "settle".parse().unwrap(),
        visit: 1,
        due: story.now(),
    };
    story.push(&root, Event::Timer(timer::Event::Set(set)));
    picture("timer", &story.tree, &TextOptions::default());
    let due = timer::Due {
        node: "settle".parse().unwrap(),
        visit: 1,
    };
    story.push(&root, Event::Timer(timer::Event::Due(due)));
    assert_eq!(story.tree.frame().runs[0].state, State::Running);
}

#[test]
fn ends_are_told_apart() {
    let mut story = Story::new("incident-comparison");
    let root = story.open_root();
    let ends = [
        (Reason::Succeeded, None),
        (Reason::Failed, Some("crashed")),
        (Reason::TimedOut, None),
        (Reason::BudgetExhausted, Some("tokens")),
        (Reason::Cancelled, None),
        (Reason::NeedsHuman, None),
    ];
    for (nth, (reason, class)) in (0..).zip(ends) {
        let child = story.delegate(&root, "research", nth);
        story.open_child(&child);
        story.ends(&child, reason, class);
        story.settles(&root, &child);
    }
    let unread = story.delegate(&root, "research", 6);
    story.settles(&root, &unread);
    story.ends(&root, Reason::Failed, Some("repeated_failure"));
    picture("ends", &story.tree, &TextOptions::default());
}

#[test]
fn refusals_are_counted_and_kept() {
    let mut story = Story::new("widening-refused");
    let root = story.open_root();
    let child = story.delegate(&root, "research", 0);
    story.open_child(&child);
    story.asks(&child, 1);
    story.proposes(&child, 1, 300);
    story.push(
        &child,
        Event::Model(model::Event::Refused(Refused {
            node: "work".parse().unwrap(),
            call: 1,
            path: "permitted_tools".to_owned(),
            why: "create_ticket asked, read_incident there".to_owned(),
        })),
    );
    story.asks(&child, 2);
    picture("refused", &story.tree, &TextOptions::default());
    let frame = story.tree.frame();
    assert_eq!(frame.runs[1].refused[0].path, "permitted_tools");
    let withheld: Vec<_> = frame.runs[1].authority.withheld.iter().collect();
    assert!(withheld.iter().any(|tool| tool.as_str() == "create_ticket"));
}

#[test]
fn a_restart_is_an_attempt_and_a_lost_call_is_charged() {
    let mut story = four_children();
    let (root, child) = (story.root(), story.child("research", 2));
    let before = story.tree.frame();
    let crashed = before.runs.iter().find(|run| run.run == child).unwrap();
    assert_eq!(crashed.state, State::Waiting);
    story.push(
        &root,
        Event::Child(child::Event::Restarted(Restarted {
            child: child.clone(),
            nth: 1,
        })),
    );
    let claimed = Event::Run(run::Event::Claimed(Claimed {
        owner: "host-2".parse().unwrap(),
        why: ClaimReason::Restart,
    }));
    let lost = Event::Effect(effect::Event::Lost(Lost {
        what: LostCall::Model {
            node: "work".parse().unwrap(),
            call: 1,
        },
        charged: spent(1, 1000),
    }));
    story.claim(&child, vec![claimed, lost]);
    let frame = story.tree.frame();
    let run = frame.runs.iter().find(|run| run.run == child).unwrap();
    assert_eq!((run.attempt, run.epoch), (2, 2));
    assert_eq!(run.own, spent(1, 1000));
    assert_eq!(run.budget.calls, Spent::default());
}

#[test]
fn a_child_given_up_waits_for_its_supervisor() {
    let mut story = four_children();
    let (root, child) = (story.root(), story.child("research", 2));
    story.push(
        &root,
        Event::Child(child::Event::GivenUp(GivenUp {
            child: child.clone(),
            why: "4 restarts within 1m".to_owned(),
        })),
    );
    let frame = story.tree.frame();
    let run = frame.runs.iter().find(|run| run.run == child).unwrap();
    let waiting = run.waiting.as_ref().unwrap();
    assert_eq!(waiting.what, WaitingFor::Supervisor);
}

#[test]
fn the_order_of_runs_does_not_matter() {
    let story = four_children();
    let mut reversed = Tree::new();
    for run in story.runs().iter().rev() {
        for (commit, position) in story.of(run) {
            reversed.apply(commit, position);
        }
    }
    assert_eq!(reversed.frame(), story.tree.frame());
}

#[test]
fn every_account_of_the_tree_is_conserved() {
    let story = four_children();
    let mut tree = Tree::new();
    for (commit, position) in &story.commits {
        tree.apply(commit, *position);
        for run in tree.frame().runs {
            assert!(run.budget.is_conserved(), "{} at {position}", run.path);
        }
    }
    let frame = tree.frame();
    assert_eq!(frame.runs[0].subtree, spent(2, 1120));
    assert_eq!(frame.runs[0].budget.used, spent(2, 1120));
}

#[test]
fn a_frame_survives_json() {
    let frame = four_children().tree.frame();
    let json = serde_json::to_vec(&frame).unwrap();
    let back: Frame = serde_json::from_slice(&json).unwrap();
    assert_eq!(back, frame);
}

#[test]
fn unknown_kinds_are_skipped_and_counted() {
    let mut story = four_children();
    let root = story.root();
    let kind = "moon.risen".to_owned();
    story.push(&root, Event::Unrecognised { kind });
    assert_eq!(story.tree.frame().skipped, 1);
    picture("unknown-kind", &story.tree, &TextOptions::default());
}

#[test]
fn another_tree_changes_nothing() {
    let mut story = four_children();
    let before = story.tree.clone();
    let mut other = Story::new("other");
    other.open_root();
    for (commit, position) in &other.commits {
        story.tree.apply(commit, *position);
    }
    assert_eq!(story.tree, before);
}

#[test]
fn nothing_recorded_is_said_so() {
    assert_eq!(
        Tree::new().text(&TextOptions::default()),
        "nothing is recorded\n"
    );
}
