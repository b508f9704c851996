//! The integration tests of this crate, in one binary.

mod budget;
mod codec;
mod contract;
mod dependencies;
mod golden;
mod ids;
mod limits;
mod narrowing;
mod request;
mod samples;
mod scope;
mod strategies;
mod tidy;
mod units;
mod value;
