//! The host's process is killed again and again at moments that are drawn, while trees run: each ends as it does when nobody is killed, and
//! nothing that anybody was told is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use coppice_actors::{
    api::{ApiClient, ClientError, EventFilter, EventView, ListRequest, StartRequest, TailRequest},
    host::HostOptions,
};
use coppice_messages::{
    Digest, Millis,
    ids::{RunId, TreeId},
};
use coppice_store::clock;
use coppice_topology::{Bundle, Document, DocumentKind, Documents};
use futures::StreamExt as _;
use tokio::sync::watch;

use crate::support::{
    Library, Place, comparison, guard, host_program, release_with, tenant, whole,
};

/// How long an answer of the outside world takes, so that trees are under way when the host dies.
const LATENCY: Millis = Millis(150);

/// How often the host is killed, and how many trees run at one time: in the usual run of the tests, and in the long one.
fn storm() -> (u32, usize) {
    if std::env::var_os("COPPICE_LONG").is_some() {
        (50, 20)
    } else {
        (6, 6)
    }
}

/// The library's documents, with a desk that settles soon: whether a ticket was made whose receipt nobody has is known within seconds.
struct Quick;

impl Documents for Quick {
    fn find(&self, kind: DocumentKind, name: &str) -> Option<Document> {
        let mut document = Library.find(kind, name)?;
        if name == "create_ticket" {
            let text = String::from_utf8(document.bytes).unwrap();
            let quick = text.replace("timeout: 5s", "timeout: 1s");
            let quick = quick.replace("settles_within: 1s", "settles_within: 100ms");
            document.bytes = quick.into_bytes();
        }
        Some(document)
    }
}

/// One of the trees; each files one ticket.
fn request(release: &Bundle, key: &str) -> StartRequest {
    let input = comparison(key).input;
    StartRequest::new(key.parse().unwrap(), release, input, "user:test").unwrap()
}

/// Pause before somebody who does not answer is asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// Draws that are the same every time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The host of the moment, as its clients know it: none from its death until the next one answers.
type Lives = watch::Receiver<Option<Arc<ApiClient>>>;

/// What is known of an event by whoever was told of it: its position and the hash of its commit, by run and number.
type Told = BTreeMap<(RunId, u64), (u64, Digest)>;

fn note(told: &mut Told, event: &EventView) {
    let known = (event.pos, event.commit);
    let before = told.insert((event.run.clone(), event.seq), known);
    assert!(
        before.is_none_or(|before| before == known),
        "{event:?} was told otherwise before: {before:?}"
    );
}

