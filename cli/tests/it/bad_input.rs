//! Bad input and bad environments: the message says what and where, the exit code whose fault it is, and nothing is lost.

use serde_json::Value;

use crate::support::{Place, text};

const SCENARIO: &str = "\
scenario: mine
about: One incident.
topology: incident-comparison
input: { request_id: r-1, incidents: [incident_104] }
expect: { reason: succeeded }
";

/// The call ends with this code, and its words have each of these parts.
#[track_caller]
fn refused(place: &Place, arguments: &[&str], code: i32, parts: &[&str]) {
    let said = place.run(arguments);
    assert_eq!(
        said.code, code,
        "{arguments:?}: {}{}",
        said.stdout, said.stderr
    );
    for part in parts {
        assert!(
            said.stderr.contains(part),
            "{arguments:?} lacks {part:?}: {}",
            said.stderr
        );
    }
}

/// A topology with one changed line, found beside the scenario.
fn topology(place: &Place, from: &str, to: &str) {
    let library = include_str!("../../../scenarios/library/topologies/incident-comparison.yaml");
    let changed = library.replacen(from, to, 1);
    assert_ne!(changed, library);
    place.write("topologies/incident-comparison.yaml", &changed);
    place.write("mine.yaml", SCENARIO);
}

#[test]
fn malformed_yaml_is_refused_with_file_line_and_column() {
    let place = Place::new();
    place.write("mine.yaml", "scenario: mine\nabout: [\n");
    refused(
        &place,
        &["run", "mine.yaml"],
        2,
        &["mine.yaml:2:8", "unclosed"],
    );
    place.write(
        "twice.yaml",
        &SCENARIO.replace("about:", "scenario: two\nabout:"),
    );
    refused(
        &place,
        &["run", "twice.yaml"],
        2,
        &["twice.yaml:2:1", "stands twice"],
    );
    assert!(!place.path().join(".coppice/latest").exists());
}

#[test]
fn a_file_without_an_end_is_refused_wherever_a_file_is_taken() {
    let place = Place::new();
    place.write(
        "endless.yaml",
        &format!("{SCENARIO}# {}", "x".repeat(5 << 20)),
    );
    let much = "it has more than 4 MiB";
    for command in [
        &["check", "/dev/zero"][..],
        &["run", "endless.yaml"],
        &["faults", "endless.yaml"],
        &["submit", "endless.yaml", "--input", "{}"],
        &["submit", "incident-comparison", "--input", "/dev/zero"],
        &["submit", "incident-comparison", "--input", "/dev/stdin"],
        &["sim", "replay", "/dev/zero"],
    ] {
        let mut endless = place.command(command);
        endless.stdin(std::fs::File::open("/dev/zero").unwrap());
        let said = Place::end(&mut endless);
        assert_eq!(said.code, 2, "{command:?}: {}", said.stderr);
        assert!(said.stderr.contains(much), "{command:?}: {}", said.stderr);
    }
    // What a file names is a file as well, and the library's of the same name does not take its place.
    topology(&place, "version: 1", "version: 2");
    place.write("contracts/default.yaml", &"# x\n".repeat(2 << 20));
    refused(
        &place,
        &["run", "mine.yaml"],
        2,
        &["contracts/default.yaml", much],
    );
}

#[test]
fn of_a_long_line_an_error_shows_the_beginning_alone() {
    let place = Place::new();
    let long = "x".repeat(1 << 20);
    place.write("value.yaml", &format!("scenario: mine\nabout: [ {long}\n"));
    place.write("key.yaml", &format!("scenario: mine\n{long}: 1\n"));
    place.write(
        "behind.yaml",
        &format!("{{ scenario: mine, about: {long}, {long}: 1 }}\n"),
    );
    for (file, at) in [
        ("value", "value.yaml:2:8"),
        ("key", "key.yaml:2:1"),
        ("behind", "behind.yaml:1:"),
    ] {
        let said = place.run(&["check", &format!("{file}.yaml")]);
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains(at), "{file}: {:.400}", said.stderr);
        assert!(said.stderr.len() < 8_000, "{file}: {}", said.stderr.len());
    }
}

#[test]
fn an_empty_file_is_told_how_one_begins() {
    let place = Place::new();
    place.write("empty.yaml", "");
    let help = ["empty.yaml", "does not say what it is", "begin with one of"];
    for command in [
        &["run", "empty.yaml"][..],
        &["check", "empty.yaml"],
        &["submit", "empty.yaml", "--input", "{}"],
    ] {
        refused(&place, command, 2, &help);
    }
}

