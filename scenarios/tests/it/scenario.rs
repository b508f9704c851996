//! Scenario files: those of the library, those of users, and what is said of wrong ones.

use std::{fs, path::Path};

use coppice_scenarios::{
    library::{self, Source},
    scenario::{CancelAddress, Person, Scenario, ScenarioError},
};

const GOOD: &str = "\
scenario: mine
about: One incident.
topology: incident-comparison
input: { request_id: r-1, incidents: [incident_104] }
expect: { reason: succeeded }
";

fn read(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::read(Source {
        file: "mine.yaml".to_owned(),
        bytes: text.as_bytes().to_vec(),
        directory: None,
    })
}

/// The scenario is refused at a place, and what is said of it has these words.
#[track_caller]
fn refused(text: &str, place: &str, words: &str) {
    let said = read(text).expect_err(text).to_string();
    assert!(
        said.starts_with(&format!("mine.yaml:{place}: ")),
        "{said}\n{text}"
    );
    assert!(said.contains(words), "{said}\n{text}");
}

#[test]
fn every_scenario_of_the_library_can_be_read_under_its_own_name() {
    let names = library::names("scenarios");
    for needed in [
        "crash-after-write",
        "cancel-tree",
        "fail-fast",
        "fan-out-join",
        "host-crash",
        "nested",
        "no-progress",
        "quorum",
        "restart-storm",
        "runaway-spawn",
        "widening-refused",
        "worker-crash",
    ] {
        assert!(names.iter().any(|name| name == needed), "{needed}");
    }
    for name in names {
        let scenario = Scenario::find(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(scenario.document.scenario.as_str(), name);
    }
}

#[test]
fn a_wrong_scenario_is_refused_with_the_place_and_what_would_be_right() {
    let reason = "reason: succeeded";
    let with = |more: &str| GOOD.replace(reason, &format!("{reason}, {more}"));
    refused("scenario: [\n", "1:11", "unclosed bracket");
    refused(
        &GOOD.replace("about:", "abuot:"),
        "2:1",
        "did you mean about?",
    );
    refused(
        &GOOD.replace("mine", "'mi>ne'"),
        "1:11",
        "only the characters A-Z a-z 0-9 _ - are allowed",
    );
    refused(
        &format!("{GOOD}tenant: 'a.*'\n"),
        "6:9",
        "tenant \"a.*\" is not usable",
    );
    refused(
        &GOOD.replace("incident-comparison", "nowhere"),
        "3:11",
        "the library has called-back, cancel-tree",
    );
    refused(
        &with("events: { effect.landet: 1 }"),
        "5:40",
        "effect.landed",
    );
    refused(&with("desk: { tickets: few }"), "5:47", "{ at_least: … }");
    refused(
        &with("desk: { tickets: { at_least: 2, at_most: 1 } }"),
        "5:47",
        "no number is within",
    );
    refused(
        &with("answer: { schema: nothing_v9 }"),
        "5:48",
        "ticket_ref_v1",
    );
    refused(
        &format!("{GOOD}models: {{ writer: scripted/summarise }}\n"),
        "6:11",
        "it has researcher",
    );
    refused(
        &format!("{GOOD}world: {{ desk: {{ latency_ms: 999999999 }} }}\n"),
        "6:16",
        "at most 600000 ms",
    );
}

#[test]
fn a_topology_can_be_written_out_in_the_scenario_and_its_faults_have_their_place() {
    let inline = "\
scenario: inline
about: No file beside this one.
topology:
  topology: one-ticket
  version: 1
  contract: default
  nodes:
    file:
      call: { tool: create_ticket, arguments: { title: One, body: {}, request_id: { from: input, at: /request_id } } }
    done:
      after: [file]
      end:
        reason: succeeded
        answer: { ticket: { from: file, at: /id } }
        evidence: [ { check: find_ticket, arguments: { request_id: { from: input, at: /request_id } }, expect: { eq: [ { from: check, at: /count }, 1 ] } } ]
input: { request_id: r-1 }
expect: { reason: succeeded }
";
    let scenario = read(inline).unwrap();
    assert_eq!(scenario.release.plan.name, "one-ticket");
    refused(
        &inline.replace("create_ticket", "create_tikcet"),
        "9:21",
        "did you mean create_ticket?",
    );
}

#[test]
fn a_scenario_can_put_in_another_model_and_the_release_is_another_one() {
    let library = read(GOOD).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let script = library::text("models/summarise.yaml").unwrap();
    put(
        directory.path(),
        "models/mine.yaml",
        &script.replace("model: summarise", "model: mine"),
    );
    let text = format!("{GOOD}models: {{ researcher: scripted/mine }}\n");
    put(directory.path(), "mine.yaml", &text);
    let path = directory.path().join("mine.yaml");
    let mine = Scenario::find(path.to_str().unwrap()).unwrap();
    let routes: Vec<_> = mine.release.manifest.models.keys().collect();
    assert_eq!(routes, ["scripted/mine"]);
    assert_ne!(mine.release.release, library.release.release);
}

#[test]
fn what_a_scenario_names_is_looked_for_beside_it_first() {
    let directory = tempfile::tempdir().unwrap();
    let topology = library::text("topologies/incident-comparison.yaml").unwrap();
    let changed = topology.replace("version: 1", "version: 7");
    put(
        directory.path(),
        "topologies/incident-comparison.yaml",
        &changed,
    );
    put(directory.path(), "mine.yaml", GOOD);
    let path = directory.path().join("mine.yaml");
    let mine = Scenario::find(path.to_str().unwrap()).unwrap();
    assert_ne!(
        mine.release.manifest.topology,
        read(GOOD).unwrap().release.manifest.topology
    );
}

fn put(directory: &Path, file: &str, text: &str) {
    let path = directory.join(file);
    fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

#[test]
fn a_cancel_is_said_as_it_is_read_and_what_is_none_is_refused_with_what_would_be_one() {
    for text in ["root@2s", "root@500ms", "root/research[1]@model.proposed#2"] {
        let cancel: CancelAddress = text.parse().expect(text);
        assert_eq!(cancel.to_string(), text);
    }
    for (text, words) in [
        ("root", "such as 'root@2s'"),
        ("@2s", "such as 'root@2s'"),
        ("root@child.gone", "child.given_up"),
        ("root@model.asked#0", "a whole number from 1"),
    ] {
        let said = text.parse::<CancelAddress>().expect_err(text).to_string();
        assert!(said.contains(words), "{said}");
    }
    let people = "people: [ { where: root, event: 2s, do: cancel } ]\n";
    let person = Person::from("root@2s".parse::<CancelAddress>().expect("it is one"));
    let read = read(&format!("{GOOD}{people}")).expect("it is one");
    assert_eq!(read.document.people, [person]);
}
