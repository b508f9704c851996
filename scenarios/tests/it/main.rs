//! Tests of the public face of the crate.

mod contract;
mod desk;
mod forms;
mod scenario;
mod sim;
