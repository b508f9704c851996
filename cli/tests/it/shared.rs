//! Hosts on a nats-server that others use too: one host a realm, permissions that are missing, and a password that is shown nowhere.

use std::{fs, path::Path, process::Child};

use coppice_store::clock;
use serde_json::Value;

use crate::{
    shared_bus::{PASSWORD, SharedBus, until},
    support::{Place, number, signal, text},
};

fn status(place: &Place, data: &str) -> Value {
    let said = place.run(&["status", "--json", "--data", data]);
    serde_json::from_str(&said.stdout).unwrap_or_default()
}

fn degraded(place: &Place, data: &str) -> String {
    status(place, data)["host"]["degraded"].to_string()
}

fn is_refused(place: &Place) -> bool {
    let said = degraded(place, "one").to_lowercase();
    said.contains("permissions violation for publish")
}

/// The host that lives in a directory.
fn process(place: &Place, data: &str) -> Option<u32> {
    let pid = status(place, data)["host"]["pid"].as_u64()?;
    u32::try_from(pid).ok()
}

#[test]
fn a_second_host_of_a_realm_is_refused_by_name_and_starts_when_the_first_one_is_gone() {
    let (bus, place) = (SharedBus::start(), Place::new());
    let url = bus.url();
    let first = place.up_with(&bus.options(&url, "one"));
    let host = first.host();
    let second = [&["up"], &bus.options(&url, "two")[..]].concat();
    let said = place.run(&second);
    assert_eq!(said.code, 3, "{}", said.stderr);
    for part in [
        "staging",
        text(&host, "/host"),
        "since",
        &number(&host, "/pid").to_string(),
        "one",
        "stop that host first, or name another --realm",
    ] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
    // Another realm on the same server is nobody's business.
    let mut other = bus.options(&url, "three");
    other[3] = "testing";
    place.up_with(&other).stop();
    first.stop();
    place.up_with(&bus.options(&url, "two")).stop();
}

#[test]
fn a_killed_host_does_not_stand_in_the_way_of_its_own_restart_or_of_another_host() {
    let (bus, place) = (SharedBus::start(), Place::new());
    let url = bus.url();
    let up = place.up_with(&bus.options(&url, "one"));
    let from = clock::mono();
    let mut last = process(&place, "one").expect("it lives");
    for _ in 0..4 {
        signal("KILL", last);
        until("it is started again", || {
            process(&place, "one").is_some_and(|pid| pid != last)
        });
        last = process(&place, "one").expect("it lives");
    }
    println!("four restarts in {:?}", from.elapsed());
    up.stop();
    place.up_with(&bus.options(&url, "two")).stop();
}

#[test]
fn a_stopped_host_that_the_server_let_go_of_is_followed_by_another_and_ends_when_it_goes_on() {
    let (mut bus, place) = (SharedBus::start(), Place::new());
    let url = bus.url();
    let one = place.up_with(&bus.options(&url, "one"));
    let host = process(&place, "one").expect("it lives");
    signal("STOP", host);
    bus.restart();
    let two = place.up_with(&bus.options(&url, "two"));
    signal("CONT", host);
    assert_eq!(one.ended(), Some(3));
    assert!(process(&place, "two").is_some(), "the newer one stays");
    two.stop();
    for data in ["one", "two"] {
        place.run(&["log", "verify", "--data", data]).good();
    }
}

#[test]
fn a_stopped_host_keeps_its_realm_and_the_message_says_what_to_do() {
    let (bus, place) = (SharedBus::start(), Place::new());
    let url = bus.url();
    let up = place.up_with(&bus.options(&url, "one"));
    let host = u32::try_from(number(&up.host(), "/pid")).expect("a process id");
    signal("STOP", host);
    let said = place.run(&[&["up"], &bus.options(&url, "two")[..]].concat());
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(said.stderr.contains("does not answer"), "{}", said.stderr);
    assert!(
        said.stderr.contains("let it go on or end it"),
        "{}",
        said.stderr
    );
    signal("CONT", host);
    assert_eq!(process(&place, "one"), Some(host));
    up.stop();
}

/// A host on a shared server, whose words go to files: what is wrong to `said`, and that it is up to `up`.
fn begun(place: &Place, options: &[&str], data: &str) -> Child {
    let words = |of| fs::File::create(place.path().join(format!("{data}.{of}"))).expect("made");
    let mut up = place.command(&[&["up"], options].concat());
    up.stdout(words("up")).stderr(words("said"));
    up.spawn().expect("the program can be started")
}

/// Which of two ends by itself.
fn ends(ups: &mut [Child; 2]) -> usize {
    let from = clock::mono();
    loop {
        let ended = |up: &mut Child| up.try_wait().expect("asked").is_some();
        if let Some(gone) = ups.iter_mut().position(ended) {
            return gone;
        }
        assert!(from.elapsed().as_secs() < 60, "one of them ends");
        std::thread::yield_now();
    }
}

