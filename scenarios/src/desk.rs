//! The desk: the outside world of the scenarios, and their witness.
//!
//! A real HTTP server with its own durable store, meant to run in a process of its own, so that it survives the death of the
//! host that calls it. It has incidents and runbooks to read, tickets to create, refunds to pay and files to change; it
//! misbehaves as its [`World`] says, and counts every request by (tenant, key, argument digest) before it does so.
//!
//! What it promises: a write is fsynced before its reply leaves; a request that has arrived is carried out whatever its
//! client does meanwhile; what the [`Witness`] counts is what arrived and what was committed, not what was answered.

mod arguments;
mod arrival;
mod book;
mod http;
mod limits;
mod line;
mod refusal;
mod seed;
mod store;
mod vouched;
mod webhooks;
mod witness;
mod world;

use std::{
    future::Future,
    io::{Read, Write},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
};

use axum::serve::Listener;
use tokio::net::TcpListener;

pub use store::StoreError;
pub use webhooks::{Delivery, Outside};
pub use witness::{RequestCount, Witness, WitnessError, tree_ended, witness};
pub use world::{Behaviour, Misbehaviour, Route, Webhook, World, WorldError};

/// Where a desk keeps its store, where it listens, and how it behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the desk's own database; made if it is missing, locked while the desk runs.
    pub dir: PathBuf,
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How the desk behaves.
    pub world: World,
    /// The file that says where callbacks go, see [`Outside`]; absent: nowhere.
    pub outside: Option<PathBuf>,
}

/// Why a desk did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// The world asks for more than a desk does.
    #[error("the desk cannot behave like that")]
    World(#[from] WorldError),
    /// The store's directory cannot be used.
    #[error("the desk cannot open its store in {}: is another desk using it, or is it not writable?", dir.display())]
    Open {
        /// The directory.
        dir: PathBuf,
        /// What the store said.
        source: StoreError,
    },
    /// The address cannot be listened on.
    #[error("the desk cannot listen on {listen}: choose another address, or port 0 for a free one")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file that says whom the desk knows cannot be used.
    #[error("the file {}, which says whom the desk knows, cannot be used", path.display())]
    Outside {
        /// The file.
        path: PathBuf,
        /// What the system or the reader said.
        source: std::io::Error,
    },
    /// The server stopped by itself.
    #[error("the desk's HTTP server stopped")]
    Serve(#[source] std::io::Error),
}

/// Serves a desk until `shutdown` resolves, then closes its store.
///
/// `ready` is told the address once requests are taken. At shutdown a write that has begun is finished, a pause is not
/// waited for, and later requests on connections that are still open are cut off without a reply.
///
/// # Errors
///
/// When the world is out of bounds, the store or the address cannot be had, or the server fails.
pub async fn serve(
    options: Options,
    ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<(), DeskError> {
    options.world.check()?;
    let store = store::Store::open(&options.dir).map_err(|source| DeskError::Open {
        dir: options.dir.clone(),
        source,
    })?;
    let refused = |source| DeskError::Listen {
        listen: options.listen,
        source,
    };
    let listener = TcpListener::bind(options.listen).await.map_err(refused)?;
    let address = Listener::local_addr(&listener).map_err(refused)?;
    let door = vouched::Door::of(options.outside.as_deref(), address)?;
    let sender = webhooks::Sender::new(options.outside);
    let desk = Arc::new(http::Desk::new(store, options.world, sender, door));
    desk.go_on_delivering().await;
    let service =
        http::router(Arc::clone(&desk)).into_make_service_with_connect_info::<line::Line>();
    ready(address);
    let ended = tokio::select! {
        served = axum::serve(line::Lines(listener), service) => served.map_err(DeskError::Serve),
        () = shutdown => Ok(()),
    };
    desk.close().await;
    ended
}

/// Serves a desk for a parent process: one JSON line `{"desk":"http://ADDRESS"}` on stdout when it is ready, and the end
/// when stdin closes, which the parent's death brings about as well.
///
/// # Errors
///
/// As [`serve`].
pub async fn run_until_stdin_closes(options: Options) -> Result<(), DeskError> {
    let (closed, end) = tokio::sync::oneshot::channel::<()>();
    // A thread of its own: a blocked read of the runtime's pool would hold up the exit after an error.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut ignored = [0; limits::STDIN_BYTES];
        while matches!(stdin.read(&mut ignored), Ok(1..)) {}
        drop(closed);
    });
    let announce = |address: SocketAddr| {
        let line = serde_json::json!({ "desk": format!("http://{address}") });
        let mut stdout = std::io::stdout().lock();
        // A parent that does not read any more closes stdin too, which ends the desk.
        let _gone = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    };
    serve(options, announce, async {
        let _closed = end.await;
    })
    .await
}
