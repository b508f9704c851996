//! Static checks of a topology and all that it names (`spec/topology.md`). Each says where, and what would be right.

use crate::{bundle::Parts, load::Diagnostic};

/// Everything that is wrong with the parts of a release.
pub(crate) fn parts(parts: &Parts) -> Vec<Diagnostic> {
    let _ = parts;
    Vec::new()
}
