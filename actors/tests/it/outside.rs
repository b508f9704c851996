//! The outside world: a server of real sockets that answers as a test says, and remembers what came.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};

/// What the server does with one request.
pub enum Reply {
    /// Answers.
    Status(u16, String),
    /// Answers with a header more.
    With(u16, &'static str, String),
    /// Answers 200 and waits for a further request on the same connection.
    Kept(String),
    /// Answers 200 without saying how long the answer is.
    Unmeasured(String),
    /// Closes the connection without a byte.
    Drop,
    /// Begins an answer and closes the connection.
    Break(u16),
    /// Answers when told to; not at all when the teller is gone.
    Held(oneshot::Receiver<String>),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Came {
    /// The how-manieth connection, from 0.
    pub connection: usize,
    pub line: String,
    pub headers: String,
    pub body: String,
}

/// A running server.
pub struct Outside {
    pub url: String,
    came: Arc<Mutex<Vec<Came>>>,
    arrivals: mpsc::UnboundedReceiver<()>,
}

type Replies = Arc<Mutex<VecDeque<Reply>>>;

impl Outside {
    /// Answers the requests in the order in which they come; when none is left, with 500.
    pub async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let replies: Replies = Arc::new(Mutex::new(replies.into_iter().collect()));
        let came: Arc<Mutex<Vec<Came>>> = Arc::default();
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let seen = Arc::clone(&came);
        tokio::spawn(async move {
            let mut connection = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let line = Line { stream, connection };
                tokio::spawn(serve(line, replies.clone(), seen.clone(), arrived.clone()));
                connection += 1;
            }
        });
        Self {
            url,
            came,
            arrivals,
        }
    }

    /// Waits until one request more has come whole.
    pub async fn arrival(&mut self) {
        self.arrivals.recv().await.unwrap();
    }

    pub fn came(&self) -> Vec<Came> {
        self.came.lock().unwrap().clone()
    }
}

/// An address at which nobody listens.
pub async fn nobody() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

struct Line {
    stream: TcpStream,
    connection: usize,
}

async fn serve(
    mut line: Line,
    replies: Replies,
    seen: Arc<Mutex<Vec<Came>>>,
    arrived: mpsc::UnboundedSender<()>,
) {
    while let Some(came) = read(&mut line).await {
        seen.lock().unwrap().push(came);
        let next = replies.lock().unwrap().pop_front();
        let _nobody_waits = arrived.send(());
        let Some(text) = written(next.unwrap_or(Reply::Status(500, String::new()))).await else {
            return;
        };
        // The client may have seen enough before the end.
        let _gone = line.stream.write_all(text.as_bytes()).await;
        if !text.contains("keep-alive") {
            return;
        }
    }
}

async fn written(reply: Reply) -> Option<String> {
    Some(match reply {
        Reply::Status(status, body) => answer(status, CLOSES, &body),
        Reply::With(status, header, body) => {
            answer(status, &format!("{CLOSES}\r\n{header}"), &body)
        }
        Reply::Kept(body) => answer(200, "connection: keep-alive", &body),
        Reply::Unmeasured(body) => format!("HTTP/1.1 200 X\r\nconnection: close\r\n\r\n{body}"),
        Reply::Drop => return None,
        Reply::Break(status) => format!("HTTP/1.1 {status} X\r\ncontent-length: 100\r\n\r\n{{"),
        Reply::Held(told) => answer(200, CLOSES, &told.await.ok()?),
    })
}

const CLOSES: &str = "connection: close";

fn answer(status: u16, header: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{header}\r\ncontent-length: {length}\r\n\r\n{body}")
}

async fn read(line: &mut Line) -> Option<Came> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                let (first, headers) = head.split_once("\r\n").unwrap();
                return Some(Came {
                    connection: line.connection,
                    line: first.to_owned(),
                    headers: headers.to_owned(),
                    body: body.to_owned(),
                });
            }
        }
        if line.stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
