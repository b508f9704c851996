//! The host, its actors and their ports against the real nats-server, the real log and real sockets.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test fails the test as the test itself would"
)]

mod broker;
mod callbacks;
mod called_twice;
mod damaged;
mod doubts;
mod faults;
mod functions;
mod gateway;
mod golden;
mod host;
mod http_port;
mod killed;
mod looking;
mod orphans;
mod outside;
mod policy;
mod recorder;
mod restored;
mod room;
mod shapes;
mod sleep;
#[path = "../../../store/tests/it/small_disk.rs"]
mod small_disk;
mod striking;
mod supervision;
mod support;
mod telling;
mod world;
