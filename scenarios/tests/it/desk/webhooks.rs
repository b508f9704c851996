//! The desk calls back: signed, as often as its world says, until somebody takes it, also in another life.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use coppice_actors::callback::{CallbackSecret, SIGNATURE_HEADER};
use coppice_scenarios::desk::{self, Witness};
use serde_json::{Value, json};

use super::{Running, start_with, ticket, world};

const SECRET: &str = "secret";

/// What came, and what is answered to the first of them; 200 to the others.
#[derive(Clone, Default)]
struct Host {
    came: Arc<Mutex<Vec<(Value, bool)>>>,
    first: Vec<u16>,
}

async fn take(State(host): State<Host>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let signature = headers.get(SIGNATURE_HEADER);
    let signature = signature
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let signed = CallbackSecret::given(SECRET).vouches(&body, signature);
    let body = serde_json::from_slice(&body).expect("it is JSON");
    let mut came = host.came.lock().expect("nothing panics with it");
    came.push((body, signed));
    let status = host.first.get(came.len() - 1).copied().unwrap_or(200);
    StatusCode::from_u16(status).expect("a status")
}

impl Host {
    /// One that answers so, and the file that leads a desk to it.
    async fn start(dir: &Path, first: &[u16]) -> (Self, PathBuf) {
        let host = Self {
            first: first.to_vec(),
            ..Self::default()
        };
        let router = Router::new()
            .route("/callbacks/default", post(take))
            .with_state(host.clone());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let (endpoint, file) = (dir.join("endpoint.json"), dir.join("outside.json"));
        let text = json!({ "http_url": url, "else": 1 }).to_string();
        std::fs::write(&endpoint, text).expect("a file");
        let outside = json!({ "endpoint": endpoint, "secrets": { "default": SECRET } });
        std::fs::write(&file, outside.to_string()).expect("a file");
        (host, file)
    }

    fn came(&self) -> Vec<(Value, bool)> {
        self.came.lock().expect("nothing panics with it").clone()
    }
}

/// Waits for a testimony.
async fn until(desk: &Running, holds: impl Fn(&Witness) -> bool) -> Witness {
    let found = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let witness = desk.witness().await;
            if holds(&witness) {
                return witness;
            }
        }
    });
    found.await.expect("it comes to that")
}

#[tokio::test]
async fn a_webhook_is_sent_again_until_it_is_taken_and_then_as_often_as_the_world_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let (host, file) = Host::start(dir.path(), &[503, 429]).await;
    let world = world("{ webhooks: [ { route: create_ticket, times: 2, lost: 1 } ] }");
    let desk = start_with(&dir.path().join("desk"), world, Some(file)).await;
    for _ in 0..2 {
        // The same write twice is one, and so is its callback.
        desk.post("/tickets", "k-1", &ticket("T")).await;
    }
    let over = |witness: &Witness| witness.callbacks.iter().all(|sent| sent.over);
    let witness = until(&desk, over).await;
    let [sent] = &witness.callbacks[..] else {
        panic!("{:?}", witness.callbacks);
    };
    // One lost, two turned away, two taken.
    assert_eq!((sent.tries, &sent.answers[..]), (5, &[200, 200][..]));
    let came = host.came();
    assert_eq!(came.len(), 4);
    for (body, signed) in &came {
        assert!(signed);
        assert_eq!(body, &came[0].0, "the same callback each time");
    }
    let body = &came[0].0;
    assert_eq!(body["key"], "k-1");
    assert_eq!(body["value"]["object"]["id"], "ticket_1");
    desk.stop().await;
}

#[tokio::test]
async fn what_is_held_back_until_the_end_and_what_nobody_takes_is_sent_by_the_next_desk() {
    let dir = tempfile::tempdir().expect("a directory");
    let (host, file) = Host::start(dir.path(), &[]).await;
    let late = "{ webhooks: [ { route: create_ticket, after_end: true, signed: false } ] }";
    let store = dir.path().join("desk");
    let desk = start_with(&store, world(late), Some(file.clone())).await;
    desk.post("/tickets", "k-1", &ticket("T")).await;
    assert_eq!(desk.witness().await.callbacks.len(), 1);
    desk.stop().await;
    assert_eq!(host.came(), []);
    let desk = start_with(&store, world(late), Some(file)).await;
    desk::tree_ended(&desk.url)
        .await
        .expect("the desk hears it");
    until(&desk, |witness| witness.callbacks[0].over).await;
    let came = host.came();
    assert_eq!(came.len(), 1);
    assert!(!came[0].1, "this one is not signed");
    desk.stop().await;
}

#[test]
fn a_webhook_after_a_read_or_without_end_is_refused() {
    for wrong in [
        "{ webhooks: [ { route: read_ticket } ] }",
        "{ webhooks: [ { route: create_ticket, times: 0 } ] }",
        "{ webhooks: [ { route: create_ticket, times: 101 } ] }",
        "{ webhooks: [ { route: create_ticket, delay_ms: 86400000 } ] }",
    ] {
        world(wrong).check().expect_err(wrong);
    }
}
