//! The log is gone, older or unreadable, and a bit of the stream's file has flipped as well: a host ends within a bounded time and names what is in
//! neither, the same that `log verify` names. And what a stream lacks is named before anybody puts it back.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use coppice_store::clock;

use crate::{
    damaged::copy,
    support::{Place, Said, number, text},
};

/// A host that cannot read on gives up after ten seconds; it starts, looks through the rest and ends besides.
const GIVES_UP: Duration = Duration::from_secs(60);

/// One more run in the directory `d`.
fn run(place: &Place, seed: &str) {
    let run = ["run", "one-request-twice", "--data", "d", "--seed", seed];
    place.run(&run).good();
}

/// The file in which nats-server keeps the first messages.
fn block(data: &Path) -> PathBuf {
    data.join("nats/store/jetstream/$G/streams/COPPICE_local/msgs/1.blk")
}

/// Where each message lies in the file: its length, number and time come first, and what it is about.
fn messages(file: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = 0;
    while at < file.len() {
        starts.push(at);
        let length = file[at..at + 4].try_into().expect("four bytes");
        at += (u32::from_le_bytes(length) & 0x7fff_ffff) as usize;
    }
    starts
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("readable");
    bytes[at] ^= 4;
    fs::write(path, bytes).expect("written");
}

/// What `coppice up` says that does not come up.
fn refused(place: &Place, data: &str) -> Said {
    let from = clock::mono();
    let said = place.run(&["up", "--data", data]);
    assert!(from.elapsed() < GIVES_UP, "{data}: {:?}", from.elapsed());
    assert_eq!(said.code, 3, "{data}: {}{}", said.stdout, said.stderr);
    said
}

/// What is said of positions.
fn positions(said: &str) -> &str {
    let end = said.find(" in neither");
    let said = &said[..end.unwrap_or_else(|| panic!("not in neither: {said}"))];
    &said[said.rfind("position").expect("it names positions")..]
}

/// Damages a copy of the directory, and holds what a host and `log verify` say of it against each other. Returns the positions that they name.
fn named(place: &Place, what: &str, damage: impl Fn(&Path)) -> String {
    let name = what.replace(' ', "-");
    let data = place.path().join(&name);
    copy(&place.path().join("d"), &data);
    damage(&data);
    let log = || fs::read_dir(data.join("log")).map(Iterator::count).ok();
    let found = log();
    let verified = place.run(&["log", "verify", "--data", &name]);
    assert_eq!(
        verified.code, 3,
        "{what}: {}{}",
        verified.stdout, verified.stderr
    );
    let host = refused(place, &name);
    assert_eq!(
        positions(&host.stderr),
        positions(&verified.stderr),
        "{what}: {}{}",
        host.stderr,
        verified.stderr
    );
    assert!(
        verified.stderr.contains("coppice restore"),
        "{what}: {}",
        verified.stderr
    );
    assert_eq!(log(), found, "{what}: the log is as it was found");
    positions(&host.stderr).to_owned()
}

fn without_log(data: &Path) {
    fs::remove_dir_all(data.join("log")).expect("removed");
}

