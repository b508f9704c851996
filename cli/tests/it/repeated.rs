//! What a user does twice, or later: the same request, a printed command, a look after something else was run or removed.

use serde_json::json;

use crate::support::{Place, Said, text};

const SUBMIT: [&str; 5] = [
    "submit",
    "incident-comparison",
    "--input",
    r#"{"request_id": "r-1", "incidents": ["incident_104"]}"#,
    "--wait",
];

/// The commands that a run prints under `next:`, as they would be typed.
fn next_commands(said: &Said) -> Vec<Vec<String>> {
    let lines = said.good().lines().skip_while(|line| *line != "next:");
    let words = |line: &str| {
        let words = line.split_whitespace().skip(1);
        words
            .map(|word| word.trim_matches('\'').to_owned())
            .collect()
    };
    let found: Vec<_> = lines.skip(1).map(words).collect();
    assert_eq!(found.len(), 3, "{}", said.stdout);
    found
}

#[test]
fn the_same_request_meets_the_same_tree_unless_another_is_asked_for() {
    let place = Place::new();
    let up = place.up();
    let first = place.run(&SUBMIT);
    let tree = first.good().split(':').next().expect("a tree").to_owned();
    assert!(
        first.stderr.contains(&format!("tree {tree}")),
        "{}",
        first.stderr
    );
    let second = place.run(&SUBMIT);
    let met = format!("{tree}: already done: succeeded");
    assert!(second.good().starts_with(&met), "{}", second.stdout);
    assert!(
        second.stderr.contains("was sent before") && second.stderr.contains("--again"),
        "{}",
        second.stderr
    );
    let other = SUBMIT.map(|word| {
        if word.starts_with('{') {
            word.replace("r-1", "r-2")
        } else {
            word.to_owned()
        }
    });
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    assert!(!place.run(&other).good().contains(&tree));
    assert_eq!(
        place
            .run(&["ls", "--roots", "--json"])
            .json(0)
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    up.stop();
}

#[test]
fn printed_commands_and_ids_lead_to_their_run_also_after_others() {
    let place = Place::new();
    let first = place.run(&["run", "widening-refused", "--seed", "1"]);
    let commands = next_commands(&first);
    let tree = commands[0][1].clone();
    let child = place.run(&["ls", "--json"]).json(0);
    let child = child
        .as_array()
        .expect("a list")
        .iter()
        .find(|row| row.get("parent").is_some());
    let child = text(child.expect("a child"), "/run").to_owned();

    // What is discarded leaves the latest where it was.
    place
        .run(&["run", "widening-refused", "--seed", "2", "--discard"])
        .good();
    let listed = place.run(&["ls", "--roots"]);
    assert!(listed.good().contains(&tree), "{}", listed.stdout);
    assert!(
        listed.stderr.contains("reading .coppice/runs/"),
        "{}",
        listed.stderr
    );

    place
        .run(&["run", "widening-refused", "--seed", "3"])
        .good();
    for command in &commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        place.run(&words).good();
    }
    for reading in [
        vec!["show", &tree],
        vec!["show", &child],
        vec!["audit", &tree],
        vec!["watch", "--once", &tree],
        vec!["log", "rebuild", &tree],
        vec!["events", "--tree", &tree],
        vec!["ls", "--tree", &tree],
    ] {
        let said = place.run(&reading);
        assert_eq!(said.code, 2, "{reading:?} {}", said.stdout);
        assert!(
            said.stderr.contains("it is in .coppice/runs/"),
            "{reading:?} {}",
            said.stderr
        );
        let hint = said
            .stderr
            .split("add ")
            .last()
            .expect("a hint")
            .trim()
            .to_owned();
        let again: Vec<&str> = reading.iter().copied().chain(hint.split(' ')).collect();
        place.run(&again).good();
    }

    // A directory that somebody removed by hand is as if it had never been.
    let latest = place.path().join(".coppice/latest");
    std::fs::remove_dir_all(std::fs::canonicalize(latest).expect("it leads somewhere"))
        .expect("it can be removed");
    assert!(place.run(&["ls", "--roots"]).good().contains(&tree));
}

#[test]
fn a_host_that_lives_is_read_whatever_was_run_meanwhile() {
    let place = Place::new();
    let up = place.up();
    place.run(&["run", "widening-refused"]).good();
    let status = place.run(&["status", "--json"]).json(0);
    assert_eq!(status.pointer("/alive"), Some(&json!(true)));
    assert_eq!(text(&status, "/data"), ".coppice");
    let said = place.run(&["status"]);
    assert!(
        said.stderr
            .contains("reading .coppice (a host lives there)"),
        "{}",
        said.stderr
    );
    up.stop();
    let status = place.run(&["status", "--json"]).json(0);
    assert!(
        text(&status, "/data").starts_with(".coppice/runs/"),
        "{status}"
    );
}

