//! A model script by itself. What it proposes is not judged: a script that asks for what it may not have is what scripts are for.

use crate::{
    expr::{Reference, Source},
    load::{Diagnostic, Loaded},
    script::{Script, Turn},
};

pub(super) fn check(loaded: &Loaded<Script>, faults: &mut Vec<Diagnostic>) {
    if loaded.value.turns.is_empty() {
        let fault = loaded.at_value(&["turns"], "a model without turns never answers");
        faults.push(fault.help("add at least one: - answer: { … }"));
    }
    for (nth, turn) in loaded.value.turns.iter().enumerate() {
        let nth = nth.to_string();
        one_deed(loaded, &nth, turn, faults);
        if turn.repeat == 0 {
            let path = ["turns", nth.as_str(), "repeat"];
            let fault = loaded.at_value(&path, "repeat is 0: this turn is never taken");
            faults.push(fault.help("leave the turn out, or repeat it at least once"));
        }
        for (key, references) in references(turn) {
            if let Some(wrong) = references.into_iter().find(|one| !known(&one.from)) {
                let path = ["turns", nth.as_str(), key];
                let message = format!("a script has no {}", wrong.from);
                let fault = loaded.at_value(&path, message);
                faults.push(fault.help(
                    "its references come from item (or input), arguments, body (the last result) and check (/results/N)",
                ));
            }
        }
    }
}

fn one_deed(loaded: &Loaded<Script>, nth: &str, turn: &Turn, faults: &mut Vec<Diagnostic>) {
    let deeds = [
        turn.say.is_some(),
        turn.propose.is_some(),
        turn.delegate.is_some(),
        turn.answer.is_some(),
        turn.fail.is_some(),
    ];
    let message = match deeds.into_iter().filter(|there| *there).count() {
        1 => return,
        0 => "the turn does nothing",
        _ => "the turn does several things",
    };
    let fault = loaded.at_value(&["turns", nth], message);
    faults.push(fault.help("give it one of say, propose, delegate, answer, fail"));
}

fn references(turn: &Turn) -> Vec<(&'static str, Vec<&Reference>)> {
    let when = turn.when.iter().map(|when| ("when", when.references()));
    let propose = turn.propose.iter();
    let propose = propose.map(|propose| ("propose", propose.arguments.references()));
    let answer = turn
        .answer
        .iter()
        .map(|answer| ("answer", answer.references()));
    when.chain(propose).chain(answer).collect()
}

fn known(source: &Source) -> bool {
    match source {
        Source::Input | Source::Item | Source::Arguments | Source::Body | Source::Check => true,
        Source::Node(_) | Source::Receipt => false,
    }
}
