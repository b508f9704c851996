//! A log that is damaged, or gone, or older than it was: whoever reads it is told what is missing and what to do, and never shown less in silence.

use std::{fs, path::Path};

use crate::support::{Place, number, text};

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

pub fn copy(from: &Path, to: &Path) {
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
    for word in ["panicked", "assertion", "fjall", ".rs:"] {
        assert!(
            !said.contains(word),
            "nobody can do anything with {word}: {said}"
        );
    }

    // With the stream there again a host makes it good.
    fs::rename(place.path().join("nats"), data.join("nats")).expect("moved");
    place.up_with(&["--data", "d"]).stop();
    assert!(number(&place.run(&verified).json(0), "/pos") >= after);
}

/// The files in which nats-server keeps the messages of the stream.
fn blocks(data: &Path) -> Vec<std::path::PathBuf> {
    let messages = data.join("nats/store/jetstream/$G/streams/COPPICE_local/msgs");
    let entries = fs::read_dir(messages).expect("readable");
    let all = entries.map(|entry| entry.expect("readable").path());
    all.filter(|path| path.extension().is_some_and(|end| end == "blk"))
        .collect()
}

#[test]
fn a_message_that_is_gone_from_the_middle_of_the_stream_is_named_and_comes_back_as_the_help_says() {
    let place = recorded();
    let data = place.path().join("d");
    let verified = ["log", "verify", "--data", "d", "--json"];
    let whole = place.run(&verified).json(0);
    for path in blocks(&data) {
        let mut bytes = fs::read(&path).expect("readable");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).expect("written");
    }
    let said = place.run(&verified);
    let found = said.json(1);
    let lacking = found["findings"].as_array().expect("a list");
    assert!(!lacking.is_empty(), "{found}");
    for finding in lacking {
        assert_eq!(text(finding, "/law"), "stream", "{finding}");
        assert!(number(finding, "/pos") > 0, "{finding}");
    }
    assert!(
        said.stderr.contains("remove d/nats/store"),
        "{}",
        said.stderr
    );
    fs::remove_dir_all(data.join("nats/store")).expect("removed");
    place.up_with(&["--data", "d"]).stop();
    let again = place.run(&verified).json(0);
    // What the host said about itself came after all that there was.
    let commits = number(&whole, "/commits");
    assert!(number(&again, "/stream/equal") > commits, "{again}");
    assert_eq!(again["findings"], whole["findings"]);
}

/// Moves what is in the journal into table files, and flips a bit in the first block of those of one key family.
fn damage_a_block(data: &Path, family: &str) {
    let tables = {
        let db = fjall::Database::builder(data.join("log"))
            .open()
            .expect("opens");
        let options = fjall::KeyspaceCreateOptions::default;
        let table = db.keyspace(family, options).expect("opens");
        table.rotate_memtable_and_wait().expect("flushed");
        table.path().join("tables")
    };
    for table in fs::read_dir(tables).expect("readable") {
        let path = table.expect("readable").path();
        let mut bytes = fs::read(&path).expect("readable");
        bytes[100] ^= 1;
        fs::write(&path, bytes).expect("written");
    }
}

#[test]
fn a_damaged_block_of_the_logs_files_is_named_with_its_positions_and_mended_as_the_help_says() {
    let place = recorded();
    let data = place.path().join("d");
    let verified = ["log", "verify", "--data", "d", "--json"];
    let whole = place.run(&verified).json(0);
    damage_a_block(&data, "commits");
    let said = place.run(&verified);
    let found = said.json(1);
    let findings = found["findings"].as_array().expect("a list");
    let unread = |finding: &&serde_json::Value| text(finding, "/what").contains("cannot be read");
    let placed = findings
        .iter()
        .filter(unread)
        .filter(|finding| finding["pos"].is_u64());
    assert!(placed.count() > 0, "{found}");
    assert!(
        said.stderr.contains("mv d/log d/log.damaged"),
        "{}",
        said.stderr
    );
    let listed = place.run(&["events", "--data", "d"]);
    assert_eq!(listed.code, 3, "{}{}", listed.stdout, listed.stderr);
    assert!(
        listed.stderr.contains("coppice log verify"),
        "{}",
        listed.stderr
    );

    fs::rename(data.join("log"), data.join("log.damaged")).expect("moved");
    place.up_with(&["--data", "d"]).stop();
    let again = place.run(&verified).json(0);
    assert!(number(&again, "/commits") > number(&whole, "/commits"));
}

#[test]
fn what_a_damaged_block_hides_is_said_and_not_taken_for_absent() {
    let place = recorded();
    let data = place.path().join("d");
    let tree = {
        let listed = place.run(&["ls", "--data", "d", "--json"]).json(0);
        text(&listed, "/0/tree").to_owned()
    };
    // The documents of the release, without which the frame has no names, are among the blobs.
    place.run(&["watch", "--once", &tree, "--data", "d"]).good();
    damage_a_block(&data, "blobs");
    for command in [&["watch", "--once", &tree][..], &["show", &tree]] {
        let said = place.run(&[command, &["--data", "d"]].concat());
        assert_eq!(said.code, 3, "{}{}", said.stdout, said.stderr);
        for part in ["cannot be read", "coppice log verify"] {
            assert!(said.stderr.contains(part), "{}", said.stderr);
        }
    }
}

#[test]
fn a_directory_without_its_format_file_is_said_to_have_been_without() {
    let place = recorded();
    let format = place.path().join("d/format");
    let verify = ["log", "verify", "--data", "d", "--json"];
    assert!(!place.run(&verify).stderr.contains("written anew"));
    fs::remove_file(&format).expect("removed");
    let said = place.run(&verify);
    said.json(0);
    let told = "d/format, which says the layout's version, was missing and is written anew";
    assert!(said.stderr.contains(told), "{}", said.stderr);
    assert!(format.is_file());
}