#[test]
fn a_host_that_dies_before_there_is_a_tree_has_died() {
    let place = Place::new();
    let fault = "root@run.opened:before=kill_host";
    let said = place.run(&["run", "fan-out-join", "--fault", fault]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    for line in [
        "held  restarts: 1",
        "held  never.fault.injected: 1",
        "held  fault root@run.opened:before=kill_host: struck",
    ] {
        assert!(said.stdout.contains(line), "{line}: {}", said.stdout);
    }
    assert!(
        said.stderr
            .contains("the host died and was started again (once)"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_name_is_looked_for_here_before_the_library() {
    let place = Place::new();
    place.run(&["new", "topology", "own"]).good();
    place.run(&["new", "scenario", "own"]).good();
    let said = place.run(&["faults", "own", "--json"]);
    assert!(said.good().contains("root/research[0]"), "{}", said.stderr);
    // A topology is found by its name too, and taken for what it is.
    let said = place.run(&["submit", "own", "--input", "{}"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(said.stderr.contains("no host is up"), "{}", said.stderr);
    let said = place.run(&["run", "topologies/own.yaml"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("is a topology") && said.stderr.contains("coppice submit"),
        "{}",
        said.stderr
    );
    let said = place.run(&["submit", "scenarios/own.yaml", "--input", "{}"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("is a scenario") && said.stderr.contains("coppice run"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_log_that_is_gone_or_damaged_is_said_and_the_next_host_mends_it() {
    let place = Place::new();
    place.up().stop();
    let log = place.path().join(".coppice/log");
    std::fs::remove_dir_all(&log).expect("it can be removed");
    for reading in [&["ls"][..], &["status"], &["events"], &["log", "verify"]] {
        let said = place.run(reading);
        assert_eq!(said.code, 3, "{reading:?} {}", said.stdout);
        for part in [
            "there is no log at",
            "had come to position",
            "coppice up",
            "from the stream",
        ] {
            assert!(said.stderr.contains(part), "{reading:?} {}", said.stderr);
        }
    }
    assert!(!log.exists());
    place.up().stop();
    place.run(&["log", "verify"]).good();
}

#[test]
fn a_data_directory_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    let place = Place::new();
    place.write("file", "no directory");
    let said = place.run(&["ls", "--data", "file"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(
        said.stderr.contains("the directory file cannot be read"),
        "{}",
        said.stderr
    );
}

const GATE: &str = "
topology: gate
version: 1
contract: default
input: { type: object }
nodes:
  gate: { wait: { signal: { name: go, timeout: 10m } } }
  done: { after: [gate], end: { reason: refused } }
";

#[test]
fn a_run_says_for_what_it_waits_and_a_signal_that_nothing_waits_for_is_said_to_be_none() {
    let place = Place::new();
    place.write("topologies/gate.yaml", GATE);
    // Its tools need no desk: it has none.
    let up = place.up_with(&[]);
    let started = place
        .run(&["submit", "gate", "--input", "{}", "--json"])
        .json(0);
    let tree = text(&started, "/tree").to_owned();
    let seen = loop {
        let frame = place.run(&["watch", "--once", &tree, "--json"]).json(0);
        if frame.pointer("/runs/0/waiting/what").is_some() {
            break frame;
        }
    };
    assert_eq!(text(&seen, "/runs/0/waiting/what"), "signal");
    assert!(
        text(&seen, "/runs/0/waiting/who").starts_with("signal go, else the clock"),
        "{seen}"
    );
    let said = place.run(&["signal", &tree, "gone"]);
    assert!(said.good().contains("has the signal"), "{}", said.stdout);
    let note = format!("nothing in {tree} waits for gone; it waits for go");
    assert!(said.stderr.contains(&note), "{}", said.stderr);
    let said = place.run(&["signal", &tree, "go"]);
    assert!(
        said.good().contains("has the signal") && !said.stderr.contains("nothing"),
        "{}",
        said.stderr
    );

    // What the library's tools need is not there, which is said before anything is done.
    let said = place.run(&SUBMIT);
    assert_eq!(said.code, 2, "{}", said.stderr);
    for part in ["needs {desk}", "--endpoint desk=URL", "--with-desk"] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
    up.stop();
}

#[test]
fn a_fault_that_never_struck_is_told_what_it_may_have_meant() {
    let place = Place::new();
    let fault = "root/research[7]@effect.landed=kill_host";
    let said = place.run(&["run", "widening-refused", "--fault", fault]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(
        said.stdout
            .contains("never struck: did you mean root/research[0]@effect.landed"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("coppice faults widening-refused"),
        "{}",
        said.stdout
    );
}
