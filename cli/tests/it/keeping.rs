//! Trees and whole logs that leave a data directory and come into another, with the host alive and without.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio};

use serde_json::{Value, json};

use crate::support::{Place, number, text};

const INPUT: &str = r#"{"request_id": "r-9", "incidents": ["incident_104", "incident_119"]}"#;

/// A host that has brought one tree to its end.
fn at_work(place: &Place) -> (crate::support::Up, String) {
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
    (up, tree)
}

/// What `show` says of a tree, without the positions.
fn shown(place: &Place, tree: &str, data: &str) -> Vec<Value> {
    let events = place.run(&["events", "--tree", tree, "--json", "--data", data]);
    let mut events: Vec<Value> = events
        .good()
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect();
    for event in &mut events {
        event["pos"] = json!(0);
    }
    events
}

fn verified(place: &Place, data: &str) -> Value {
    let report = place
        .run(&["log", "verify", "--json", "--data", data])
        .json(0);
    assert_eq!(report.pointer("/findings"), Some(&json!([])));
    report
}

#[test]
fn a_tree_is_exported_from_a_living_host_and_imported_elsewhere() {
    let place = Place::new();
    let (up, tree) = at_work(&place);
    let said = place
        .run(&["log", "export", "all.archive", "--json"])
        .json(0);
    assert_eq!(
        (number(&said, "/trees"), number(&said, "/unfinished")),
        (1, 0)
    );
    let again = place
        .run(&["log", "export", "all.archive", "--json"])
        .json(2);
    assert!(text(&again, "/error/message").contains("is there already"));
    let refused = place.run(&["log", "import", "all.archive"]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("a host runs on .coppice"),
        "{}",
        refused.stderr
    );
    up.stop();

    // The same from the log that the host left, through a pipe.
    let mut export = place.command(&["log", "export", "-", &tree]);
    let mut export = export.stdout(Stdio::piped()).spawn().expect("started");
    let mut import = place.command(&["log", "import", "-", "--data", "there", "--json"]);
    import.stdin(export.stdout.take().expect("piped"));
    let imported = Place::end(&mut import).json(0);
    assert!(export.wait().expect("ended").success());
    assert_eq!(number(&imported, "/commits"), number(&said, "/commits"));
    assert_eq!(
        number(&imported, "/commits"),
        number(&imported, "/new_commits")
    );
    let again = place
        .run(&["log", "import", "all.archive", "--data", "there", "--json"])
        .json(0);
    assert_eq!(number(&again, "/new_commits"), 0);

    assert_eq!(
        shown(&place, &tree, "there"),
        shown(&place, &tree, ".coppice")
    );
    assert!(verified(&place, "there").pointer("/stream/equal").is_some());
    let audit = place
        .run(&["audit", &tree, "--data", "there", "--json"])
        .json(0);
    assert_eq!(audit.pointer("/findings"), Some(&json!([])));
}

#[test]
fn an_archive_that_is_not_whole_or_of_trees_that_are_not_over_is_refused_and_makes_nothing() {
    let place = Place::new();
    let up = place.up();
    let started = place
        .run(&["submit", "incident-comparison", "--input", INPUT, "--json"])
        .json(0);
    let tree = text(&started, "/tree").to_owned();
    // Taken as soon as it is there, so that as a rule it is not over.
    place.run(&["log", "export", "early.archive"]).good();
    up.stop();
    let bytes = fs::read(place.path().join("early.archive")).expect("readable");
    fs::write(place.path().join("cut.archive"), &bytes[..bytes.len() - 9]).expect("written");
    let cut = place.run(&["log", "import", "cut.archive", "--data", "there"]);
    assert_eq!(cut.code, 2, "{}", cut.stderr);
    assert!(
        cut.stderr.contains("cut.archive: it ends at byte"),
        "{}",
        cut.stderr
    );
    let missing = place.run(&["log", "export", "none.archive", "no-such-tree"]);
    assert_eq!(missing.code, 2, "{}", missing.stderr);
    assert!(!place.path().join("none.archive").exists());
    let early = place.run(&["log", "import", "early.archive", "--data", "there"]);
    if early.code == 0 {
        // It was over before anybody could look.
        assert_eq!(
            shown(&place, &tree, "there"),
            shown(&place, &tree, ".coppice")
        );
        return;
    }
    assert_eq!(early.code, 2, "{}", early.stderr);
    assert!(early.stderr.contains("--unfinished"), "{}", early.stderr);
    assert!(!place.path().join("there").exists());
}

