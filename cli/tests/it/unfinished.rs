//! A restore or a trim that is killed with SIGKILL: what it leaves is whole, or nobody takes it for a log; the next one clears it away.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use coppice_store::clock;

use crate::support::{Place, number, text};

/// A moment is waited for no longer than this.
const MOMENT: Duration = Duration::from_secs(20);

/// Starts a command and kills it as soon as something is so; whether it was before the command had ended.
fn killed_when(place: &Place, command: &[&str], so: impl Fn(&Path) -> bool) -> bool {
    let mut command = place.command(command);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child: Child = command.spawn().expect("started");
    let from = clock::mono();
    while !so(place.path()) {
        if child.try_wait().expect("known").is_some() {
            return false;
        }
        assert!(from.elapsed() < MOMENT, "it neither ends nor comes so far");
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    true
}

/// Files and directories below a directory.
fn count(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| 1 + count(&entry.path())).sum()
}

fn verified(place: &Place, data: &str) {
    let report = place.run(&["log", "verify", "--data", data, "--json"]);
    assert!(number(&report.json(0), "/commits") > 0);
}

#[test]
fn what_a_killed_restore_leaves_is_never_taken_for_a_log_and_the_next_restore_clears_it_away() {
    let place = Place::new();
    place
        .run(&["run", "fan-out-join", "--data", "here", "--json"])
        .json(0);
    place.run(&["backup", "copy", "--data", "here"]).good();
    let restore = ["restore", "copy", "--data", "again"];
    let (begun, data) = (
        place.path().join("again.restoring"),
        place.path().join("again"),
    );
    let (mut killed, mut unfinished) = (0, 0);
    // By how many files there are: from the first one to the last.
    let each = if std::env::var_os("COPPICE_LONG").is_some() {
        1
    } else {
        6
    };
    let moments = (0..60).step_by(each);
    let most = u32::try_from(moments.len()).expect("few");
    for files in moments {
        let so_far = |_: &Path| begun.exists() && count(&begun) >= files || data.exists();
        killed += u32::from(killed_when(&place, &restore, so_far));
        let marked = begun.join("unfinished").exists();
        assert!(marked || count(&begun) == 0, "what is begun is marked");
        for left in ["again", "again.restoring"] {
            if !place.path().join(left).join("unfinished").exists() {
                continue;
            }
            unfinished += 1;
            for command in [&["log", "verify"][..], &["ls"], &["up"]] {
                let said = place.run(&[command, &["--data", left]].concat());
                assert_eq!(said.code, 2, "{}{}", said.stdout, said.stderr);
                let message = "unfinished data directory";
                assert!(
                    said.stderr.contains(message) || said.stderr.contains("no data"),
                    "{}",
                    said.stderr
                );
            }
        }
        if data.exists() && !data.join("unfinished").exists() {
            verified(&place, "again");
            fs::remove_dir_all(&data).expect("removed");
        }
        place.run(&restore).good();
        assert!(!begun.exists() && !data.join("unfinished").exists());
        fs::remove_dir_all(&data).expect("removed");
    }
    println!("{killed} of {most} were killed, {unfinished} left something");
    assert!(killed > most / 3 && unfinished > most / 3);
    place.run(&restore).good();
    verified(&place, "again");
}