#[test]
fn an_unknown_tool_and_an_unreachable_node_are_refused_where_they_stand() {
    let place = Place::new();
    topology(&place, "tool: create_ticket", "tool: create_tikcet");
    let parts = [
        "topologies/incident-comparison.yaml:",
        "create_tikcet",
        "did you mean create_ticket",
    ];
    refused(&place, &["run", "mine.yaml"], 2, &parts);
    topology(&place, "after: [gather]", "after: [done]");
    let parts = ["topologies/incident-comparison.yaml:", "file"];
    refused(
        &place,
        &["check", "topologies/incident-comparison.yaml"],
        2,
        &parts,
    );
}

#[test]
fn ids_that_would_change_a_subject_are_refused() {
    let place = Place::new();
    let only = "only the characters A-Z a-z 0-9 _ - are allowed";
    refused(
        &place,
        &["run", "fan-out-join", "--tenant", "a>"],
        2,
        &["a>", only],
    );
    refused(&place, &["ls", "--tenant", "*"], 2, &[only]);
    refused(&place, &["show", "root.*"], 2, &[only]);
    refused(
        &place,
        &[
            "submit",
            "incident-comparison",
            "--input",
            "{}",
            "--key",
            "k.>",
        ],
        2,
        &[only],
    );
    place.write(
        "mine.yaml",
        &SCENARIO.replace("scenario: mine", "scenario: 'a*'"),
    );
    refused(&place, &["run", "mine.yaml"], 2, &["mine.yaml:1:11", only]);
}

#[test]
fn an_input_that_the_topology_does_not_take_is_refused_before_anything_runs() {
    let place = Place::new();
    place.write("mine.yaml", &SCENARIO.replace("[incident_104]", "[]"));
    refused(&place, &["run", "mine.yaml"], 2, &["incidents"]);
    place.write("mine.yaml", &SCENARIO.replace("request_id: r-1, ", ""));
    refused(&place, &["run", "mine.yaml"], 2, &["request_id"]);
}

#[test]
fn a_fault_that_cannot_be_is_refused_with_those_that_can() {
    let place = Place::new();
    let fault = [
        "run",
        "fan-out-join",
        "--fault",
        "root@effect.landed=explode",
    ];
    refused(
        &place,
        &fault,
        2,
        &["kill_host, kill_actor, panic or delay(DURATION)"],
    );
    refused(&place, &["run", "no-such"], 2, &["no-such", "fan-out-join"]);
}

#[test]
fn ten_megabytes_from_a_tool_are_kept_out_and_nothing_is_filed_about_them() {
    let place = Place::new();
    let fail = "{ route: read_incident, do: { oversize: 10000000 } }";
    place.write(
        "mine.yaml",
        &SCENARIO.replace(
            "expect: { reason: succeeded }",
            &format!("world: {{ desk: {{ fail: [ {fail} ] }} }}\nexpect: {{ reason: failed, desk: {{ tickets: 0 }} }}"),
        ),
    );
    let report = place.run(&["run", "mine.yaml", "--json"]).json(0);
    assert_eq!(text(&report, "/verdict"), "held");
    let landed = place.run(&["events", "--kind", "effect.landed", "--json"]);
    let results: Vec<Value> = landed
        .good()
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect();
    let too_large = results.iter().filter(|event| {
        event.pointer("/body/result").and_then(Value::as_str) == Some("output_too_large")
    });
    assert_eq!(too_large.count(), 1);
    place.run(&["log", "verify"]).good();
}

#[test]
fn a_host_is_not_started_in_a_backup_nor_in_a_file() {
    let place = Place::new();
    place
        .run(&["run", "widening-refused", "--data", "d"])
        .good();
    place.run(&["backup", "kept", "--data", "d"]).good();
    place.write("afile", "x");
    let words = ["is a backup", "coppice restore kept --data NEW"];
    refused(&place, &["up", "--data", "kept"], 2, &words);
    refused(&place, &["up", "--data", "afile"], 2, &["afile is a file"]);
    place.run(&["restore", "kept", "--data", "again"]).good();
}

