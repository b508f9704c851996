//! nats-server dies, the host dies: what was admitted stays, what was not is not lost, and nobody is left behind.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use coppice_messages::ids::TenantId;
use coppice_store::{Role, Store, clock, verify};
use tokio::{net::TcpStream, sync::watch};

use crate::support::{Chain, admit, host_program, open};

/// Sends SIGKILL.
fn kill(pid: u32) {
    let killed = Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status()
        .expect("kill runs");
    assert!(killed.success(), "there was a process {pid}");
}

/// Whether a process runs. One that has ended and that nobody has waited for (an orphan in a container, say) does not.
fn lives(pid: u32) -> bool {
    let state = process(pid, "stat=");
    !state.is_empty() && !state.starts_with('Z')
}

/// The process that started this one.
fn parent_of(pid: u32) -> u32 {
    process(pid, "ppid=").parse().expect("a process id")
}

/// What the system says about a process.
fn process(pid: u32, column: &str) -> String {
    let said = Command::new("ps")
        .args(["-o", column, "-p", &pid.to_string()])
        .output()
        .expect("ps runs");
    let text = String::from_utf8(said.stdout).expect("text");
    text.trim().to_owned()
}

/// Waits until neither a guard nor a nats-server uses the store of this data directory.
fn wait_for_store(data: &Path) {
    File::open(data.join("nats/store.lock"))
        .and_then(|file| file.lock())
        .expect("the lock of the store comes free");
}

/// Commits of one chain, one after the other, until it is told to stop.
async fn append(
    store: Store,
    number: u64,
    admitted: watch::Sender<u64>,
    stop: watch::Receiver<bool>,
) -> Chain {
    let mut chain = Chain::new(&format!("r{number}"));
    while !*stop.borrow() {
        admit(&store, &chain.step()).await;
        admitted.send_modify(|admitted| *admitted += 1);
    }
    chain
}

