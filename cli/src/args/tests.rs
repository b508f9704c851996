//! What help shows is what this program takes.

use clap::{Command, CommandFactory as _, Parser as _};

use super::Cli;

/// Every command that people can see, with its words.
fn commands(above: &str, command: &Command, found: &mut Vec<(String, Command)>) {
    let name = format!("{above} {}", command.get_name());
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        if below.get_name() != "help" {
            commands(&name, below, found);
        }
    }
    found.push((name.trim().to_owned(), command.clone()));
}

fn all() -> Vec<(String, Command)> {
    let mut found = Vec::new();
    commands("", &Cli::command(), &mut found);
    assert!(found.len() > 30, "{}", found.len());
    found
}

/// The words of a line of bash; `&&`, `|` and `>` are words of their own, and what stands behind several spaces is a remark.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut spaces) = (Vec::new(), None, None, 0);
    for letter in line.trim().chars() {
        match (letter, quote) {
            (' ', None) => {
                spaces += 1;
                words.extend(word.take());
                if spaces > 1 {
                    return words;
                }
                continue;
            }
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_with(String::new);
            }
            (_, Some(open)) if letter == open => quote = None,
            _ => word.get_or_insert_with(String::new).push(letter),
        }
        spaces = 0;
    }
    words.extend(word);
    words
}

/// The commands of this program in a line of an example.
fn calls(line: &str) -> Vec<Vec<String>> {
    let inner = line
        .split_once("$(")
        .and_then(|(_, rest)| rest.split_once(')'));
    let words = words(inner.map_or(line, |(inner, _)| inner));
    let simple = words.split(|word| ["&&", "|", ">"].contains(&word.as_str()));
    let ours = |call: &&[String]| call.first().is_some_and(|word| word == "coppice");
    simple.filter(ours).map(<[String]>::to_vec).collect()
}

#[test]
fn every_command_has_examples_and_each_of_them_is_taken() {
    let mut tried = 0;
    for (name, command) in all() {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        assert!(help.contains("Examples:"), "{name} has none");
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        for line in lines.take_while(|line| line.starts_with("  ")) {
            for call in calls(line) {
                let taken = Cli::try_parse_from(&call);
                tried += 1;
                if let Err(error) = taken {
                    panic!("{name}: {line:?}: {error}");
                }
            }
        }
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn the_calls_of_a_line_are_found() {
    let found = |line| {
        calls(line)
            .iter()
            .map(|call| call.join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("  coppice show RUN      one run"),
        ["coppice show RUN"]
    );
    assert_eq!(found("  eval \"$(coppice env)\""), ["coppice env"]);
    let two = "  coppice scenarios show x > m.yaml && coppice run m.yaml";
    assert_eq!(
        found(two),
        ["coppice scenarios show x", "coppice run m.yaml"]
    );
    assert_eq!(found("  coppice ls --label 'a b=c d'").len(), 1);
    assert!(found("  nats sub x").is_empty());
}
