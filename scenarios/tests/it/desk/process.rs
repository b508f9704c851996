//! The desk as a process of its own: killed it keeps what it answered, and it ends with its parent.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use super::*;

/// The example `desk`, which cargo builds beside this test.
struct OwnProcess {
    child: Child,
    _stdout: Lines<BufReader<ChildStdout>>,
    client: Client,
}

impl OwnProcess {
    fn start(dir: &Path) -> OwnProcess {
        let itself = std::env::current_exe().expect("the test binary has a path");
        let target = itself
            .ancestors()
            .nth(2)
            .expect("it lies in target/PROFILE/deps");
        let mut child = Command::new(target.join("examples/desk"))
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example is built: run the tests without --test");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let ready: Value = stdout
            .find_map(|line| serde_json::from_str(&line.ok()?).ok())
            .expect("the desk says where it is");
        let url = ready["desk"].as_str().expect("the address is a text");
        OwnProcess {
            child,
            _stdout: stdout,
            client: Client::of(url.to_owned()),
        }
    }

    fn kill(mut self) {
        self.child.kill().expect("the child can be killed");
        self.child.wait().expect("the child can be waited for");
    }
}

#[tokio::test]
async fn what_was_answered_survives_sigkill() {
    let dir = tempfile::tempdir().unwrap();
    let desk = OwnProcess::start(dir.path());
    let first = desk.client.post("/tickets", "k-1", &ticket("one")).await;
    desk.client.get("/incidents/incident_104").await;
    let before = desk.client.witness().await;
    let url = desk.client.url.clone();
    desk.kill();
    assert!(desk::witness(&url).await.is_err());

    let desk = OwnProcess::start(dir.path());
    assert_eq!(desk.client.witness().await, before);
    let again = desk.client.post("/tickets", "k-1", &ticket("one")).await;
    assert_eq!(again, first);
    desk.kill();
}

#[tokio::test]
async fn the_desk_ends_when_its_parent_closes_the_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let mut desk = OwnProcess::start(dir.path());
    desk.client.get("/incidents/incident_104").await;
    drop(desk.child.stdin.take());
    assert!(desk.child.wait().unwrap().success());
}