#[test]
fn a_log_that_is_gone_beside_a_stream_with_a_flipped_bit_is_named_by_host_and_verify_with_its_positions()
 {
    let place = Place::new();
    for seed in ["1", "2"] {
        let run = ["run", "one-request-twice", "--data", "d", "--seed", seed];
        place.run(&run).good();
    }
    let data = place.path().join("d");
    let whole = place
        .run(&["log", "verify", "--data", "d", "--json"])
        .json(0);
    let last = number(&whole, "/pos");
    let file = fs::read(block(&data)).expect("readable");
    let starts = messages(&file);
    let middle = starts[starts.len() / 2];
    // The position of the message in the middle, as the whole log knows it.
    let lacking = {
        copy(&data, &place.path().join("middle"));
        flip(&block(&place.path().join("middle")), middle + 200);
        let found = place.run(&["log", "verify", "--data", "middle", "--json"]);
        let found = found.json(1);
        let all = found["findings"].as_array().expect("a list");
        all.iter()
            .map(|finding| number(finding, "/pos"))
            .collect::<Vec<_>>()
    };
    let at = |offset: usize| {
        move |data: &Path| {
            without_log(data);
            flip(&block(data), offset);
        }
    };
    let (first, end) = (
        format!("positions 1 to {last} are"),
        format!("position {last} is"),
    );
    let of_the_middle = match lacking[..] {
        [one] => format!("position {one} is"),
        [one, .., other] => format!("positions {one} to {other} are"),
        [] => panic!("nothing is lacking"),
    };
    let rest = format!("positions {} to {last} are", lacking[0]);
    thread::scope(|scope| {
        let case = |what: &'static str, expected: Option<&str>, offset: usize| {
            let (place, expected) = (&place, expected.map(str::to_owned));
            scope.spawn(move || {
                let found = named(place, what, at(offset));
                println!("{what}: {found}");
                if let Some(expected) = expected {
                    assert_eq!(found, expected, "{what}");
                }
            });
        };
        case(
            "the payload of a message",
            Some(&of_the_middle),
            middle + 200,
        );
        case(
            "the subject of a message",
            Some(&of_the_middle),
            middle + 24,
        );
        case("the time of a message", Some(&of_the_middle), middle + 12);
        case("the length of a message", Some(&rest), middle + 2);
        case("the number of a message", None, middle + 5);
        case("the first message", Some("position 1 is"), 100);
        case("the length of the first message", Some(&first), 2);
        case("the last message", Some(&end), file.len() - 2);
        // A log that does not open is put back as it was found, and so is one that is older.
        let nonsense = |data: &Path| {
            for entry in fs::read_dir(data.join("log")).expect("readable") {
                let path = entry.expect("readable").path();
                if path.is_file() {
                    fs::write(path, b"nonsense").expect("written");
                }
            }
            flip(&block(data), middle + 200);
        };
        let (place, expected) = (&place, of_the_middle.clone());
        scope.spawn(move || {
            assert_eq!(named(place, "a log that does not open", nonsense), expected);
        });
    });
}

#[test]
fn a_log_and_its_mark_that_are_gone_beside_a_damaged_stream_do_not_cost_what_lies_behind() {
    let place = Place::new();
    place
        .run(&["run", "one-request-twice", "--data", "d"])
        .good();
    let data = place.path().join("d");
    let file = fs::read(block(&data)).expect("readable");
    let starts = messages(&file);
    without_log(&data);
    fs::remove_file(data.join("log.mark")).expect("removed");
    flip(&block(&data), starts[starts.len() / 2] + 200);
    let before = fs::metadata(block(&data)).expect("there").len();
    for _ in 0..2 {
        let said = refused(&place, "d");
        let message = format!("message {} of the stream", starts.len() / 2 + 1);
        assert!(said.stderr.contains(&message), "{}", said.stderr);
        assert!(!data.join("log").exists(), "nothing is taken for the log");
        let after = fs::metadata(block(&data)).expect("there").len();
        assert!(after >= before, "the stream is not made anew");
    }
}