#[test]
fn a_restore_beside_which_something_else_lies_leaves_it_as_it_is() {
    let place = Place::new();
    place
        .run(&["run", "one-request-twice", "--data", "here", "--json"])
        .json(0);
    place.run(&["backup", "copy", "--data", "here"]).good();
    place.write("again.restoring/of-somebody", "else");
    let refused = place.run(&["restore", "copy", "--data", "again"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("again.restoring is there already"),
        "{}",
        refused.stderr
    );
    assert!(place.path().join("again.restoring/of-somebody").exists());
}

#[test]
fn a_trim_killed_at_any_moment_leaves_a_whole_log_and_is_finished_by_the_next() {
    let place = Place::new();
    place
        .run(&["run", "fan-out-join", "--data", "whole", "--json"])
        .json(0);
    let exported = place.run(&[
        "log",
        "export",
        "old.archive",
        "--ended-before",
        "0s",
        "--data",
        "whole",
    ]);
    exported.good();
    let trim = [
        "log",
        "trim",
        "--ended-before",
        "0s",
        "--exported",
        "old.archive",
        "--data",
        "d",
        "--json",
    ];
    let data = place.path().join("d");
    let (fresh, stream) = (data.join("log.trimming"), data.join("nats/store"));
    let mark = || fs::read(data.join("log.mark")).unwrap_or_default();
    let of_the_whole = fs::read(place.path().join("whole/log.mark")).expect("there is a mark");
    let moments: [(&str, &dyn Fn() -> bool); 5] = [
        ("it begins to write", &|| fresh.exists()),
        ("it has written some", &|| count(&fresh) > 20),
        ("the stream is gone", &|| fresh.exists() && !stream.exists()),
        ("the mark is another", &|| {
            !fresh.exists() && mark() != of_the_whole || fresh.exists() && mark() != of_the_whole
        }),
        ("it clears away", &|| {
            fresh.exists() && count(&fresh) > 20 && !stream.exists()
        }),
    ];
    let mut killed = 0;
    for (what, so) in moments {
        crate::damaged::copy(&place.path().join("whole"), &data);
        killed += u32::from(killed_when(&place, &trim, |_| so()));
        // Whatever is left over, nothing that was to stay is lost; a stream that is not filled again yet is named, and by nobody who reads filled.
        let seen = place.run(&["log", "verify", "--data", "d", "--json"]);
        let report = seen.json(i32::from(seen.code == 1));
        let findings = report["findings"].as_array().expect("a list");
        assert!(
            findings.iter().all(|f| text(f, "/law") == "stream"),
            "{what}: {report}"
        );
        let finished = place.run(&trim).json(0);
        let again = place.run(&trim).json(0);
        assert_eq!(number(&again, "/commits"), 0, "{what}: {finished}");
        assert!(!fresh.exists(), "{what}: a log that nobody needs is left");
        verified(&place, "d");
        place
            .run(&["log", "import", "old.archive", "--data", "d"])
            .good();
        let report = place
            .run(&["log", "verify", "--data", "d", "--json"])
            .json(0);
        assert_eq!(
            report["findings"].as_array().map(Vec::len),
            Some(0),
            "{what}"
        );
        assert!(text(&report, "/state").starts_with("sha256:"));
        fs::remove_dir_all(&data).expect("removed");
    }
    assert!(killed >= 3, "{killed} of {} were killed", moments.len());
}

#[test]
fn an_import_that_is_killed_at_any_moment_is_finished_by_the_same_command() {
    let place = Place::new();
    let run = ["run", "one-request-twice", "--data", "here", "--json"];
    place.run(&run).json(0);
    let export = ["log", "export", "trees.archive", "--data", "here"];
    place.run(&export).good();
    let import = ["log", "import", "trees.archive", "--data", "there"];
    let data = place.path().join("there");
    let each = match std::env::var_os("COPPICE_LONG") {
        Some(_) => 1,
        None => 6,
    };
    let (mut killed, mut without_log) = (0, 0);
    // By how many files there are: from the first one to the last.
    for files in (1..60).step_by(each) {
        killed += u32::from(killed_when(&place, &import, |_| count(&data) >= files));
        without_log += u32::from(data.join("format").exists() && !data.join("log").exists());
        place.run(&import).good();
        verified(&place, "there");
        fs::remove_dir_all(&data).expect("removed");
    }
    assert!(killed > 2 && without_log > 0, "{killed} {without_log}");
}

#[test]
fn what_a_killed_backup_leaves_is_removed_by_the_next_one_and_that_of_a_living_one_is_not() {
    let place = Place::new();
    let run = ["run", "one-request-twice", "--data", "here", "--json"];
    place.run(&run).json(0);
    let part = |process: u32| place.path().join(format!("copy.part-{process}"));
    let mut ended = place.command(&["--version"]);
    let mut ended = ended.stdout(Stdio::null()).spawn().expect("started");
    let dead = ended.id();
    ended.wait().expect("ended");
    let (left, living) = (part(dead), part(std::process::id()));
    for directory in [&left, &living] {
        fs::create_dir(directory).expect("made");
        fs::write(directory.join("log.archive"), b"a part").expect("written");
    }
    place.run(&["backup", "copy", "--data", "here"]).good();
    assert!(!left.exists(), "nobody is at work on it");
    assert!(living.exists(), "somebody may be at work on it");
}

#[test]
fn a_directory_whose_format_file_is_gone_is_read_as_a_host_reads_it() {
    let place = Place::new();
    let run = ["run", "one-request-twice", "--data", "here", "--json"];
    place.run(&run).json(0);
    let format = place.path().join("here/format");
    fs::remove_file(&format).expect("removed");
    verified(&place, "here");
    assert!(format.exists(), "it is written anew");
}
