//! The host's HTTP port towards whoever means it badly or sends too much: a callback is answered all the same.

use std::time::Duration;

use coppice_actors::{
    api::{CallOutcome, Called, Code, Refused},
    endpoint::Endpoint,
    limits::{HTTP_CONNECTIONS_MAX, HTTP_DISCARDED_MAX, HTTP_HEADER_LONGEST},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    callbacks::{asleep, body, send},
    support::Place,
};

/// How many connections are held open: more than have places.
const HELD: usize = HTTP_CONNECTIONS_MAX + 44;

async fn connected(place: &Place, saying: &[u8]) -> TcpStream {
    let url = Endpoint::read(place.data.path()).unwrap().http_url;
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(saying).await.unwrap();
    stream
}

/// A callback is answered in time although all places are held by connections that say `saying` and nothing more.
async fn answered_beside(saying: &[u8]) {
    let place = Place::new().await;
    let (host, _, started, key) = asleep(&place).await;
    let mut held = Vec::new();
    for _ in 0..HELD {
        held.push(connected(&place, saying).await);
    }
    let text = body(&key, "cb-1");
    let sent = timeout(Duration::from_secs(3), send(&place, "default", &text));
    let (status, said) = sent.await.expect("it is answered in time").unwrap();
    let received = Called {
        run: started.run.clone(),
        outcome: CallOutcome::Received,
        why: None,
    };
    assert_eq!((status, said.unwrap()), (200, received));
    drop(held);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_send_no_whole_header_hold_up_no_callback() {
    answered_beside(b"POST /callbacks/default HTTP/1.1\r\nHost: x\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_send_no_whole_body_hold_up_no_callback() {
    answered_beside(b"POST /callbacks/default HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_whole_header_is_closed_after_a_while() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let mut silent = connected(&place, b"POST /callbacks/default HTTP/1.1\r\n").await;
    let mut said = Vec::new();
    let closed = timeout(HTTP_HEADER_LONGEST * 2, silent.read_to_end(&mut said)).await;
    // Closed with a word or without one: either way nobody waits for the rest.
    let _reset = closed.expect("it is closed in time");
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_reads_nothing_before_it_has_sent_ten_megabytes_sees_that_it_is_too_much() {
    let place = Place::new().await;
    let host = place.host(place.options()).await;
    let size: usize = 10 << 20;
    assert!(size < HTTP_DISCARDED_MAX);
    let header =
        format!("POST /callbacks/default HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n");
    let mut stream = connected(&place, header.as_bytes()).await;
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..10 {
        stream.write_all(&chunk).await.expect("all of it is read");
    }
    let mut said = vec![0; 4 << 10];
    let read = timeout(Duration::from_secs(10), stream.read(&mut said)).await;
    let read = read.expect("it is answered").unwrap();
    let said = String::from_utf8_lossy(said.get(..read).unwrap()).into_owned();
    assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
    let (_, json) = said.split_once("\r\n\r\n").unwrap();
    let refused: Refused = serde_json::from_str(json).unwrap();
    assert_eq!(refused.error.code, Code::TooLarge);
    host.stop().await;
}
