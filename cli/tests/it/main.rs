//! The program as people and scripts use it: the built binary, the real nats-server, the real log, processes that are really killed.

mod bad_input;
mod docs;
mod files;
mod keeping;
mod living;
mod output;
mod scenarios;
mod subscriber;
mod support;
