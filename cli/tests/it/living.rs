//! A host that stays: looking at it while it lives and after, killing it, going on.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Place, number, signal, text};

/// Work that takes a while.
const SLOW: &str = "
scenario: slow
about: A desk that takes its time.
topology: incident-comparison
input: { request_id: r-1, incidents: [incident_104, incident_119] }
world: { desk: { latency_ms: 1000 } }
expect: { reason: succeeded }
";

const INPUT: &str = r#"{"request_id": "r-9", "incidents": ["incident_104", "incident_119"]}"#;

/// What every reading command says, in the same words whether a host lives or not.
fn looked_at(place: &Place, tree: &str) -> Value {
    let json = |arguments: &[&str]| place.run(arguments).json(0);
    let audit = json(&["audit", tree, "--json"]);
    assert_eq!(audit.pointer("/findings"), Some(&json!([])));
    json!({
        "ls": json(&["ls", "--json"]),
        "show": json(&["show", tree, "--json"]),
        "watch": json(&["watch", "--once", tree, "--json"]),
        "rebuild": json(&["log", "rebuild", tree, "--json"]),
        "audit": audit,
        "events": place.run(&["events", "--tree", tree, "--json"]).good().lines().collect::<Vec<_>>(),
    })
}

#[test]
fn the_same_is_seen_through_the_living_host_and_in_the_log_that_it_left() {
    let place = Place::new();
    let up = place.up();
    let submitted = [
        "submit",
        "incident-comparison",
        "--input",
        INPUT,
        "--key",
        "k-1",
        "--wait",
        "--json",
    ];
    let submitted = place.run(&submitted).json(0);
    let tree = text(&submitted, "/started/tree").to_owned();
    assert_eq!(text(&submitted, "/run/ended/reason"), "succeeded");
    let again = place.run(&[
        "submit",
        "incident-comparison",
        "--input",
        INPUT,
        "--key",
        "k-1",
        "--json",
    ]);
    assert_eq!(again.json(0).pointer("/met"), Some(&json!(true)));

    let alive = looked_at(&place, &tree);
    let status = place.run(&["status", "--json"]).json(0);
    assert_eq!(status.pointer("/alive"), Some(&json!(true)));
    assert_eq!(status.pointer("/host/degraded"), Some(&json!([])));
    let verified = place.run(&["log", "verify", "--json"]).json(0);
    assert!(verified.pointer("/stream/equal").is_some(), "{verified}");
    up.stop();

    assert_eq!(looked_at(&place, &tree), alive);
    let status = place.run(&["status", "--json"]).json(0);
    assert_eq!(status.pointer("/alive"), Some(&json!(false)));
    let verified = place.run(&["log", "verify", "--json"]).json(0);
    assert!(verified.pointer("/stream/equal").is_some(), "{verified}");
    assert_eq!(verified.pointer("/findings"), Some(&json!([])));
}

#[test]
fn a_host_that_is_killed_from_outside_is_started_again_and_its_tree_goes_on() {
    let place = Place::new();
    let up = place.up();
    let before = place.run(&["status", "--json"]).json(0);
    let pid = number(&before, "/host/pid");
    let submitted = place.run(&["submit", "incident-comparison", "--input", INPUT, "--json"]);
    let tree = text(&submitted.json(0), "/tree").to_owned();
    signal("KILL", u32::try_from(pid).expect("a process id"));
    // Whoever looks meanwhile waits for the host, or finds the log while it is away.
    let ended = place.run(&["events", "--tree", &tree, "--kind", "run.opened", "--json"]);
    assert!([0, 3].contains(&ended.code), "{}", ended.stderr);
    up.stop();
    let resumed = place.run(&["resume", &tree, "--json"]).json(0);
    let rows = resumed.as_array().expect("a list");
    assert!(
        rows.iter().all(|row| text(row, "/reason") == "succeeded"),
        "{resumed}"
    );
    let view = place.run(&["show", &tree, "--json"]).json(0);
    assert_eq!(text(&view, "/run/ended/reason"), "succeeded");
    let landed = [
        "events",
        "--tree",
        &tree,
        "--kind",
        "check.passed",
        "--json",
    ];
    assert!(place.run(&landed).good().lines().count() >= 2);
    assert_eq!(
        place
            .run(&["audit", &tree, "--json"])
            .json(0)
            .pointer("/findings"),
        Some(&json!([]))
    );
}

