//! Tests of the public face of the crate.

mod desk;
mod forms;
mod scenario;
mod sim;
