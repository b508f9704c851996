//! Where faults are injected on purpose: the points FP3 and FP4 of `spec/scenarios.md` 3 lie inside the store.

use coppice_messages::Commit;

/// Code that runs at the fault points of the recorder. The store of a product run has [`NoFaults`].
pub trait FaultHooks: Send + Sync {
    /// Whether the points are to be passed through at all. Decoding commits for nobody would halve the store's speed.
    fn wants_events(&self) -> bool {
        false
    }

    /// FP4: JetStream has acknowledged and delivered these commits, the log has not recorded them.
    fn acked(&self, _commits: &[Commit]) {}

    /// FP3: the log has recorded and fsynced these commits, nobody who waits for them knows.
    fn synced(&self, _commits: &[Commit]) {}
}

/// No fault at any point.
#[derive(Debug, Clone, Copy)]
pub struct NoFaults;

impl FaultHooks for NoFaults {}
