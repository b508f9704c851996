//! A listener that has at most so many connections open, none of them for longer than so. When all places are taken, one who has only
//! opened a connection gives way to one who comes: whatever others hold open keeps no callback waiting.

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use coppice_store::clock;
use futures::task::AtomicWaker;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use crate::limits::{HTTP_CONNECTION_LONGEST, HTTP_CONNECTIONS_MAX, HTTP_HEADER_LONGEST};

/// See the module.
pub(super) struct Bounded {
    listener: TcpListener,
    seats: Arc<Seats>,
}

impl Bounded {
    pub fn new(listener: TcpListener) -> Self {
        Self {
            listener,
            seats: Arc::default(),
        }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, from) = Listener::accept(&mut self.listener).await;
        let place = Seats::take(&self.seats).await;
        let connection = Connection {
            stream,
            header: Some(Header {
                line_is_empty: false,
                over: Box::pin(clock::pause(HTTP_HEADER_LONGEST)),
            }),
            over: Box::pin(clock::pause(HTTP_CONNECTION_LONGEST)),
            place,
        };
        (connection, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Listener::local_addr(&self.listener)
    }
}

/// Who has a place, the oldest first.
#[derive(Default)]
struct Seats {
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    next: u64,
    seats: BTreeMap<u64, Arc<Seat>>,
}

/// What a connection is asked about when its place is wanted, and told.
#[derive(Default)]
pub(super) struct Seat {
    /// A whole header has come.
    greeted: AtomicBool,
    /// Whole requests that are being answered.
    at_work: AtomicU32,
    /// It has given way.
    gone: AtomicBool,
    waker: AtomicWaker,
}

impl Seat {
    /// While this lives the connection keeps its place.
    pub fn work(self: &Arc<Self>) -> AtWork {
        self.at_work.fetch_add(1, Ordering::AcqRel);
        AtWork(Arc::clone(self))
    }

    fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::Acquire) > 0
    }

    fn give_way(&self) {
        self.gone.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// See [`Seat::work`].
pub(super) struct AtWork(Arc<Seat>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Seats {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place: a free one, else that of the oldest connection that has sent no whole header, else of the oldest that is not being
    /// answered. When all of them are, waits until one is free.
    async fn take(seats: &Arc<Self>) -> Place {
        loop {
            let freed = seats.freed.notified();
            if let Some((number, seat)) = seats.taken().take() {
                return Place {
                    seats: Arc::clone(seats),
                    number,
                    seat,
                };
            }
            freed.await;
        }
    }
}

impl Taken {
    fn take(&mut self) -> Option<(u64, Arc<Seat>)> {
        if self.seats.len() >= HTTP_CONNECTIONS_MAX {
            let silent = |seat: &Seat| !seat.greeted.load(Ordering::Acquire);
            let idle = |seat: &Seat| !seat.is_at_work();
            let oldest = self.oldest(silent).or_else(|| self.oldest(idle))?;
            if let Some(seat) = self.seats.remove(&oldest) {
                seat.give_way();
            }
        }
        let number = self.next;
        self.next += 1;
        let seat = Arc::new(Seat::default());
        self.seats.insert(number, Arc::clone(&seat));
        Some((number, seat))
    }

    fn oldest(&self, which: impl Fn(&Seat) -> bool) -> Option<u64> {
        let mut all = self.seats.iter();
        all.find(|(_, seat)| which(seat)).map(|(number, _)| *number)
    }
}

/// A place, free again when this is dropped.
struct Place {
    seats: Arc<Seats>,
    number: u64,
    seat: Arc<Seat>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.seats.taken().seats.remove(&self.number);
        self.seats.freed.notify_one();
    }
}

/// What a request knows of the connection on which it came.
#[derive(Clone)]
pub(super) struct Seated(pub Arc<Seat>);

impl Connected<IncomingStream<'_, Bounded>> for Seated {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        Self(Arc::clone(&stream.io().place.seat))
    }
}

/// The first header, as far as it has come.
struct Header {
    line_is_empty: bool,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Header {
    /// Whether it ends within these bytes: with the first empty line.
    fn ends_in(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().any(|byte| match byte {
            b'\n' if self.line_is_empty => true,
            b'\n' => {
                self.line_is_empty = true;
                false
            }
            b'\r' => false,
            _ => {
                self.line_is_empty = false;
                false
            }
        })
    }
}

/// A connection that holds a place, and can be used for a while.
pub(super) struct Connection {
    stream: TcpStream,
    /// None when the whole of it has come.
    header: Option<Header>,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    place: Place,
}

impl Connection {
    /// Why nothing more goes through it, if so; else its task is woken when that changes.
    fn closed(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        self.place.seat.waker.register(cx.waker());
        if self.place.seat.gone.load(Ordering::Acquire) {
            return Some(io::ErrorKind::ConnectionAborted.into());
        }
        let header = self.header.as_mut();
        let late = header.is_some_and(|header| header.over.as_mut().poll(cx).is_ready());
        (late || self.over.as_mut().poll(cx).is_ready()).then(|| io::ErrorKind::TimedOut.into())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(error) = self.closed(cx) {
            return Poll::Ready(Err(error));
        }
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        let come = into.filled().get(before..).unwrap_or_default();
        let header = self.header.as_mut();
        if header.is_some_and(|header| header.ends_in(come)) {
            self.header = None;
            self.place.seat.greeted.store(true, Ordering::Release);
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(error) = self.closed(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
