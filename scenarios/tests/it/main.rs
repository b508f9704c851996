//! Tests of the public face of the crate.

mod contract;
mod contract_log;
mod desk;
mod forms;
mod scenario;
mod sim;
