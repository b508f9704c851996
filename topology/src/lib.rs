//! The shape of a run: declared topologies, validation, what is ready next, the ownership tree.
//!
//! Pure: documents come in as bytes, time never comes in at all.

pub mod expr;
pub mod node;
pub mod plan;
pub mod script;
pub mod tool;

pub use self::plan::{Graph, Manifest, Plan};
