//! Every bound of the kernel.

/// Children delegated in one commit: wider fan-outs delegate in slices.
pub const SLICE_CHILDREN: u32 = 64;
/// Bytes of items delegated in one commit, so that a slice fits.
pub const SLICE_BYTES: usize = 128 * 1024;
/// Children of one run.
pub const CHILDREN_MAX: u32 = 10_000;
/// Further tries to close a child that was given up, after actors that died over it; then it is settled as it stands.
pub const CLOSINGS_MAX: u32 = 3;
/// Events after which a commit takes no further command.
pub const TURN_EVENTS: usize = 128;
/// Nodes that one step starts, ends or leaves out: with what was under way at them they fit a commit beside [`TURN_EVENTS`].
pub const NODES_ENDED_AT_ONCE: usize = 48;
/// Encoded bytes after which a commit takes no further command: the longest single step is a slice of children.
pub const TURN_BYTES: usize = 128 * 1024;
/// Inputs that wait for the commit under way.
pub const MAILBOX: usize = 20_000;
/// Signals that no wait has taken yet.
pub const SIGNALS_MAX: usize = 1_000;
/// Callbacks that one run records, repetitions included. Beyond it a repetition leaves no further trace, and a new one is refused.
pub const CALLBACKS_MAX: u32 = 1_000;
/// Time that what is under way has to end by itself after a cancel, at each level, in milliseconds.
pub const CANCEL_GRACE_MS: u64 = 5_000;
/// Time from an intent's `at` within which its first byte must leave, in milliseconds.
pub const SEND_WITHIN_MS: u64 = 5_000;
