//! The outside world, fault injection, checks; library/*.yaml are the scenarios.

pub mod desk;
pub mod library;
pub mod runner;
pub mod scenario;
pub mod sim;
pub mod verdict;
