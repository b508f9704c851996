//! Tests of the public face of the crate.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

mod built;
mod files;
mod library;
mod pictures;
mod recorded;
mod refused;
mod schemas;
mod written;