fn begin(options: &HostOptions) -> Child {
    Command::new(host_program())
        .arg(serde_json::to_string(options).unwrap())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A client of the host that was just started, once it answers.
async fn answering(place: &Place, host: &Child) -> Arc<ApiClient> {
    loop {
        if let Ok(client) = ApiClient::of_data(place.data.path()).await
            && let Ok(Ok(status)) =
                tokio::time::timeout(Duration::from_millis(500), client.status()).await
            && status.pid == host.id()
        {
            return Arc::new(client);
        }
        clock::pause(AGAIN).await;
    }
}

/// Everything that is recorded from a position on.
async fn recorded(client: &ApiClient, from: u64) -> Vec<EventView> {
    let mut request = TailRequest {
        from,
        ..TailRequest::default()
    };
    let mut events = Vec::new();
    loop {
        let page = client.tail(&tenant(), &request).await.unwrap();
        events.extend(page.events);
        if page.end {
            return events;
        }
        request.from = page.next;
    }
}

/// Starts a tree and waits for its end, through the death of however many hosts, with the same key; notes that the start was acknowledged.
async fn start_and_wait(
    lives: &mut Lives,
    request: StartRequest,
    started: &Mutex<BTreeSet<RunId>>,
) {
    loop {
        let life = lives.wait_for(Option::is_some).await.unwrap().clone();
        let client = life.unwrap();
        lives.mark_unchanged();
        let asked = async {
            let tree = client.start(&tenant(), &request).await?;
            started.lock().unwrap().insert(tree.run.clone());
            client.wait_ended(&tenant(), &tree.run).await?;
            Ok::<_, ClientError>(())
        };
        tokio::select! {
            answer = asked => match answer {
                Ok(()) => return,
                Err(error) => assert!(error.is_passing(), "{error:?}"),
            },
            changed = lives.changed() => changed.unwrap(),
        }
        clock::pause(AGAIN).await;
    }
}

/// What somebody sees of a tree at its end: the reason of each run, and how each slot of a join came out.
fn ends(events: &[EventView]) -> BTreeMap<TreeId, Vec<(RunId, String)>> {
    let mut ends: BTreeMap<TreeId, Vec<(RunId, String)>> = BTreeMap::new();
    for event in events {
        let of = |at: &str| event.body.get(at).map(ToString::to_string);
        let seen = match event.kind.as_str() {
            "run.ended" => format!("{:?} {:?}", of("reason"), of("class")),
            "join.decided" => format!("{:?}", of("outcomes")),
            _ => continue,
        };
        let tree = ends.entry(event.tree.clone()).or_default();
        tree.push((event.run.clone(), seen));
    }
    for tree in ends.values_mut() {
        tree.sort();
    }
    ends
}

/// What the world is left with: request and key of each ticket.
fn rows(place: &Place) -> Vec<(String, String)> {
    let mut rows = place.world.made();
    rows.sort();
    rows
}

/// The same trees, with nobody killed.
async fn undisturbed(release: &Bundle, keys: &[String]) -> (Vec<EventView>, Vec<(String, String)>) {
    let place = Place::new().await;
    let host = coppice_actors::host::Host::start(place.options(), guard());
    let host = host.await.unwrap();
    let client = place.client().await;
    let all = keys.iter().map(|key| {
        let client = &client;
        async move {
            let request = request(release, key);
            let tree = client.start(&tenant(), &request).await.unwrap();
            client.wait_ended(&tenant(), &tree.run).await.unwrap();
        }
    });
    futures::stream::iter(all)
        .buffer_unordered(20)
        .collect::<()>()
        .await;
    let events = recorded(&client, 1).await;
    host.stop().await;
    (events, rows(&place))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_at_any_moment_loses_nothing_that_was_acknowledged_and_every_tree_ends_as_undisturbed()
 {
    let (kills, trees) = storm();
    let release = release_with("incident-comparison", &Quick);
    let place = Place::new().await;
    place.world.answers_after(LATENCY);
    let mut options = place.options();
    options.stop_with_stdin = true;
    let (live, lives) = watch::channel(None);
    let told = Arc::new(Mutex::new(Told::new()));
    let started = Arc::new(Mutex::new(BTreeSet::new()));
    let (calm, storms) = watch::channel(false);
    let workers: Vec<_> = (0..trees)
        .map(|worker| {
            let (mut lives, started, storms) = (lives.clone(), started.clone(), storms.clone());
            let release = release.clone();
            tokio::spawn(async move {
                let mut keys = Vec::new();
                while !*storms.borrow() {
                    let key = format!("storm-{worker}-{}", keys.len());
                    start_and_wait(&mut lives, request(&release, &key), &started).await;
                    keys.push(key);
                }
                keys
            })
        })
        .collect();
    let mut draws = Draws(0x2545_f491_4f6c_dd1d);
    let (mut lost_in_start, mut checked, mut from) = (0, 0, 1);
    let mut host = begin(&options);
    for _ in 0..kills {
        let listening = if draws.below(4) == 0 {
            // Also before it answers: while it opens its log, reads the stream, starts its trees.
            clock::pause(Duration::from_millis(draws.below(600))).await;
            lost_in_start += 1;
            None
        } else {
            let client = answering(&place, &host).await;
            let listening = listen(&client, &told).await;
            live.send_replace(Some(client.clone()));
            checked += all_is_there(&client, &told, &started, from).await;
            // What was found is looked for once more at the end.
            from = told
                .lock()
                .unwrap()
                .values()
                .map(|(pos, _)| *pos)
                .max()
                .unwrap_or(1);
            clock::pause(Duration::from_millis(draws.below(700))).await;
            Some(listening)
        };
        host.kill().unwrap();
        live.send_replace(None);
        if let Some(listening) = listening {
            listening.abort();
        }
        host.wait().unwrap();
        host = begin(&options);
    }
    let client = answering(&place, &host).await;
    live.send_replace(Some(client.clone()));
    calm.send_replace(true);
    let mut keys = Vec::new();
    for worker in workers {
        keys.extend(worker.await.unwrap());
    }
    checked += all_is_there(&client, &told, &started, 1).await;
    let events = recorded(&client, 1).await;
    let claims = events.iter().filter(|e| e.kind == "run.claimed").count();
    let first = request(&release, &keys[0]);
    let first = client.start(&tenant(), &first).await.unwrap();
    whole(&client, &first).await;
    drop(host.stdin.take());
    host.wait().unwrap();

    let (expected, expected_rows) = undisturbed(&release, &keys).await;
    eprintln!(
        "{kills} kills ({lost_in_start} before the host was told to be up) while {trees} trees ran: {} trees, {} events, {claims} claims; \
         {} events and {} starts were acknowledged, looked for {checked} times",
        keys.len(),
        events.len(),
        told.lock().unwrap().len(),
        started.lock().unwrap().len(),
    );
    assert_eq!(ends(&events), ends(&expected));
    assert_eq!(rows(&place), expected_rows);
    assert!(claims > 0, "no run was killed in the middle of anything");
}

/// Notes everything that the feed says.
async fn listen(client: &ApiClient, told: &Arc<Mutex<Told>>) -> tokio::task::JoinHandle<()> {
    let mut feed = client
        .feed(&tenant(), &EventFilter::default())
        .await
        .unwrap();
    let told = told.clone();
    tokio::spawn(async move {
        while let Some(event) = feed.next().await {
            note(&mut told.lock().unwrap(), &event);
        }
    })
}

/// Looks for every start that was acknowledged so far, and for every event at or after a position that anybody was told of; how many these are.
async fn all_is_there(
    client: &ApiClient,
    told: &Mutex<Told>,
    started: &Mutex<BTreeSet<RunId>>,
    from: u64,
) -> usize {
    // Taken before the log is read: what is told meanwhile may come behind what was read.
    let mut acknowledged = told.lock().unwrap().clone();
    acknowledged.retain(|_, (pos, _)| *pos >= from);
    let roots = started.lock().unwrap().clone();
    let mut found = Told::new();
    for event in recorded(client, from).await {
        note(&mut found, &event);
    }
    for (event, place) in &acknowledged {
        assert_eq!(found.get(event), Some(place), "{event:?} was acknowledged");
    }
    let mut request = ListRequest {
        roots: true,
        ..ListRequest::default()
    };
    let mut listed = BTreeSet::new();
    loop {
        let page = client.list(&tenant(), &request).await.unwrap();
        listed.extend(page.runs.into_iter().map(|row| row.run));
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
    let lost: Vec<_> = roots.difference(&listed).collect();
    assert_eq!(lost, Vec::<&RunId>::new(), "acknowledged starts");
    acknowledged.len() + roots.len()
}
