//! The laws of the kernel, over a world in memory that only orders, loses and repeats what the driver hands out.

mod arrivals;
mod branches;
mod callbacks;
mod cancels;
mod control;
mod crash;
mod joins;
mod laws;
mod picture;
mod policy;
mod proofs;
mod room;
mod stalls;
mod tables;
mod waits;
mod world;
