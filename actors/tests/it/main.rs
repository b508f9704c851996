//! Tests of the ports against a small outside world of real sockets.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy knows only the tests themselves"
)]

mod broker;
mod gateway;
mod outside;
mod recorder;