#[test]
fn a_data_directory_of_a_newer_format_is_left_as_it_is() {
    let place = Place::new();
    place
        .run(&["run", "widening-refused", "--data", "d"])
        .good();
    place.write("d/format", "99\n");
    let parts = ["format 99", "newer build"];
    refused(&place, &["ls", "--data", "d"], 2, &parts);
    refused(&place, &["up", "--data", "d"], 2, &parts);
    refused(&place, &["run", "fan-out-join", "--data", "d"], 2, &parts);
    place.write("d/format", "1\n");
    place.run(&["log", "verify", "--data", "d"]).good();
}

#[test]
fn a_data_directory_that_is_in_use_is_refused_and_its_owner_named() {
    let place = Place::new();
    let up = place.up();
    let parts = ["in use by process"];
    refused(&place, &["up", "--data", ".coppice"], 3, &parts);
    refused(
        &place,
        &["run", "widening-refused", "--data", ".coppice"],
        3,
        &parts,
    );
    up.stop();
}

#[test]
fn where_there_is_no_nats_server_it_says_how_to_get_one() {
    let place = Place::new();
    let mut run = place.command(&["run", "fan-out-join"]);
    run.env("PATH", "")
        .env("COPPICE_NATS_SERVER", "/nonexistent");
    let said = Place::end(&mut run);
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(
        said.stderr
            .contains("COPPICE_NATS_SERVER names /nonexistent"),
        "{}",
        said.stderr
    );
    // Nothing ran, so nothing is the latest.
    refused(
        &place,
        &["ls"],
        2,
        &["there is no data of coppice", "coppice run fan-out-join"],
    );
}

#[test]
fn a_run_that_is_not_there_and_a_host_that_is_not_up_are_said() {
    let place = Place::new();
    place.run(&["run", "widening-refused"]).good();
    refused(&place, &["show", "nobody"], 2, &["has no run nobody"]);
    refused(&place, &["audit", "nobody"], 2, &["has no tree nobody"]);
    let submit = ["submit", "incident-comparison", "--input", "{}"];
    refused(
        &place,
        &submit,
        3,
        &["no host is up", "coppice up --with-desk"],
    );
    refused(
        &place,
        &["run", "fan-out-join", "--nats", "nats://127.0.0.1:1"],
        2,
        &["--realm"],
    );
    let nobody = [
        "run",
        "fan-out-join",
        "--nats",
        "nats://127.0.0.1:1",
        "--realm",
        "test",
    ];
    refused(&place, &nobody, 3, &["cannot connect to NATS"]);
}

#[test]
fn after_a_host_that_never_came_up_every_reading_command_says_so_and_the_next_host_comes_up() {
    let place = Place::new();
    let server = ["--nats", "nats://127.0.0.1:1", "--realm", "test"];
    let up = [&["up", "--data", "d"], &server[..]].concat();
    refused(&place, &up, 3, &["cannot connect to NATS"]);
    for command in [
        &["status"][..],
        &["ls"],
        &["events"],
        &["log", "verify"],
        &["backup", "b"],
    ] {
        let command = [command, &["--data", "d"]].concat();
        let says = [
            "no host came up there yet",
            "coppice up --data d",
            "host.log",
        ];
        refused(&place, &command, 3, &says);
    }
    place.up_with(&["--data", "d"]).stop();
    place.run(&["log", "verify", "--data", "d"]).good();
}

#[test]
fn the_same_seed_in_the_same_directory_is_not_run_twice() {
    let place = Place::new();
    let run = ["run", "fan-out-join", "--data", "d", "--seed", "5"];
    place.run(&run).good();
    refused(
        &place,
        &run,
        2,
        &["already has the tree", "--seed", "--data d"],
    );
    // Its desk knows nothing of the other run's ticket.
    place
        .run(&["run", "fan-out-join", "--data", "d", "--seed", "6"])
        .good();
}

#[test]
fn a_name_that_is_not_there_is_refused_by_every_reading_command() {
    let place = Place::new();
    place
        .run(&["run", "widening-refused", "--data", "d"])
        .good();
    // A name that is not there has no answer, and an empty one would be a wrong answer.
    for reading in [
        &["log", "rebuild", "nobody"][..],
        &["events", "--tree", "nobody"],
        &["events", "--run", "nobody"],
        &["audit", "nobody"],
        &["show", "nobody"],
        &["watch", "--once", "nobody"],
    ] {
        refused(
            &place,
            &[reading, &["--data", "d"]].concat(),
            2,
            &["nobody"],
        );
    }
    refused(
        &place,
        &["events", "--kind", "effect.land", "--data", "d"],
        2,
        &["there is no kind of event \"effect.land\""],
    );
}
