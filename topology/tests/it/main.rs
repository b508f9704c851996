//! Tests of the public face of the crate.

mod files;
mod library;
mod refused;
