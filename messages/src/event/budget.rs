//! Budgets that ran out.

use serde::{Deserialize, Serialize};

use crate::budget::Dimension;

/// What happened to a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It ran out: nothing further is started.
    Exhausted(Exhausted),
}

/// A budget ran out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exhausted {
    /// Which dimension.
    pub dimension: Dimension,
    /// How much the next step needed.
    pub asked: u64,
    /// How much there was.
    pub left: u64,
}
