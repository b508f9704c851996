//! The outside world, fault injection, checks; library/*.yaml are the scenarios.
