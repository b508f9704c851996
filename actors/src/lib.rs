//! The ractor shells and the ports they act through: the host, the run actor, faults on purpose, the API over NATS.
//!
//! Nothing here decides anything about a run: the kernel does, and what it decides is recorded before it is carried out.

pub mod api;
pub mod broker;
pub mod callback;
pub mod endpoint;
pub mod faults;
pub mod gateway;
pub mod host;
pub mod inspect;
pub mod limits;
pub mod policy;
pub mod record;
pub mod release;
mod run;
pub mod schema;
pub mod secrets;
mod services;
mod sleep;
mod timers;
pub mod token;
