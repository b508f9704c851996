//! The host: one process that owns a data directory, its store, its services and the actors of its trees.

mod options;

pub use self::options::{BusChoice, HostOptions};
