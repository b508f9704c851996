//! Faults on purpose: addressed by place, event and moment, struck at most as often as asked, each noted and fsynced before it strikes.
//!
//! A host injects none unless its options allow it.

mod address;
mod book;
mod offers;
mod recall;
mod strike;

pub(crate) use self::strike::{AtWork, Faults, duration, kill_host};
pub use self::{
    address::{Action, Fault, InvalidFault, When},
    book::BookError,
    offers::{Offer, offers},
};
