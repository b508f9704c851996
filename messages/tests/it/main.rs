//! The integration tests of this crate, in one binary.

mod budget;
mod codec;
mod dependencies;
mod golden;
mod ids;
mod samples;
mod strategies;
mod tidy;
mod units;
mod value;
