//! What is printed where: results on stdout, progress on stderr, help with examples, peace with closed pipes.

use std::process::Stdio;

use crate::support::Place;

/// Every command that people use, as it is typed.
const COMMANDS: [&str; 31] = [
    "run",
    "scenarios",
    "faults",
    "up",
    "submit",
    "resume",
    "status",
    "ls",
    "show",
    "watch",
    "events",
    "env",
    "log",
    "log verify",
    "log rebuild",
    "log stats",
    "audit",
    "schema",
    "new",
    "check",
    "bench",
    "bench loop",
    "bench w1",
    "bench w2",
    "bench w3",
    "bench w4",
    "bench w5",
    "bench rebuild",
    "bench all",
    "completions",
    "",
];

#[test]
fn every_command_has_help_with_examples() {
    let place = Place::new();
    for command in COMMANDS {
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        arguments.push("--help");
        let said = place.run(&arguments);
        assert!(
            said.good().contains("Examples:"),
            "{command}: {}",
            said.stdout
        );
    }
    let all = place.run(&["--help"]);
    for hidden in ["nats-guard", "desk-serve", "bench-host", "  host"] {
        assert!(!all.good().contains(hidden), "{hidden}");
    }
}

#[test]
fn shells_get_completions() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            place
                .run(&["completions", shell])
                .good()
                .contains("scenarios"),
            "{shell}"
        );
    }
}

#[test]
fn results_are_on_stdout_progress_on_stderr_and_neither_is_coloured_without_a_terminal() {
    let place = Place::new();
    let said = place.run(&["run", "widening-refused"]);
    assert!(said.good().contains("verdict: held"), "{}", said.stdout);
    assert!(said.stderr.contains("research[0]"), "{}", said.stderr);
    assert!(!said.stdout.contains("is about to begin"));
    assert!(!said.stdout.contains('\x1b') && !said.stderr.contains('\x1b'));
    let next: Vec<&str> = said.stdout.lines().rev().take(3).collect();
    for (line, word) in next.iter().zip(["log verify", "events --tree", "show"]) {
        assert!(
            line.contains(word) && line.contains(env!("CARGO_BIN_EXE_coppice")),
            "{line}"
        );
    }
    // The three commands work as they stand.
    for line in next {
        let words: Vec<&str> = line
            .split_whitespace()
            .skip(1)
            .map(|word| word.trim_matches('\''))
            .collect();
        place.run(&words).good();
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command_in_peace() {
    let place = Place::new();
    place.run(&["run", "widening-refused"]).good();
    let mut events = place
        .command(&["events", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    drop(events.stdout.take());
    let ended = events.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0));
    assert!(
        ended.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

#[test]
fn an_unknown_command_is_bad_input() {
    let place = Place::new();
    let said = place.run(&["grow"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("grow"), "{}", said.stderr);
}

#[test]
fn what_is_recorded_is_nobody_elses_to_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.up().stop();
    place
        .run(&["run", "widening-refused", "--data", "deep/d"])
        .good();
    for directory in [".coppice", "deep/d"] {
        let about = std::fs::metadata(place.path().join(directory)).expect("it is there");
        assert_eq!(about.permissions().mode() & 0o077, 0, "{directory}");
    }
}
