//! The routes, and the path of a request: counted, made to misbehave, carried out, answered.

use std::{
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{ConnectInfo, Path, Query, Request, State},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, get, on, post},
};
use serde_json::{Map, Value, json};

use super::{
    arrival::Arrival,
    book,
    line::Line,
    refusal::Refusal,
    store::Store,
    vouched::Door,
    webhooks::{self, Sender},
    witness,
    world::{Behaviour, Route, World},
};

/// A desk at work.
pub(super) struct Desk {
    /// `None` once the desk is closed. Writes take turns, so the lock costs nothing that the disk would not.
    store: Mutex<Option<Store>>,
    world: World,
    pub(super) sender: Sender,
    door: Door,
}

/// How a request ends that gets no good reply.
pub(super) enum Failed {
    Refused(Refusal),
    /// The connection closes without a reply.
    Cut,
}

impl Desk {
    pub(super) fn new(store: Store, world: World, sender: Sender, door: Door) -> Self {
        Self {
            store: Mutex::new(Some(store)),
            world,
            sender,
            door,
        }
    }

    /// Delivers what an earlier life of the desk has not.
    pub(super) async fn go_on_delivering(self: &Arc<Self>) {
        // A store that cannot be read refuses the first request too.
        if let Ok(left) = self.with_store(|store, _| Ok(webhooks::all(store)?)).await {
            webhooks::deliver(self, left);
        }
    }

    /// Waits for the write that is under way and closes the store.
    pub(super) async fn close(self: Arc<Self>) {
        // The closing itself cannot fail; a join error would mean that the runtime is going down, which closes it too.
        let _closed = tokio::task::spawn_blocking(move || drop(self.lock().take())).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Store>> {
        // A panic leaves the store whole: rows change in atomic batches only.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the store off the runtime's threads; `Cut` when there is no store any more.
    pub(super) async fn with_store<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Store, &World) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Failed> {
        let desk = Arc::clone(self);
        let worked = tokio::task::spawn_blocking(move || {
            desk.lock().as_ref().map(|store| work(store, &desk.world))
        });
        match worked.await {
            Ok(Some(result)) => result.map_err(Failed::Refused),
            Ok(None) | Err(_) => Err(Failed::Cut),
        }
    }

    async fn carry_out(self: Arc<Self>, arrival: Arrival) -> Result<Value, Failed> {
        let route = arrival.route;
        let (arrival, behaviour) = self
            .with_store(move |store, world| {
                let nth = witness::arrived(store, &arrival)?;
                Ok((arrival, world.behaviour(route, nth)))
            })
            .await?;
        match behaviour {
            Some(Behaviour::Refuse409) => return Err(Failed::Refused(Refusal::Refused(route))),
            Some(Behaviour::Refuse429) => return Err(Failed::Refused(Refusal::TooMany(route))),
            Some(Behaviour::Error500Before) => return Err(Failed::Refused(Refusal::Broken(route))),
            Some(Behaviour::DropBefore) => return Err(Failed::Cut),
            Some(Behaviour::Lie) => return Ok(json!({ "id": format!("{route}_0"), "version": 1 })),
            _ => {}
        }
        pause(self.world.latency_ms).await;
        let reply = self
            .with_store(|store, world| {
                let of = arrival.clone_without_arguments();
                let reply = book::perform(store, world, arrival)?;
                let due = webhooks::due(store, world, &of, &reply)?;
                Ok((reply, due))
            })
            .await;
        let reply = reply.map(|(reply, due)| {
            webhooks::deliver(&self, due);
            reply
        });
        match behaviour {
            Some(Behaviour::Error500After) => Err(Failed::Refused(Refusal::Broken(route))),
            Some(Behaviour::DropAfter) => Err(Failed::Cut),
            Some(Behaviour::SlowMs(ms)) => {
                pause(ms).await;
                reply
            }
            Some(Behaviour::Oversize(bytes)) => reply.map(|reply| padded(reply, bytes)),
            _ => reply,
        }
    }

    async fn answer(
        self: Arc<Self>,
        route: Route,
        place: Map<String, Value>,
        request: Request,
    ) -> Response {
        let line = request
            .extensions()
            .get::<ConnectInfo<Line>>()
            .map(|info| info.0.clone());
        if let Err(refusal) = self.door.check(&request) {
            return refusal.into_response();
        }
        let arrival = match Arrival::read(route, place, request).await {
            Ok(arrival) => arrival,
            Err(refusal) => return refusal.into_response(),
        };
        // A task of its own: a client that goes away does not stop what it asked for.
        match tokio::spawn(self.carry_out(arrival)).await {
            Ok(Ok(reply)) => Json(reply).into_response(),
            Ok(Err(Failed::Refused(refusal))) => refusal.into_response(),
            Ok(Err(Failed::Cut)) | Err(_) => {
                if let Some(line) = line {
                    line.cut();
                }
                ().into_response()
            }
        }
    }
}

async fn pause(ms: u64) {
    if ms > 0 {
        // Elapses always: that is the pause.
        let _elapsed = tokio::time::timeout(Duration::from_millis(ms), pending::<()>()).await;
    }
}

/// A reply of at least so many bytes, still of its shape.
fn padded(reply: Value, bytes: u64) -> Value {
    let padding = "x".repeat(usize::try_from(bytes).unwrap_or(usize::MAX));
    match reply {
        Value::Object(mut fields) => {
            fields.insert("padding".to_owned(), Value::String(padding));
            Value::Object(fields)
        }
        Value::Array(mut items) => {
            items.push(Value::String(padding));
            Value::Array(items)
        }
        other => json!([other, padding]),
    }
}

fn field(name: &str, value: String) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), Value::String(value))])
}

