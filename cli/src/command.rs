//! The commands, one module a group.

pub mod bench;
pub mod files;
pub mod run;
