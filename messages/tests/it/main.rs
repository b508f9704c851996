//! The integration tests of this crate, in one binary.

mod codec;
mod dependencies;
mod golden;
mod samples;
mod strategies;
mod tidy;
