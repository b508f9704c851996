//! A log that is damaged, or gone, or older than it was: whoever reads it is told what is missing and what to do, and never shown less in silence.

use std::{fs, path::Path};

use crate::support::{Place, number};

/// A directory with one run in it.
fn recorded() -> Place {
    let place = Place::new();
    let run = ["run", "one-request-twice", "--data", "d", "--json"];
    place.run(&run).json(0);
    place
}

/// What a reading command says that cannot read.
fn refused(place: &Place, command: &[&str]) -> String {
    let said = place.run(&[command, &["--data", "d"]].concat());
    assert_eq!(said.code, 3, "{}{}", said.stdout, said.stderr);
    assert!(
        said.stderr.contains("coppice up --data "),
        "it says what to do: {}",
        said.stderr
    );
    said.stderr
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

#[test]
fn a_log_that_is_gone_or_older_or_does_not_open_is_named_by_whoever_reads_it_with_what_to_do() {
    let place = recorded();
    let data = place.path().join("d");
    let verified = ["log", "verify", "--data", "d", "--json"];
    let before = number(&place.run(&verified).json(0), "/pos");
    let (log, older) = (data.join("log"), data.join("older"));
    copy(&log, &older);
    let again = ["run", "one-request-twice", "--seed", "2", "--data", "d"];
    place.run(&again).good();
    let after = number(&place.run(&verified).json(0), "/pos");

    // An older copy, and all that could complete it is gone.
    fs::rename(data.join("nats"), place.path().join("nats")).expect("moved");
    fs::rename(&log, place.path().join("log")).expect("moved");
    fs::rename(&older, &log).expect("put back");
    for command in [&["log", "verify"][..], &["ls"]] {
        let said = refused(&place, command);
        let missing = format!("ends at position {before}, but had come to position {after}");
        assert!(said.contains(&missing), "{said}");
    }

    // Neither log nor stream, and a mark that says that there was one.
    fs::remove_dir_all(&log).expect("removed");
    for command in [&["log", "verify"][..], &["ls"]] {
        let said = refused(&place, command);
        let missing = format!("which had come to position {after}");
        assert!(said.contains(&missing), "{said}");
    }
    assert!(!log.exists(), "nobody who reads makes a log");

    // A journal that fjall does not take.
    copy(&place.path().join("log"), &log);
    for entry in fs::read_dir(&log).expect("readable") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|end| end == "jnl") {
            let mut bytes = fs::read(&path).expect("readable");
            bytes[100] ^= 1;
            fs::write(&path, bytes).expect("written");
        }
    }
    let said = refused(&place, &["log", "verify"]);
    assert!(said.contains("cannot be used"), "{said}");

    // With the stream there again a host makes it good.
    fs::rename(place.path().join("nats"), data.join("nats")).expect("moved");
    place.up_with(&["--data", "d"]).stop();
    assert!(number(&place.run(&verified).json(0), "/pos") >= after);
}
