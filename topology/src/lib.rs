//! The shape of a run: declared topologies, validation, what is ready next, the ownership tree.
//!
//! Pure: documents come in as bytes, time never comes in at all.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod builder;
pub mod bundle;
pub mod check;
pub mod document;
pub mod expr;
pub mod load;
pub mod node;
pub mod plan;
pub mod schema;
pub mod script;
pub mod starter;
pub mod tool;
pub mod tree;

pub use self::{
    builder::Builder,
    bundle::{Bundle, CompileError, Document, DocumentKind, Documents, bundle, compile},
    load::{Diagnostic, Diagnostics},
    plan::{Graph, Manifest, Plan},
    tree::Tree,
};