#[test]
fn a_stream_that_was_cut_off_or_put_back_older_is_named_until_a_host_puts_back_what_it_lacks() {
    let place = Place::new();
    run(&place, "1");
    let data = place.path().join("d");
    copy(&data.join("nats"), &place.path().join("older"));
    run(&place, "2");
    let whole = place
        .run(&["log", "verify", "--data", "d", "--json"])
        .json(0);
    let last = number(&whole, "/pos");
    let cut = |data: &Path| {
        let path = block(data);
        let bytes = fs::read(&path).expect("readable");
        fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
    };
    let older = |data: &Path| {
        fs::remove_dir_all(data.join("nats")).expect("removed");
        copy(&place.path().join("older"), &data.join("nats"));
    };
    let none = |data: &Path| fs::remove_dir_all(data.join("nats/store")).expect("removed");
    type Damage<'a> = &'a dyn Fn(&Path);
    let damages: [(&str, Damage<'_>, &str); 3] = [
        ("cut", &cut, "the stream ends at message"),
        ("older", &older, "the stream ends at message"),
        ("none", &none, "there is no stream"),
    ];
    for (name, damage, why) in damages {
        let damaged = place.path().join(format!("d-{name}"));
        copy(&data, &damaged);
        damage(&damaged);
        let name = format!("d-{name}");
        let verify = ["log", "verify", "--data", &name, "--json"];
        // Looking changes nothing: the second look finds what the first one found.
        let mut found = Vec::new();
        for _ in 0..2 {
            let said = place.run(&verify);
            let report = said.json(1);
            assert!(said.stderr.contains("coppice up --data"), "{}", said.stderr);
            assert!(!said.stderr.contains("remove"), "{}", said.stderr);
            found.push(report["findings"].clone());
        }
        assert_eq!(found[0], found[1], "{name}");
        let findings = found[0].as_array().expect("a list");
        assert!(
            text(&findings[0], "/what").starts_with(why),
            "{}",
            findings[0]
        );
        let lacking: Vec<u64> = findings[1..].iter().map(|f| number(f, "/pos")).collect();
        let from = lacking.first().copied().expect("it lacks something");
        assert_eq!(lacking, (from..=last).collect::<Vec<_>>(), "{name}");
        // The other commands that read leave the stream alone, too.
        for command in [
            &["ls"][..],
            &["audit"],
            &["log", "stats"],
            &["log", "export", &format!("{name}.archive")],
            &["backup", &format!("{name}.backup")],
        ] {
            place.run(&[command, &["--data", &name]].concat()).good();
        }
        assert_eq!(place.run(&verify).json(1)["findings"], found[0], "{name}");
        place.up_with(&["--data", &name]).stop();
        let after = place.run(&verify).json(0);
        assert!(number(&after, "/stream/equal") > last, "{after}");
    }
}

#[test]
fn an_older_log_beside_a_stream_with_a_flipped_bit_is_named_with_what_neither_has_and_nothing_else()
{
    let place = Place::new();
    run(&place, "1");
    let data = place.path().join("d");
    let verify = ["log", "verify", "--data", "d", "--json"];
    let before = number(&place.run(&verify).json(0), "/pos");
    copy(&data.join("log"), &place.path().join("older"));
    run(&place, "2");
    let last = number(&place.run(&verify).json(0), "/pos");
    let file = fs::read(block(&data)).expect("readable");
    let starts = messages(&file);
    let older = |data: &Path| {
        fs::remove_dir_all(data.join("log")).expect("removed");
        copy(&place.path().join("older"), &data.join("log"));
    };
    let found = named(&place, "older and the last message", |data| {
        older(data);
        flip(&block(data), file.len() - 2);
    });
    assert_eq!(found, format!("position {last} is"));
    let behind = starts[starts.len() * 3 / 4] + 200;
    let found = named(&place, "older and a message behind it", |data| {
        older(data);
        flip(&block(data), behind);
    });
    println!("behind: {found} (the older log ends at {before}, the whole one at {last})");
    let first: u64 = found
        .split(' ')
        .nth(1)
        .and_then(|number| number.parse().ok())
        .expect("a position");
    assert!((before + 1..=last).contains(&first), "{found}");

    // What the older log has is not gone.
    let data = place.path().join("older-has-it");
    copy(&place.path().join("d"), &data);
    older(&data);
    flip(&block(&data), 100);
    let verified = place.run(&["log", "verify", "--data", "older-has-it"]);
    assert_eq!(verified.code, 3, "{}{}", verified.stdout, verified.stderr);
    for said in [&verified, &refused(&place, "older-has-it")] {
        let told = format!("ends at position {before}, still has what they held: position 1 is");
        assert!(said.stderr.contains(&told), "{}", said.stderr);
        assert!(!said.stderr.contains("neither"), "{}", said.stderr);
    }
}
