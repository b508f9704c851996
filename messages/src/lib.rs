//! What can be said: ids, delegation, contracts, commits, events, digests and their codec.
//!
//! Pure: no clock, no random source, no runtime in the dependency closure. Time and ids come in as values. Everything here is either
//! a value or a total function of values; a refusal is an error that names the field.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod budget;
pub mod commit;
pub mod contract;
pub mod delegation;
pub mod digest;
pub mod event;
pub mod ids;
pub mod payload;
pub mod scope;
pub mod units;
pub mod value;

pub use self::{
    budget::{Account, Dimension, Held, Spent},
    commit::{Cause, Commit, Entry, Header, ParentRef},
    contract::Contract,
    delegation::Delegation,
    digest::Digest,
    event::Event,
    payload::{Blobs, Payload},
    scope::{Access, Operation},
    units::{Bytes, MicroUsd, Millis, Timestamp},
    value::Value,
};