#[test]
fn an_interrupted_run_is_gone_on_with_and_ends_as_it_should() {
    let place = Place::new();
    let slow = place
        .run(&["scenarios", "show", "fan-out-join"])
        .good()
        .replace("latency_ms: 20", "latency_ms: 1500");
    place.write("slow.yaml", &slow);
    let mut run = place
        .command(&["run", "slow.yaml", "--data", "d"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let stderr = run.stderr.take().expect("it is piped");
    let mut lines = BufReader::new(stderr).lines();
    let started = lines.find_map(|line| line.ok()?.strip_prefix("tree ").map(str::to_owned));
    let tree = started.expect("the tree is named when it was started");
    signal("INT", run.id());
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(run.wait().expect("it ends").code(), Some(130));
    assert!(
        rest.iter().any(|line| line.contains("resume --data d")),
        "{rest:?}"
    );

    let resumed = place.run(&["resume", "--data", "d", "--json"]).json(0);
    assert_eq!(resumed, json!([{ "tree": tree, "reason": "succeeded" }]));
}

#[test]
fn the_environment_for_other_clients_is_that_of_a_watcher_unless_asked_otherwise() {
    let place = Place::new();
    let up = place.up();
    let env = place.run(&["env"]);
    assert!(
        env.good().starts_with("export NATS_URL='nats://watcher:"),
        "{}",
        env.stdout
    );
    let context = place.run(&["env", "--nats-context", "--operator"]).json(0);
    assert_eq!(text(&context, "/user"), "operator");
    up.stop();
    let gone = place.run(&["env"]);
    assert_eq!(gone.code, 3);
    assert!(gone.stderr.contains("no host runs"), "{}", gone.stderr);
}

#[test]
fn who_follows_sees_each_event_once_through_the_death_of_the_host() {
    let place = Place::new();
    let up = place.up();
    let mut follow = place
        .command(&["events", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let stdout = follow.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(stdout).lines();
    let mut until_end_of = |tree: &str| -> Vec<String> {
        let mut seen = Vec::new();
        for line in lines.by_ref() {
            let line = line.expect("a line can be read");
            let event: Value = serde_json::from_str(&line).expect("each line is JSON");
            let is_end = text(&event, "/kind") == "run.ended" && text(&event, "/run") == tree;
            seen.push(line);
            if is_end {
                break;
            }
        }
        seen
    };
    let submit = |key: &str| {
        let submit = [
            "submit",
            "incident-comparison",
            "--input",
            INPUT,
            "--key",
            key,
            "--json",
        ];
        text(&place.run(&submit).json(0), "/tree").to_owned()
    };
    let first = submit("k-1");
    let mut seen = until_end_of(&first);
    let status = place.run(&["status", "--json"]).json(0);
    let pid = number(&status, "/host/pid");
    signal("KILL", u32::try_from(pid).expect("a process id"));
    // While the host is away a submission is refused: it is made again with the same key until it is taken.
    let second = loop {
        let submit = [
            "submit",
            "incident-comparison",
            "--input",
            INPUT,
            "--key",
            "k-2",
            "--json",
        ];
        let said = place.run(&submit);
        if said.code == 0 {
            break text(&said.json(0), "/tree").to_owned();
        }
    };
    seen.extend(until_end_of(&second));
    signal("INT", follow.id());
    follow.wait().expect("it ends");
    let recorded = place.run(&["events", "--json"]);
    assert_eq!(seen, recorded.good().lines().collect::<Vec<_>>());
    up.stop();
}

#[test]
fn looking_while_the_host_is_away_does_not_keep_it_away() {
    let place = Place::new();
    let up = place.up();
    for _ in 0..3 {
        let status = place.run(&["status", "--json"]).json(0);
        let pid = number(&status, "/host/pid");
        signal("KILL", u32::try_from(pid).expect("a process id"));
        // Each waits for the host, which is started again; none takes the directory from it.
        for _ in 0..2 {
            let status = place.run(&["status", "--json"]).json(0);
            assert_eq!(status.pointer("/alive"), Some(&json!(true)));
        }
    }
    up.stop();
}

#[test]
fn a_tree_that_does_not_succeed_says_why_and_ends_with_code_1() {
    let place = Place::new();
    let up = place.up();
    let submit = ["submit", "incident-comparison", "--input", INPUT, "--wait"];
    place.run(&submit).good();
    // The second tree of one request files a second ticket, and its evidence wants one.
    let said = place.run(&[&submit[..], &["--again"]].concat());
    assert_eq!(said.code, 1, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains(": failed"), "{}", said.stdout);
    assert!(
        said.stdout.contains("1 from find_ticket instead of 2"),
        "{}",
        said.stdout
    );
    up.stop();
}

/// The process id of the desk that the process `parent` started.
fn desk_of(parent: u32) -> Option<u32> {
    let listed = Command::new("ps").args(["-eo", "pid,ppid,args"]).output();
    let listed = String::from_utf8(listed.ok()?.stdout).ok()?;
    listed.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let process = words.next()?.parse().ok()?;
        let of = words.next()?.parse::<u32>().ok()?;
        let is_desk = words.nth(1)? == "desk-serve";
        (of == parent && is_desk).then_some(process)
    })
}

#[test]
fn a_desk_that_dies_is_said_at_once_and_the_run_is_gone_on_with_on_what_it_had_stored() {
    let place = Place::new();
    place.write("slow.yaml", SLOW);
    let mut run = place
        .command(&["run", "slow.yaml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut said = BufReader::new(run.stderr.take().expect("it is piped")).lines();
    let started = said.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("tree ")));
    assert!(started.is_some());
    signal("KILL", desk_of(run.id()).expect("a desk runs"));
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    let code = run.wait().expect("it ends").code();
    assert_eq!(code, Some(3), "{rest:?}");
    let rest = rest.join("\n");
    assert!(
        rest.contains("the desk ended by itself (signal: 9"),
        "{rest}"
    );
    assert!(rest.contains("resume --data"), "{rest}");
    let resumed = place.run(&["resume"]);
    assert!(resumed.good().contains("succeeded"), "{}", resumed.stderr);
}
