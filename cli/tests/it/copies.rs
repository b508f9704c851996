//! A copy of a data directory, made while its host runs: each of the two works for itself, and who looks at the copy sees the copy.

use std::fs;

use crate::{
    damaged::copy,
    support::{Place, number, text},
};

/// Submits under a key and waits for the end.
fn submitted(place: &Place, data: &str, key: &str) {
    let input = format!(r#"{{"request_id": "{key}", "incidents": ["incident_104"]}}"#);
    let submit = [
        "submit",
        "incident-comparison",
        "--input",
        &input,
        "--key",
        key,
        "--data",
        data,
        "--wait",
        "--json",
    ];
    let said = place.run(&submit).json(0);
    assert_eq!(text(&said, "/run/ended/reason"), "succeeded");
}

fn up(data: &str) -> [&str; 5] {
    ["--with-desk", "--data", data, "--http", "127.0.0.1:0"]
}

/// How many trees a directory has.
fn trees(place: &Place, data: &str) -> usize {
    let listed = place.run(&["ls", "--json", "--data", data]).json(0);
    let runs = listed.as_array().expect("a list").iter();
    runs.filter(|run| run["path"] == "root").count()
}

#[test]
fn a_copy_of_a_directory_and_its_original_each_work_for_themselves_at_the_same_time() {
    let place = Place::new();
    let data = place.path().join("d");
    let original = place.up_with(&up("d"));
    submitted(&place, "d", "k-1");
    copy(&data, &place.path().join("copy"));
    submitted(&place, "d", "k-2");
    let both = trees(&place, "d");

    // The copy has the endpoint of the original, and is looked at without it.
    let verified = place.run(&["log", "verify", "--data", "copy", "--json"]);
    let verified = verified.json(0);
    assert!(
        verified["live"].is_string(),
        "nobody lives there: {verified}"
    );
    let living = place
        .run(&["log", "verify", "--data", "d", "--json"])
        .json(0);
    assert!(number(&living, "/commits") > number(&verified, "/commits"));
    let said = place.run(&["env", "--data", "copy"]);
    assert_eq!(said.code, 3, "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains("no host runs"), "{}", said.stderr);
    assert_eq!((trees(&place, "copy"), both), (1, 2));

    let second = place.up_with(&up("copy"));
    let secrets = |data: &str| {
        let path = place.path().join(data).join("endpoint.json");
        let endpoint = fs::read_to_string(path).expect("there");
        let endpoint: serde_json::Value = serde_json::from_str(&endpoint).expect("JSON");
        (
            text(&endpoint, "/nats_url").to_owned(),
            text(&endpoint, "/roles/operator/password").to_owned(),
        )
    };
    let ((url, password), (other_url, other_password)) = (secrets("d"), secrets("copy"));
    assert_ne!(url, other_url);
    assert_ne!(password, other_password);
    submitted(&place, "copy", "k-3");
    submitted(&place, "copy", "k-4");
    submitted(&place, "d", "k-5");
    assert_eq!(trees(&place, "copy"), trees(&place, "d"));
    assert_eq!(trees(&place, "d"), both + 1);
    second.stop();
    original.stop();
    for data in ["d", "copy"] {
        place.run(&["log", "verify", "--data", data]).good();
    }

    // A directory that is only moved keeps what its clients know.
    fs::rename(&data, place.path().join("moved")).expect("moved");
    let moved = place.up_with(&up("moved"));
    assert_eq!(secrets("moved").1, password);
    moved.stop();
}
