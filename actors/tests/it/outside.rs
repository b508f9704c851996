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
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(
                    stream,
                    replies.clone(),
                    seen.clone(),
                    arrived.clone(),
                ));
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

async fn serve(
    mut stream: TcpStream,
    replies: Replies,
    seen: Arc<Mutex<Vec<Came>>>,
    arrived: mpsc::UnboundedSender<()>,
) {
    let Some(came) = read(&mut stream).await else {
        return;
    };
    seen.lock().unwrap().push(came);
    let next = replies.lock().unwrap().pop_front();
    let _nobody_waits = arrived.send(());
    let text = match next.unwrap_or(Reply::Status(500, String::new())) {
        Reply::Status(status, body) => answer(status, "x-plain: 1", &body),
        Reply::With(status, header, body) => answer(status, header, &body),
        Reply::Unmeasured(body) => format!("HTTP/1.1 200 X\r\nconnection: close\r\n\r\n{body}"),
        Reply::Drop => return,
        Reply::Break(status) => format!("HTTP/1.1 {status} X\r\ncontent-length: 100\r\n\r\n{{"),
        Reply::Held(told) => match told.await {
            Ok(body) => answer(200, "x-plain: 1", &body),
            Err(_) => return,
        },
    };
    // The client may have seen enough before the end.
    let _gone = stream.write_all(text.as_bytes()).await;
}

fn answer(status: u16, header: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\n{header}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

async fn read(stream: &mut TcpStream) -> Option<Came> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                let (line, headers) = head.split_once("\r\n").unwrap();
                return Some(Came {
                    line: line.to_owned(),
                    headers: headers.to_owned(),
                    body: body.to_owned(),
                });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
