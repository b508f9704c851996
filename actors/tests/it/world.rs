//! A small outside world in the test's own process: incidents to read, tickets to make and count. It survives the death of a host.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use coppice_messages::Millis;
use coppice_store::clock;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

#[derive(Default)]
struct Held {
    /// Key, request id.
    tickets: Vec<(String, String)>,
    titles: Vec<Value>,
    requests: Vec<String>,
}

/// Makes a ticket for every request to make one: it does not deduplicate.
#[derive(Clone)]
pub struct World {
    pub url: String,
    held: Arc<Mutex<Held>>,
    /// Whether requests to make a ticket are answered.
    open: watch::Sender<bool>,
    /// How long every answer takes.
    latency: Arc<AtomicU64>,
    /// Whether look-ups by key are refused for now.
    blind: Arc<AtomicBool>,
}

impl World {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let world = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            held: Arc::default(),
            open: watch::Sender::new(true),
            latency: Arc::default(),
            blind: Arc::default(),
        };
        let serving = world.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        world
    }

    /// From now on makes tickets and does not answer.
    pub fn hold(&self) {
        self.open.send_replace(false);
    }

    /// Answers again.
    pub fn release(&self) {
        self.open.send_replace(true);
    }

    /// From now on every answer takes so long.
    pub fn answers_after(&self, latency: Millis) {
        self.latency.store(latency.0, Ordering::Relaxed);
    }

    /// Request id and key of each ticket.
    pub fn made(&self) -> Vec<(String, String)> {
        let held = self.held.lock().unwrap();
        let each = held.tickets.iter().cloned();
        each.map(|(key, request)| (request, key)).collect()
    }

    /// Whether the look-up of a ticket by its key is refused for now.
    pub fn blind(&self, blind: bool) {
        self.blind.store(blind, Ordering::Release);
    }

    /// How many tickets there are.
    pub fn tickets(&self) -> usize {
        self.held.lock().unwrap().tickets.len()
    }

    /// The keys under which tickets were made.
    pub fn keys(&self) -> Vec<String> {
        let held = self.held.lock().unwrap();
        held.tickets.iter().map(|(key, _)| key.clone()).collect()
    }

    /// The first line of each request that came.
    pub fn requests(&self) -> Vec<String> {
        self.held.lock().unwrap().requests.clone()
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        while let Some((head, body)) = read(&mut stream, &mut bytes).await {
            let answer = self.answer(&head, &body).to_string();
            let latency = self.latency.load(Ordering::Relaxed);
            clock::pause(Duration::from_millis(latency)).await;
            if head.starts_with("POST") {
                let mut open = self.open.subscribe();
                open.wait_for(|open| *open).await.unwrap();
            }
            let is_refused = head.contains("?key=") && self.blind.load(Ordering::Acquire);
            let status = if is_refused { "503 Not Now" } else { "200 OK" };
            let text = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
                answer.len()
            );
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, head: &str, body: &str) -> Value {
        let line = head.lines().next().unwrap();
        let (method, target) = line.split_once(' ').unwrap();
        let target = target.split(' ').next().unwrap();
        let mut held = self.held.lock().unwrap();
        held.requests.push(format!("{method} {target}"));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let ticket = |nth: usize| json!({ "id": format!("t-{nth}"), "version": 1 });
        if let Some(queue) = path.strip_prefix("/queues/") {
            return json!({ "id": queue, "version": 1, "open": true });
        }
        if let Some(shown) = path.strip_prefix("/tickets/") {
            let nth = shown
                .strip_prefix("t-")
                .and_then(|nth| nth.parse::<usize>().ok());
            return match nth.and_then(|nth| held.titles.get(nth - 1)) {
                Some(title) => json!({ "id": shown, "version": 1, "title": title }),
                None => json!({}),
            };
        }
        if let Some(id) = path.strip_prefix("/incidents/") {
            return json!({ "id": id, "version": 1, "severity": "low", "service": "desk", "summary": format!("about {id}"), "text": "text", "runbooks": [] });
        }
        if path == "/runbooks" {
            return json!({ "count": 0, "runbooks": [] });
        }
        if method == "POST" {
            let key = head
                .lines()
                .find_map(|line| line.strip_prefix("idempotency-key: "))
                .unwrap()
                .to_owned();
            let body: Value = serde_json::from_str(body).unwrap();
            held.titles.push(body["title"].clone());
            held.tickets
                .push((key, body["request_id"].as_str().unwrap().to_owned()));
            return ticket(held.tickets.len());
        }
        let wanted = query.split_once('=').unwrap();
        let found: Vec<Value> = held
            .tickets
            .iter()
            .enumerate()
            .filter(|(_, (key, request))| match wanted {
                ("key", wanted) => key == wanted,
                (_, wanted) => request == wanted,
            })
            .map(|(at, _)| ticket(at + 1))
            .collect();
        if wanted.0 == "key" {
            return Value::Array(found);
        }
        json!({ "count": found.len(), "tickets": found })
    }
}

async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(String, String)> {
    loop {
        let text = String::from_utf8_lossy(bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head
                .to_ascii_lowercase()
                .replacen("get ", "GET ", 1)
                .replacen("post ", "POST ", 1);
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                let body_text = body[..length].to_owned();
                let taken = text.len() - body.len() + length;
                bytes.drain(..taken);
                return Some((head, body_text));
            }
        }
        let mut more = [0; 4096];
        match stream.read(&mut more).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&more[..read]),
        }
    }
}
