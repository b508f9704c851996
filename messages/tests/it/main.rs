//! The integration tests of this crate, in one binary.

mod dependencies;
mod tidy;
