//! The commands, one module a group.

pub mod backup;
pub mod bench;
pub mod events;
pub mod files;
pub mod host;
pub mod log;
pub mod look;
pub mod run;
pub mod sim;
