//! Budgets of three kinds (`spec/run.md` 5), integers only.
//!
//! *Spent* amounts are reserved, used and returned and are conserved along the tree. *Held* limits are compared with what is held now.
//! *Clocks* are compared, never summed; they live in the envelope as an absolute deadline.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{scope::Operation, units::Bytes};

/// A dimension that is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Model calls and tool calls.
    Steps,
    /// Tokens in and out of models.
    Tokens,
    /// Millionths of a US dollar.
    Cost,
    /// Bytes to and from tools.
    Network,
    /// Operations of one class.
    Operation(Operation),
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps => f.write_str("steps"),
            Self::Tokens => f.write_str("tokens"),
            Self::Cost => f.write_str("cost"),
            Self::Network => f.write_str("network"),
            Self::Operation(operation) => write!(f, "operations.{operation}"),
        }
    }
}

/// Amounts of the dimensions that are spent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spent {
    /// Model calls and tool calls.
    #[serde(skip_serializing_if = "is_zero")]
    pub steps: u64,
    /// Tokens in and out of models.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Millionths of a US dollar.
    #[serde(skip_serializing_if = "is_zero")]
    pub cost: u64,
    /// Bytes to and from tools.
    #[serde(skip_serializing_if = "is_zero")]
    pub network: u64,
    /// How many operations of each class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub operations: BTreeMap<Operation, u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_zero(amount: &u64) -> bool {
    *amount == 0
}

/// The classes of which there are any: a class with the count 0 is the same as one that is absent.
pub(crate) fn counted(operations: &BTreeMap<Operation, u64>) -> BTreeMap<Operation, u64> {
    operations
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(operation, count)| (*operation, *count))
        .collect()
}

/// More was asked than there is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{dimension}: {asked} asked, {left} left")]
pub struct Overdrawn {
    /// Of which dimension.
    pub dimension: Dimension,
    /// How much was asked.
    pub asked: u64,
    /// How much there was.
    pub left: u64,
}

impl Spent {
    /// One step and nothing else.
    #[must_use]
    pub fn step() -> Self {
        Self {
            steps: 1,
            ..Self::default()
        }
    }

    /// The amount of one dimension.
    #[must_use]
    pub fn get(&self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Steps => self.steps,
            Dimension::Tokens => self.tokens,
            Dimension::Cost => self.cost,
            Dimension::Network => self.network,
            Dimension::Operation(operation) => {
                self.operations.get(&operation).copied().unwrap_or(0)
            }
        }
    }

    /// Every dimension, in a fixed order.
    pub fn dimensions() -> impl Iterator<Item = Dimension> {
        [
            Dimension::Steps,
            Dimension::Tokens,
            Dimension::Cost,
            Dimension::Network,
        ]
        .into_iter()
        .chain(Operation::ALL.into_iter().map(Dimension::Operation))
    }

    /// Both together; saturates.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// This less `other`, nothing below zero.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// Each dimension divided by `parts`, rounded down.
    #[must_use]
    pub fn share(&self, parts: u64) -> Self {
        self.zip(&Self::default(), |amount, _| amount / parts.max(1))
    }

    /// Each dimension so many times; saturates.
    #[must_use]
    pub fn times(&self, count: u64) -> Self {
        self.zip(&Self::default(), |amount, _| amount.saturating_mul(count))
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        Self::dimensions().all(|dimension| self.get(dimension) == 0)
    }

    /// Whether this fits into `left`.
    ///
    /// # Errors
    /// The first dimension that does not.
    pub fn fits(&self, left: &Self) -> Result<(), Overdrawn> {
        for dimension in Self::dimensions() {
            let (asked, left) = (self.get(dimension), left.get(dimension));
            if asked > left {
                return Err(Overdrawn {
                    dimension,
                    asked,
                    left,
                });
            }
        }
        Ok(())
    }

    fn zip(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Self {
        let mut operations = BTreeMap::new();
        for operation in self.operations.keys().chain(other.operations.keys()) {
            let dimension = Dimension::Operation(*operation);
            let amount = with(self.get(dimension), other.get(dimension));
            if amount > 0 {
                operations.insert(*operation, amount);
            }
        }
        Self {
            steps: with(self.steps, other.steps),
            tokens: with(self.tokens, other.tokens),
            cost: with(self.cost, other.cost),
            network: with(self.network, other.network),
            operations,
        }
    }
}

/// Limits on what is held at one time by a run and everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Live children at one time.
    pub concurrency: u64,
    /// Bytes of artifacts.
    pub storage: Bytes,
    /// Further levels of delegation below this run.
    pub depth_left: u32,
    /// Children that this run may still make.
    pub children_left: u32,
    /// Children that this run may make within a minute.
    pub spawn_per_minute: u32,
}

/// What a run was granted, has used and has reserved. The law (`spec/delegation.md` 3):
/// granted = used + reserved for calls + reserved for live children + left, nothing negative.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    /// What the envelope grants.
    pub granted: Spent,
    /// What was used, by this run and its settled children.
    pub used: Spent,
    /// Reserved for model and tool calls under way.
    pub calls: Spent,
    /// Reserved for children that are not settled.
    pub children: Spent,
}

impl Account {
    /// An account with nothing used.
    #[must_use]
    pub fn open(granted: Spent) -> Self {
        Self {
            granted,
            ..Self::default()
        }
    }

    /// What may still be reserved.
    #[must_use]
    pub fn left(&self) -> Spent {
        self.granted
            .less(&self.used)
            .less(&self.calls)
            .less(&self.children)
    }

    /// Whether `amount` may be reserved now.
    ///
    /// # Errors
    /// The first dimension in which too little is left.
    pub fn affords(&self, amount: &Spent) -> Result<(), Overdrawn> {
        amount.fits(&self.left())
    }

    /// Whether the law of conservation holds. Summed wider than the amounts, so that no sum saturates into the grant.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        Spent::dimensions().all(|dimension| {
            let taken: u128 = [&self.used, &self.calls, &self.children]
                .into_iter()
                .map(|part| u128::from(part.get(dimension)))
                .sum();
            taken <= u128::from(self.granted.get(dimension))
        })
    }
}
