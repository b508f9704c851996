//! The desk over real HTTP: its business, its misbehaviour, its memory and its testimony.

mod business;
mod memory;
mod misbehaviour;
mod process;
mod vouched;
mod webhooks;

use std::{
    net::SocketAddr,
    ops::Deref,
    path::{Path, PathBuf},
};

use coppice_scenarios::desk::{self, DeskError, Options, Route, Witness, World};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};

/// A client of a desk.
struct Client {
    url: String,
    http: reqwest::Client,
}

/// A desk in this process.
struct Running {
    client: Client,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), DeskError>>,
}

fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn world(yaml: &str) -> World {
    serde_saphyr::from_str(yaml).expect("the world is well formed")
}

async fn start(dir: &Path, world: World) -> Running {
    start_with(dir, world, None).await
}

/// One that calls back as this file says.
async fn start_with(dir: &Path, world: World, outside: Option<PathBuf>) -> Running {
    let options = Options {
        dir: dir.to_owned(),
        listen: free(),
        world,
        outside,
    };
    let (ready, address) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(desk::serve(
        options,
        move |address| ready.send(address).expect("the test waits for it"),
        async move {
            let _stopped: Result<(), _> = stopped.await;
        },
    ));
    let address = address.await.expect("the desk starts");
    Running {
        client: Client::of(format!("http://{address}")),
        stop,
        served,
    }
}

impl Running {
    async fn stop(self) {
        self.stop.send(()).expect("the desk still runs");
        let ended = self.served.await.expect("the desk does not panic");
        ended.expect("the desk ends well");
    }
}

impl Deref for Running {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Client {
    fn of(url: String) -> Client {
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build();
        Client {
            url,
            http: client.expect("a client can be built"),
        }
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let reply = self.http.get(format!("{}{path}", self.url)).send().await;
        told(reply.expect("the desk replies")).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        key: &str,
        body: &Value,
    ) -> reqwest::Result<Response> {
        let url = format!("{}{path}", self.url);
        let request = self.http.request(method, url).json(body);
        request.header("Idempotency-Key", key).send().await
    }

    async fn post(&self, path: &str, key: &str, body: &Value) -> (u16, Value) {
        let reply = self.send(Method::POST, path, key, body).await;
        told(reply.expect("the desk replies")).await
    }

    async fn witness(&self) -> Witness {
        desk::witness(&self.url).await.expect("the desk testifies")
    }
}

async fn told(reply: Response) -> (u16, Value) {
    let status = reply.status().as_u16();
    (status, reply.json().await.expect("the reply is JSON"))
}

fn ticket(title: &str) -> Value {
    json!({ "title": title, "body": { "differences": ["cause"] }, "request_id": "r-17" })
}

/// (requests that arrived, effects that were committed) of a route.
fn sums(witness: &Witness, route: Route) -> (u64, u64) {
    let of_route = witness.requests.iter().filter(|row| row.route == route);
    of_route.fold((0, 0), |(count, committed), row| {
        (count + row.count, committed + row.committed)
    })
}
