//! Connections that the desk can cut: a reply that was never sent is part of the world.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};

/// A handle on one client's connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Line(Arc<AtomicBool>);

impl Line {
    /// Lets no further byte out: the connection closes instead of carrying the reply.
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_cut(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A listener whose connections come with a [`Line`].
pub(super) struct Lines(pub(super) TcpListener);

impl Listener for Lines {
    type Io = Cuttable;
    type Addr = Line;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, _peer): (TcpStream, SocketAddr) = Listener::accept(&mut self.0).await;
        let line = Line::default();
        let io = Cuttable {
            stream,
            line: line.clone(),
        };
        (io, line)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(Line::default())
    }
}

impl Connected<IncomingStream<'_, Lines>> for Line {
    fn connect_info(stream: IncomingStream<'_, Lines>) -> Self {
        stream.remote_addr().clone()
    }
}

/// A TCP stream that stops writing when its line is cut.
pub(super) struct Cuttable {
    stream: TcpStream,
    line: Line,
}

impl AsyncRead for Cuttable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Cuttable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.line.is_cut() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
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
