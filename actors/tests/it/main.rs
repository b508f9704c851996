//! Tests of the ports against a small outside world of real sockets.

mod broker;
mod gateway;
mod outside;
mod recorder;