#[test]
fn a_tree_that_is_over_and_exported_is_trimmed_and_its_key_does_not_begin_it_anew() {
    let place = Place::new();
    let (up, tree) = at_work(&place);
    place
        .run(&["log", "export", "empty.archive", "--ended-before", "1d"])
        .good();
    place.run(&["log", "export", "all.archive"]).good();
    let trim = [
        "log",
        "trim",
        "--ended-before",
        "0s",
        "--exported",
        "all.archive",
        "--json",
    ];
    let refused = place.run(&trim).json(3);
    assert!(
        text(&refused, "/error/message").contains("a host runs on"),
        "{refused}"
    );
    up.stop();
    let without = [
        "log",
        "trim",
        "--ended-before",
        "0s",
        "--exported",
        "empty.archive",
        "--json",
    ];
    let kept = place.run(&without).json(0);
    assert_eq!(text(&kept, "/kept/0/why"), "no export has it");
    let dry = place.run(&[&trim[..], &["--dry-run"]].concat()).json(0);
    assert_eq!(text(&dry, "/trimmed/0/tree"), tree);
    place.run(&["show", &tree]).good();
    let trimmed = place.run(&trim).json(0);
    assert!(
        number(&trimmed, "/commits") > 0 && number(&trimmed, "/blobs") > 0,
        "{trimmed}"
    );
    assert!(
        verified(&place, ".coppice")
            .pointer("/stream/equal")
            .is_some()
    );
    let gone = place.run(&["show", &tree]);
    assert_eq!(gone.code, 2, "{}", gone.stdout);

    let up = place.up();
    let again = [
        "submit",
        "incident-comparison",
        "--input",
        INPUT,
        "--key",
        "k-1",
        "--json",
    ];
    let again = place.run(&again).json(2);
    assert!(
        text(&again, "/error/message").contains("was trimmed at"),
        "{again}"
    );
    let other_input = INPUT.replace("r-9", "r-10");
    let other = [
        "submit",
        "incident-comparison",
        "--input",
        &other_input,
        "--key",
        "k-2",
        "--wait",
        "--json",
    ];
    place.run(&other).json(0);
    up.stop();
    verified(&place, ".coppice");
    place.run(&["log", "import", "all.archive"]).good();
    assert!(place.run(&["show", &tree]).good().contains("succeeded"));
}

#[test]
fn a_log_is_backed_up_while_its_host_runs_and_goes_on_from_the_backup() {
    let place = Place::new();
    let (up, tree) = at_work(&place);
    let said = place.run(&["backup", "alive", "--json"]).json(0);
    let again = place.run(&["backup", "alive"]);
    assert_eq!(again.code, 2, "{}", again.stderr);
    up.stop();
    let later = place.run(&["backup", "stopped", "--json"]).json(0);
    assert!(
        number(&later, "/pos") > number(&said, "/pos"),
        "the host said that it stopped"
    );

    let taken = place.run(&["restore", "alive"]);
    assert_eq!(taken.code, 2, "{}", taken.stderr);
    assert!(
        taken.stderr.contains("is there already"),
        "{}",
        taken.stderr
    );
    let restored = place
        .run(&["restore", "alive", "--data", "again", "--json"])
        .json(0);
    assert_eq!(number(&restored, "/pos"), number(&said, "/pos"));
    assert_eq!(
        shown(&place, &tree, "again"),
        shown(&place, &tree, ".coppice")
    );
    let report = verified(&place, "again");
    assert_eq!(number(&report, "/pos"), number(&said, "/pos"));
    assert_eq!(
        place.run(&["ls", "--json", "--data", "again"]).good(),
        place.run(&["ls", "--json"]).good()
    );
    place.run(&["resume", "--data", "again"]).good();
    let of = |data: &str, file: &str| place.path().join(data).join(file);
    let secret = fs::read(of("again", "callbacks.key")).expect("it came along");
    let was = fs::read(of(".coppice", "callbacks.key")).expect("there is one");
    assert!(secret == was, "who signs callbacks signs on");
    for file in [of("again", "callbacks.key"), of("alive", "host.files")] {
        let mode = fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    let memo = fs::read_to_string(of("again", "run.json")).expect("it came along");
    assert!(
        !memo.contains("desk\":{"),
        "the desk's store is not in it: {memo}"
    );
    let files = fs::read(of("alive", "host.files")).expect("readable");
    for at in (0..files.len()).step_by(files.len() / 17) {
        let mut altered = files.clone();
        altered[at] ^= 1;
        fs::write(of("alive", "host.files"), altered).expect("written");
        let refused = place.run(&["restore", "alive", "--data", "third"]);
        assert_eq!(refused.code, 2, "byte {at}: {}", refused.stderr);
        assert!(!place.path().join("third").exists(), "byte {at}");
    }

    let archive = place.path().join("stopped/log.archive");
    let mut bytes = fs::read(&archive).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes).expect("written");
    let altered = place.run(&["restore", "stopped", "--data", "third"]);
    assert_eq!(altered.code, 2, "{}", altered.stderr);
    assert!(
        altered.stderr.contains("the frame at byte"),
        "{}",
        altered.stderr
    );
    assert!(!place.path().join("third").exists());
    let none = place.run(&["restore", "again", "--data", "third"]);
    assert_eq!(none.code, 2, "{}", none.stderr);
}