#[test]
fn of_two_hosts_that_are_started_at_the_same_moment_one_is_left_and_the_other_names_it() {
    let (bus, place) = (SharedBus::start(), Place::new());
    let url = bus.url();
    for round in 0..6 {
        let names = ["one", "two"].map(|name| format!("{name}{round}"));
        let mut ups = names
            .each_ref()
            .map(|data| begun(&place, &bus.options(&url, data), data));
        let gone = ends(&mut ups);
        let left = 1 - gone;
        assert_eq!(ups[gone].wait().expect("it ended").code(), Some(3));
        // Once it says so it hears of being interrupted as well.
        until("the other is up", || {
            let up = fs::metadata(place.path().join(format!("{}.up", names[left])));
            up.expect("there").len() > 0 && process(&place, &names[left]).is_some()
        });
        let winner = status(&place, &names[left]);
        let said = fs::read_to_string(place.path().join(format!("{}.said", names[gone])));
        let said = said.expect("readable");
        assert!(said.contains(text(&winner, "/host/host")), "{said}");
        signal("INT", ups[left].id());
        assert_eq!(ups[left].wait().expect("it ends").code(), Some(0));
    }
}

#[test]
fn a_feed_that_the_server_refuses_is_said_by_status_until_it_is_allowed() {
    let bus = SharedBus::denying("coppice.v1.staging.event.>");
    let (place, url) = (Place::new(), bus.url());
    let options = [&["--with-desk"], &bus.options(&url, "one")[..]].concat();
    let up = place.up_with(&options);
    until("the refusal is said", || is_refused(&place));
    let said = degraded(&place, "one");
    assert!(said.contains("coppice.v1.staging.event._host"), "{said}");
    bus.deny("nothing.at.all");
    // The next event shows that it is allowed now.
    let input = r#"{"request_id": "r-1", "incidents": ["incident_104"]}"#;
    let submit = [
        "submit",
        "incident-comparison",
        "--input",
        input,
        "--data",
        "one",
        "--wait",
    ];
    place.run(&submit).good();
    until("it is allowed", || !is_refused(&place));
    up.stop();
}

#[test]
fn a_password_in_the_url_connects_and_stands_nowhere_that_people_look() {
    let (bus, place) = (SharedBus::start(), Place::new());
    let url = bus.url();
    let up = place.up_with(&bus.options(&url, "one"));
    let mut said = vec![up.host().to_string(), status(&place, "one").to_string()];
    for more in [
        &["status", "--data", "one"][..],
        &[
            "env",
            "--data",
            "one",
            "--nats-context",
            "--operator",
            "--json",
        ],
        &["ls", "--data", "one"],
        &["log", "verify", "--data", "one"],
    ] {
        let shown = place.run(more);
        if more[0] == "env" {
            // Whoever asks for it gets it, as a field of its own.
            let context = shown.json(0);
            assert_eq!(text(&context, "/password"), PASSWORD);
            assert!(!text(&context, "/url").contains(PASSWORD));
            continue;
        }
        said.push(shown.stdout + &shown.stderr);
    }
    let endpoint = fs::read_to_string(place.path().join("one/endpoint.json")).expect("there");
    let endpoint: Value = serde_json::from_str(&endpoint).expect("JSON");
    said.push(text(&endpoint, "/nats_url").to_owned());
    let refused = place.run(&[&["up"], &bus.options(&url, "two")[..]].concat());
    said.push(refused.stdout + &refused.stderr);
    up.stop();
    for bad in [
        url.replace("127.0.0.1", "127.0.0.1:1:x"),
        format!("nats://ops:{PASSWORD}@127.0.0.1:1"),
        format!("http://ops:{PASSWORD}@127.0.0.1:1"),
        format!("nats://{PASSWORD}@127.0.0.1:1"),
        url.replace("ops", "nobody"),
    ] {
        let shown = place.run(&[&["up"], &bus.options(&bad, "three")[..]].concat());
        assert!([2, 3].contains(&shown.code), "{}", shown.stderr);
        assert!(!shown.stderr.is_empty());
        said.push(shown.stdout + &shown.stderr);
    }
    for said in &said {
        assert!(!said.contains(PASSWORD), "{said}");
    }
    for data in ["one", "two", "three"] {
        let holding = files_with(&place.path().join(data), PASSWORD);
        assert_eq!(holding, Vec::<String>::new());
    }
}

/// The files below a directory that hold a text.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path).is_ok_and(|held| {
            held.windows(text.len())
                .any(|window| window == text.as_bytes())
        }) {
            found.push(path.display().to_string());
        }
    }
    found
}
