//! Policy: what may be done, in Cedar, decided by whoever runs the host and not by what runs on it.
//!
//! A set is a directory: `*.cedar`, `schema.cedarschema` and, if wanted, `entities.json`. It is checked whole before any of it counts, and its
//! version is the digest of its files. It is live and never pinned: the kernel asks it at the intent and the tool broker at the moment of
//! use, both through [`Governor`](coppice_kernel::governor::Governor), which [`PolicySet`] is.
//!
//! Whatever cannot be decided is denied: a question that no policy permits, a policy that cannot be evaluated, arguments beyond the bound, a
//! resource of another tenant.

mod annotations;
mod files;
mod judge;
mod live;
mod place;
mod set;
mod value;

pub use self::{
    files::{ENTITIES_FILE, PolicyFiles, PolicyFilesError, SCHEMA_FILE},
    live::{Changed, Policies, PolicyError, Standing},
    set::PolicySet,
};

/// The entity types and context that policies may speak about, as a schema to begin with.
pub const SCHEMA: &str = include_str!("policy/schema.cedarschema");
