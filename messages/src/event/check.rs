//! Checks that prove success: of a run by its evidence, of an effect by its postcondition.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{EffectKey, NodeName},
    payload::Payload,
};

/// What a check showed.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It holds.
    Passed(Passed),
    /// It does not.
    Failed(Failed),
}

/// A check holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Passed {
    /// The end node, or the node that wanted the effect.
    pub node: NodeName,
    /// Its place in the node's evidence list; the result's schema is `schema`, that of an effect `postcondition`.
    pub check: String,
    /// Whose postcondition it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectKey>,
    /// What was seen.
    pub seen: Payload,
}

/// A check does not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// The end node, or the node that wanted the effect.
    pub node: NodeName,
    /// Its place in the node's evidence list; the result's schema is `schema`, that of an effect `postcondition`.
    pub check: String,
    /// Whose postcondition it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectKey>,
    /// What was expected.
    pub expected: String,
    /// What was seen.
    pub seen: Payload,
}
