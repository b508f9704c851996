//! `coppice up` on disks that fill up: refused with `storage_low`, then ended, then started again when there is space, and nothing lost or done twice.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use coppice_scenarios::desk;
use serde_json::Value;

use crate::{
    small_disk::{Disk, alone},
    support::{Place, signal, text},
};

const MIB: u64 = 1 << 20;
const TREES: usize = 6;

/// A process that ends with its standard input, and what it says first.
fn started(mut command: Command) -> (Child, Value) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let stdout = child.stdout.take().expect("it is piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let said = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (child, said)
}

struct Scene {
    place: Place,
    disk: Disk,
    desk: Child,
    url: String,
    up: Child,
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Already waited for where the test holds; where not, nothing of it is to be left.
        let _ended = (self.up.kill(), self.desk.kill());
    }
}

fn input(nth: usize) -> String {
    format!(r#"{{"request_id": "r-{nth}", "incidents": ["incident_104", "incident_119"]}}"#)
}

impl Scene {
    /// A host of which one directory lies on a small disk, and a desk elsewhere, which takes its time.
    fn new(on_disk: &str) -> Self {
        let place = Place::new();
        let data = place.path().join(".coppice");
        let disk = Disk::new(place.path().join("disk"), 64 * MIB).holds(data.join(on_disk));
        let desk = place.command(&["desk-serve", "desk", r#"{"latency_ms": 300}"#]);
        let (desk, said) = started(desk);
        let url = text(&said, "/desk").to_owned();
        let endpoint = format!("desk={url}");
        let arguments = ["up", "--json", "--disk-reserve", "8MiB", "--endpoint"];
        let mut up = place.command(&[&arguments[..], &[&endpoint]].concat());
        let said_by_up = fs::File::create(place.path().join("up.log")).expect("a file");
        up.stderr(said_by_up);
        let (up, _) = started(up);
        Self {
            place,
            disk,
            desk,
            url,
            up,
        }
    }

    fn submit(&self, nth: usize, more: &[&str]) -> crate::support::Said {
        let (key, input) = (format!("k-{nth}"), input(nth));
        let arguments = [
            "submit",
            "incident-comparison",
            "--key",
            &key,
            "--input",
            &input,
        ];
        self.place.run(&[&arguments[..], more].concat())
    }

    fn status(&self) -> Option<Value> {
        let said = self.place.run(&["status", "--json"]);
        serde_json::from_str(&said.stdout).ok()
    }

    fn is_alive(&self) -> bool {
        self.status()
            .is_some_and(|status| status.pointer("/alive") == Some(&Value::Bool(true)))
    }

    fn said_by_up(&self) -> String {
        fs::read_to_string(self.place.path().join("up.log")).expect("readable")
    }

    /// Fills the disk to the reserve, while trees run, and then wholly.
    fn until_the_host_ends(&self, last_words: &str) {
        for nth in 0..TREES {
            self.submit(nth, &[]).good();
        }
        self.disk.fill(6 * MIB);
        while !self
            .status()
            .is_some_and(|status| status.to_string().contains("storage_low"))
        {}
        let late = self.submit(TREES, &["--json"]);
        assert_ne!(late.code, 0);
        assert!(late.stdout.contains("storage_low"), "{}", late.stdout);
        self.disk.fill(0);
        // What comes in needs room that there is not.
        let mut nth = 0;
        while !self.said_by_up().contains("a disk is full") {
            nth += 1;
            let tree = self.submit(0, &["--json"]);
            if let Ok(tree) = serde_json::from_str::<Value>(&tree.stdout)
                && let Some(run) = tree.pointer("/run").and_then(Value::as_str)
            {
                let value = format!("\"{}\"", "x".repeat(20_000));
                let id = format!("s-{nth}");
                self.place.run(&[
                    "signal",
                    run,
                    "nobody-waits",
                    "--id",
                    &id,
                    "--value",
                    &value,
                ]);
            }
            self.disk.fill(0);
        }
        assert!(!self.is_alive());
        let log = fs::read_to_string(self.place.path().join(".coppice/host.log"));
        let log = log.expect("readable");
        assert!(log.contains(last_words), "{log}");
    }

    /// There is space again: everything goes on by itself.
    async fn goes_on(mut self) {
        self.disk.clear();
        while !self.is_alive() {}
        for nth in 0..TREES {
            let ended = self.submit(nth, &["--wait", "--json"]).json(0);
            assert_eq!(text(&ended, "/run/ended/reason"), "succeeded");
        }
        let verified = self.place.run(&["log", "verify", "--json"]).json(0);
        assert_eq!(verified.pointer("/findings"), Some(&serde_json::json!([])));
        let witness = desk::witness(&self.url).await.expect("the desk lives");
        assert_eq!(witness.tickets, TREES as u64);
        signal("INT", self.up.id());
        assert!(self.up.wait().expect("it ends").success());
        drop(self.desk.stdin.take());
        assert!(self.desk.wait().expect("it ends").success());
    }
}

async fn log_disk() {
    let scene = Scene::new("log");
    scene.until_the_host_ends("the disk of the log is full");
    scene.goes_on().await;
}

async fn stream_disk() {
    let scene = Scene::new("nats");
    scene.until_the_host_ends("the disk on which nats-server keeps the stream is full");
    scene.goes_on().await;
}

async fn full_from_the_start() {
    let place = Place::new();
    let disk = Disk::new(place.path().join(".coppice"), MIB);
    disk.fill(0);
    for arguments in [&["up"][..], &["run", "fan-out-join", "--data", ".coppice"]] {
        let said = place.run(arguments);
        assert_eq!(said.code, 3, "{}", said.stderr);
        let why = ["No space left on device", "a disk is full"];
        assert!(
            why.iter().any(|why| said.stderr.contains(why)),
            "{}",
            said.stderr
        );
    }
}

#[test]
fn a_disk_that_is_full_from_the_start_is_said_at_once() {
    alone(
        "full_disk::a_disk_that_is_full_from_the_start_is_said_at_once",
        full_from_the_start(),
    );
}

#[test]
fn a_host_whose_log_fills_its_disk_goes_on_when_there_is_space() {
    alone(
        "full_disk::a_host_whose_log_fills_its_disk_goes_on_when_there_is_space",
        log_disk(),
    );
}

#[test]
fn a_host_whose_stream_fills_its_disk_goes_on_when_there_is_space() {
    alone(
        "full_disk::a_host_whose_stream_fills_its_disk_goes_on_when_there_is_space",
        stream_disk(),
    );
}
