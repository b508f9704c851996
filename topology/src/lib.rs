//! The shape of a run: declared topologies, validation, what is ready next, the ownership tree.
