//! The integration tests of this crate, in one binary.

mod dependencies;
mod golden;
mod samples;
mod tidy;
