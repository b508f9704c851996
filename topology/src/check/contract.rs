//! A contract by itself: a goal sentence alone is no boundary, and every operation says who must be asked.

use coppice_messages::{Contract, Operation};

use super::listed;
use crate::load::{Diagnostic, Loaded};

/// Levels below a root that the product supports at most.
const DEPTH_MAX: u32 = 8;
/// Children of one run that the product supports at most.
const CHILDREN_MAX: u32 = 10_000;

pub(super) fn check(loaded: &Loaded<Contract>, faults: &mut Vec<Diagnostic>) {
    boundary(loaded, faults);
    operations(loaded, faults);
    budget(loaded, faults);
}

fn boundary(loaded: &Loaded<Contract>, faults: &mut Vec<Diagnostic>) {
    let boundary = &loaded.value.task_boundary;
    let fields = [
        (
            "accepts",
            boundary.accepts.is_empty(),
            "the requests that are accepted",
        ),
        (
            "systems",
            boundary.systems.is_empty(),
            "the systems that may be touched",
        ),
        (
            "environments",
            boundary.environments.is_empty(),
            "the environments in which it may run",
        ),
        (
            "unit_of_work",
            boundary.unit_of_work.trim().is_empty(),
            "what one run handles",
        ),
        (
            "person_takes_over",
            boundary.person_takes_over.trim().is_empty(),
            "when a person must take over",
        ),
    ];
    for (key, empty, what) in fields {
        if empty {
            let fault = loaded.at_value(&["task_boundary", key], format!("{key} says nothing"));
            faults.push(fault.help(format!("name {what}")));
        }
    }
    let both = loaded
        .value
        .authority
        .tools
        .intersection(&loaded.value.authority.may_delegate);
    for tool in both {
        let mut fault = crate::bundle::item(loaded, &["authority", "may_delegate"], tool.as_str());
        fault.message = format!("{tool} stands in tools and in may_delegate");
        faults.push(fault.help("may_delegate is for what the root may pass on but not call"));
    }
}

fn operations(loaded: &Loaded<Contract>, faults: &mut Vec<Diagnostic>) {
    let control = &loaded.value.human_control;
    let silent: Vec<&Operation> = loaded
        .value
        .allowed_operations
        .keys()
        .filter(|operation| !control.contains_key(operation))
        .collect();
    if let Some(first) = silent.first() {
        let message = format!("human_control says nothing about {}", listed(&silent));
        let fault = loaded.at_key(&["human_control"], message);
        faults.push(fault.help(format!(
            "add {first}: none, preview, approve, two_person or forbidden"
        )));
    }
}

fn budget(loaded: &Loaded<Contract>, faults: &mut Vec<Diagnostic>) {
    let budget = &loaded.value.budget;
    for (key, given, most) in [
        ("depth", budget.depth, DEPTH_MAX),
        ("children", budget.children, CHILDREN_MAX),
    ] {
        if given > most {
            let message = format!("{key}: {given} is more than is supported");
            faults.push(
                loaded
                    .at_value(&["budget", key], message)
                    .help(format!("at most {most}")),
            );
        }
    }
    for (key, nothing) in [
        ("steps", budget.steps == 0),
        ("wall_clock", budget.wall_clock.0 == 0),
    ] {
        if nothing {
            let fault = loaded.at_value(
                &["budget", key],
                format!("{key} is 0: nothing could be done"),
            );
            faults.push(fault.help("grant what one unit of work needs"));
        }
    }
    if budget.wall_clock <= budget.join_reserve {
        let message = "the join_reserve takes all of the wall_clock: no child would have time";
        let fault = loaded.at_value(&["budget", "join_reserve"], message);
        faults.push(fault.help(format!("less than {}", budget.wall_clock)));
    }
}
