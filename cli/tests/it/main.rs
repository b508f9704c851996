//! The program as people and scripts use it: the built binary, the real nats-server, the real log, processes that are really killed.

mod bad_input;
mod bench;
mod callbacks;
mod copies;
mod damaged;
mod docs;
mod files;
mod full_disk;
mod gone;
mod keeping;
mod living;
mod output;
mod repeated;
mod scenarios;
mod secrets;
mod shapes;
mod shared;
mod shared_bus;
#[path = "../../../store/tests/it/small_disk.rs"]
mod small_disk;
mod subscriber;
mod support;
mod unfinished;