/// Kills nats-server; how long after it accepts connections again the next commit is recorded.
async fn flows_again_after_a_kill(store: &Store, admitted: &watch::Sender<u64>) -> Duration {
    let server = store.nats_server_pid().await.expect("it runs");
    kill(server);
    while lives(server) {
        tokio::task::yield_now().await;
    }
    let url = store.endpoint(Role::Watcher).await.url;
    let address = url
        .as_str()
        .strip_prefix("nats://")
        .expect("a plain address");
    while TcpStream::connect(address).await.is_err() {
        clock::pause(Duration::from_millis(1)).await;
    }
    let (back, before) = (clock::mono(), *admitted.borrow());
    let mut admitted = admitted.subscribe();
    let next = admitted.wait_for(|admitted| *admitted > before).await;
    next.expect("the chains go on");
    back.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_server_is_killed_under_load_ten_times_and_nothing_is_lost_or_doubled() {
    const CHAINS: u64 = 8;
    const KILLS: usize = 10;
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let (admitted, (stop, stopped)) = (watch::Sender::new(0), watch::channel(false));
    let chains: Vec<_> = (0..CHAINS)
        .map(|number| {
            let appended = append(store.clone(), number, admitted.clone(), stopped.clone());
            tokio::spawn(appended)
        })
        .collect();
    let mut silences = Vec::new();
    for _ in 0..KILLS {
        // Under way again, all of them.
        let before = *admitted.borrow();
        let mut further = admitted.subscribe();
        let going = further.wait_for(|admitted| *admitted > before + 10 * CHAINS);
        going.await.expect("the chains go on");
        silences.push(flows_again_after_a_kill(&store, &admitted).await);
    }
    stop.send_replace(true);
    for chain in chains {
        let chain = chain.await.expect("no chain fails");
        let head = store
            .log()
            .head(&TenantId::default_tenant(), &chain.run)
            .expect("readable")
            .expect("recorded");
        assert_eq!((head.next_seq, head.hash), (chain.seq, chain.prev));
    }
    let (status, all) = (store.status(), *admitted.borrow());
    assert_eq!((status.pos, status.quarantined), (all, 0));
    let log = verify::log(store.log()).expect("readable");
    assert_eq!((log.commits, log.faults), (all, Vec::new()));
    let stream = store.verify_stream().await.expect("readable");
    assert_eq!((stream.commits, stream.faults), (all, Vec::new()));
    store.close().await;
    silences.sort();
    println!("{all} commits; from each return of nats-server to the next commit: {silences:?}");
    // The client library's own way back takes 15 to 80 s. Measured: 40 ms, on a machine with six times the work that it can do 250 ms.
    let longest = silences.last().copied().unwrap_or_default();
    assert!(longest < Duration::from_secs(2), "{silences:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_ends_nats_server() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let pid = store.nats_server_pid().await.expect("it runs");
    assert!(lives(pid));
    store.close().await;
    assert!(!lives(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_server_does_not_outlive_a_killed_host_and_the_next_host_goes_on() {
    let data = tempfile::tempdir().expect("a directory");
    let mut host = Command::new(host_program())
        .arg(data.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the host starts");
    let mut line = String::new();
    let mut said = BufReader::new(host.stdout.take().expect("piped"));
    said.read_line(&mut line).expect("it says what it did");
    let (pos, server) = line
        .trim()
        .split_once(' ')
        .expect("position and process id");
    let server: u32 = server.parse().expect("a process id");
    assert_eq!(pos, "1");
    assert!(lives(server));
    host.kill().expect("killed");
    host.wait().expect("gone");

    // Started at once, on the same directory: it waits for the store of the one before.
    let store = open(data.path()).await;
    assert!(!lives(server), "the killed host's nats-server is gone");
    let head = store
        .log()
        .head(&TenantId::host(), &coppice_messages::ids::RunId::system())
        .expect("readable");
    assert_eq!(head.map(|h| h.pos), Some(1), "what it recorded is there");
    assert_eq!(admit(&store, &Chain::new("r1").step()).await, 2);
    store.close().await;
    wait_for_store(data.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nats_server_whose_guard_was_killed_is_replaced_and_not_left_behind() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let mut chain = Chain::new("r1");
    admit(&store, &chain.step()).await;
    let orphan = store.nats_server_pid().await.expect("it runs");
    kill(parent_of(orphan));
    for _ in 0..20 {
        admit(&store, &chain.step()).await;
    }
    store.close().await;
    wait_for_store(data.path());
    assert!(!lives(orphan));
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_right_after_the_guard_was_killed_leaves_no_nats_server_behind() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let orphan = store.nats_server_pid().await.expect("it runs");
    kill(parent_of(orphan));
    store.close().await;
    assert!(!lives(orphan));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_ends_in_order_when_it_is_told_to() {
    let data = tempfile::tempdir().expect("a directory");
    let mut host = Command::new(host_program())
        .arg(data.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the host starts");
    let mut stdin = host.stdin.take().expect("piped");
    stdin.write_all(b"\n").expect("written");
    drop(stdin);
    assert!(host.wait().expect("it ends").success());
    wait_for_store(data.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_find_the_same_port_and_password_after_a_restart() {
    let data = tempfile::tempdir().expect("a directory");
    let endpoint = |store: Store| async move {
        let endpoint = store.endpoint(coppice_store::Role::Watcher).await;
        store.close().await;
        (endpoint.url, format!("{:?}", endpoint.credentials))
    };
    let first = endpoint(open(data.path()).await).await;
    let second = endpoint(open(data.path()).await).await;
    assert_eq!(first, second);
}

#[test]
fn a_guard_that_cannot_note_whom_it_guards_ends_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    // As on a full disk: the note cannot be written.
    std::fs::create_dir_all(directory.join("nats-server.pid/taken")).expect("made");
    let config = directory.join("nats.conf");
    std::fs::write(&config, "listen: \"127.0.0.1:-1\"").expect("written");
    let mut guard = Command::new(host_program())
        .arg("nats-guard")
        .arg(coppice_store::nats_server::find().expect("nats-server"))
        .args([&config, directory])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    // Held, or the guard would take its host for gone.
    let host = guard.stdin.take();
    let ended = guard.wait().expect("it ends");
    drop(host);
    assert_eq!(ended.code(), Some(3));
    let lock = File::open(directory.join("store.lock")).expect("there");
    assert!(lock.try_lock().is_ok(), "nobody uses the store");
}