/// Requests that name one object in their path.
fn of_one(method: MethodFilter, route: Route) -> MethodRouter<Arc<Desk>> {
    on(
        method,
        move |State(desk): State<Arc<Desk>>, Path(id): Path<String>, request: Request| {
            desk.answer(route, field("id", id), request)
        },
    )
}

/// Requests whose arguments are all in the body.
fn of_body(route: Route) -> MethodRouter<Arc<Desk>> {
    post(move |State(desk): State<Arc<Desk>>, request: Request| {
        desk.answer(route, Map::new(), request)
    })
}

/// Requests with exactly one query parameter, which decides the route.
fn of_query(routes: &'static [(&'static str, Route)]) -> MethodRouter<Arc<Desk>> {
    get(
        move |State(desk): State<Arc<Desk>>,
              Query(query): Query<Vec<(String, String)>>,
              request: Request| async move {
            let wanted = <[_; 1]>::try_from(query).ok().and_then(|[(name, value)]| {
                let (_, route) = routes.iter().find(|(known, _)| *known == name)?;
                Some((*route, value))
            });
            match wanted {
                Some((route, value)) => desk.answer(route, field("value", value), request).await,
                None => Refusal::criterion(routes).into_response(),
            }
        },
    )
}

async fn testify(State(desk): State<Arc<Desk>>) -> Response {
    match desk
        .with_store(|store, _| Ok(witness::testimony(store)?))
        .await
    {
        Ok(testimony) => Json(testimony).into_response(),
        Err(Failed::Refused(refusal)) => refusal.into_response(),
        Err(Failed::Cut) => Refusal::Closing.into_response(),
    }
}

/// Whoever runs the scenario says that the tree has ended.
async fn tree_ended(State(desk): State<Arc<Desk>>) -> Json<Value> {
    desk.sender.tree_ended();
    Json(json!({}))
}

/// All routes of a desk.
pub(super) fn router(desk: Arc<Desk>) -> Router {
    let tickets = of_query(&[
        ("key", Route::LookupTicket),
        ("closed_key", Route::LookupClosure),
        ("request_id", Route::FindTicket),
    ]);
    let refunds = of_query(&[("key", Route::LookupRefund)]);
    let files = of_one(MethodFilter::GET, Route::ReadFile)
        .merge(of_one(MethodFilter::PUT, Route::WriteFile));
    Router::new()
        .route(
            "/incidents/{id}",
            of_one(MethodFilter::GET, Route::ReadIncident),
        )
        .route("/runbooks", of_query(&[("q", Route::SearchRunbook)]))
        .route("/tickets", tickets.merge(of_body(Route::CreateTicket)))
        .route(
            "/tickets/{id}",
            of_one(MethodFilter::GET, Route::ReadTicket),
        )
        .route(
            "/tickets/{id}/close",
            of_one(MethodFilter::POST, Route::CloseTicket),
        )
        .route("/queues/{id}", of_one(MethodFilter::GET, Route::ReadQueue))
        .route("/refunds", refunds.merge(of_body(Route::PayRefund)))
        .route(
            "/refunds/{id}",
            of_one(MethodFilter::GET, Route::ReadRefund),
        )
        .route("/files/{id}", files)
        .route("/witness", get(testify))
        .route("/tree-ended", post(tree_ended))
        .fallback(async || Refusal::NoRoute)
        .method_not_allowed_fallback(async || Refusal::NoRoute)
        .with_state(desk)
}
