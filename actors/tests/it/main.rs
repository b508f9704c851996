//! The host, its actors and their ports against the real nats-server, the real log and real sockets.

mod broker;
mod faults;
mod gateway;
mod host;
mod outside;
mod recorder;
mod support;
mod world;
