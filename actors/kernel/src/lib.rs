//! Pure: run state, decide, evolve, owed, and the driver without I/O.
//!
//! No clock, no random source, no runtime: time and ids come in as values, and what must happen outside comes out as values. What to do next is
//! derived from state ([`State::owed`]), never from what was being done; so a restart, a duplicate delivery and an ordinary step run the
//! same code.

#![warn(clippy::wildcard_enum_match_arm)]

mod agent;
mod cancel;
mod check;
mod child;
pub mod command;
mod control;
mod decide;
mod driver;
mod duty;
mod effect;
mod gather;
pub mod governor;
mod lifecycle;
pub mod limits;
pub mod open;
mod progress;
mod state;
mod wait;

pub use self::{
    agent::Turned,
    check::CheckRequest,
    command::{Command, Refusal},
    driver::{Driver, Identity, Input, Output, Prepared, Start},
    duty::{Duty, Obligation},
    state::{FoldError, Meta, Room, State, Turn},
};
