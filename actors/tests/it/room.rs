//! Storage is low: new trees are refused and intents wait, while receipts, cancels and ends of the same runs pass. And a log that cannot be written.

use std::process::Command;

use coppice_actors::{
    api::{ApiClient, CancelRequest, ClientError, Code, SignalRequest, Started},
    host::{HostOptions, SuperviseOptions, SupervisedEnd, supervise_host},
};
use coppice_messages::{Bytes, Millis, Value, event::run::Reason};

use crate::{
    small_disk::{Disk, alone},
    supervision::up,
    support::{Place, comparison, ended, host_program, tenant, whole},
    telling::waiting,
};

const MIB: u64 = 1 << 20;

async fn until(client: &ApiClient, what: impl Fn(&coppice_actors::api::StatusReport) -> bool) {
    while !what(&client.status().await.unwrap()) {
        tokio::task::yield_now().await;
    }
}

fn is_low(status: &coppice_actors::api::StatusReport) -> bool {
    status
        .degraded
        .iter()
        .any(|why| why.starts_with("storage_low"))
}

async fn go(client: &ApiClient, tree: &Started) {
    let signal = SignalRequest {
        run: tree.run.clone(),
        name: "go".to_owned(),
        id: "s-1".to_owned(),
        value: Value::map([("title", Value::from("Go"))]),
    };
    assert!(client.signal(&tenant(), &signal).await.unwrap().recorded);
}

async fn scene() {
    let place = Place::new().await;
    let data = place.data.path();
    let disk = Disk::new(data.join("disk"), 96 * MIB)
        .holds(data.join("log"))
        .holds(data.join("nats"));
    let options = HostOptions {
        disk_reserve: Bytes(8 * MIB),
        sleep_after: Millis(50),
        ..place.options()
    };
    let host = place.host(options).await;
    let client = place.client().await;
    let start = async |request| client.start(&tenant(), &request).await;
    place.world.hold();
    let filing = start(comparison("filing")).await.unwrap();
    let patient = start(waiting("patient")).await.unwrap();
    let doomed = start(waiting("doomed")).await.unwrap();
    while place.world.tickets() == 0 {
        tokio::task::yield_now().await;
    }

    disk.fill(6 * MIB);
    until(&client, is_low).await;
    let refused = start(comparison("late")).await;
    assert!(matches!(refused, Err(ClientError::Refused(error)) if error.code == Code::StorageLow));

    // The receipt of what was sent before, and the end behind it.
    place.world.release();
    let end = ended(&client, &filing.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);

    // What comes in is recorded, and the intent that follows from it is not decided: nothing stands before a cancel.
    go(&client, &patient).await;
    go(&client, &doomed).await;
    for tree in [&patient, &doomed] {
        let counts = place.counts(&client, tree).await;
        assert_eq!(
            (counts.of("signal.received"), counts.of("effect.intended")),
            (1, 0)
        );
    }
    let cancel = CancelRequest {
        run: doomed.run.clone(),
        why: "enough".to_owned(),
        by: "user:test".to_owned(),
    };
    assert!(client.cancel(&tenant(), &cancel).await.unwrap().recorded);
    let end = ended(&client, &doomed.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Cancelled);
    assert!(is_low(&client.status().await.unwrap()));
    assert_eq!(place.world.tickets(), 1);

    disk.clear();
    let end = ended(&client, &patient.run).await.ended.unwrap();
    assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
    assert_eq!(place.world.tickets(), 2);
    until(&client, |status| status.degraded.is_empty()).await;
    for tree in [&filing, &patient, &doomed] {
        whole(&client, tree).await;
    }
    host.stop().await;
}

#[test]
fn while_storage_is_low_trees_are_refused_and_intents_wait_but_receipts_cancels_and_ends_pass() {
    alone(
        "room::while_storage_is_low_trees_are_refused_and_intents_wait_but_receipts_cancels_and_ends_pass",
        scene(),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_whose_log_cannot_be_written_ends_and_is_not_started_again_and_nothing_is_lost() {
    let place = Place::new().await;
    // A write beyond the greatest size of a file is to fail, and not to end the process.
    let shell = "trap '' XFSZ; exec \"$0\" \"$@\"".to_owned();
    ends_for_good(&place, shell, |pid| {
        let limited = Command::new("prlimit")
            .args(["--pid", &pid.to_string()])
            .arg("--fsize=400000:")
            .status();
        assert!(limited.unwrap().success());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_whose_log_cannot_be_fsynced_ends_and_is_not_started_again_and_nothing_is_lost() {
    let place = Place::new().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let (library, mark) = (
        elsewhere.path().join("fsync.so"),
        elsewhere.path().join("fails"),
    );
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/failing_fsync.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    assert!(compiled.unwrap().success());
    let shell = format!(
        "FAIL_FSYNC='{}' LD_PRELOAD='{}' exec \"$0\" \"$@\"",
        mark.display(),
        library.display()
    );
    ends_for_good(&place, shell, |_| std::fs::write(&mark, "").unwrap()).await;
}

/// Given a host under load, when its log fails, then it ends with the code of the environment, is not started again, and what it acknowledged is
/// there for the next one.
async fn ends_for_good(place: &Place, shell: String, fail: impl FnOnce(u32)) {
    let mut options = place.options();
    options.stop_with_stdin = true;
    let json = serde_json::to_string(&options).unwrap();
    let arguments = ["-c".into(), shell.into()];
    let process = supervise_host(SuperviseOptions {
        program: "/bin/sh".into(),
        data: options.data.clone(),
        arguments: arguments
            .into_iter()
            .chain([host_program().into(), json.into()])
            .collect(),
        log: Some(place.data.path().join("host.log")),
    });
    let client = up(place).await;
    let first = client.start(&tenant(), &comparison("first")).await.unwrap();
    fail(process.pid().unwrap());
    let mut recorded = vec![first];
    let load = async {
        for nth in 0.. {
            let started = client
                .start(&tenant(), &comparison(&format!("k-{nth}")))
                .await;
            match started {
                Ok(started) => recorded.push(started),
                // It ends.
                Err(_) => std::future::pending().await,
            }
        }
    };
    let end = tokio::select! {
        end = process.ended() => end,
        () = load => panic!("without end"),
    };
    assert_eq!(end, SupervisedEnd::GaveUp { code: 3 });
    assert_eq!(process.restarts(), 0);
    let said = std::fs::read_to_string(place.data.path().join("host.log")).unwrap();
    assert!(
        said.contains("look at the disk, then start again"),
        "{said}"
    );

    let host = place.host(place.options()).await;
    let client = place.client().await;
    for tree in &recorded {
        let end = ended(&client, &tree.run).await.ended.unwrap();
        assert_eq!(end.reason, Reason::Succeeded, "{}", end.message);
        whole(&client, tree).await;
    }
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_never_up_does_not_wait_for_space() {
    let place = Place::new().await;
    // What a host says for which there is no space.
    let process = supervise_host(SuperviseOptions {
        program: "/bin/sh".into(),
        data: place.data.path().to_owned(),
        arguments: vec!["-c".into(), "echo disk_full; exit 3".into()],
        log: None,
    });
    assert_eq!(process.ended().await, SupervisedEnd::NoSpace);
    assert_eq!(process.restarts(), 0);
}
