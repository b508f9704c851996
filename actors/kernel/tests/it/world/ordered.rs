//! One run at a time: the test, and not the seed, says who comes first.

use coppice_kernel::Command;
use coppice_messages::{Millis, ids::RunId};

use super::World;

impl World {
    /// Lets everything happen that is on its way for one run, then what its next timer brings; false when neither is there.
    pub fn advance(&mut self, run: &RunId) -> bool {
        self.settle(run) || self.wake(run)
    }

    /// Lets everything happen that is on its way for one run; false when nothing is.
    pub fn settle(&mut self, run: &RunId) -> bool {
        let mut moved = false;
        while let Some(at) = self.pending.iter().position(|of| of.run() == run) {
            self.now = self.now.plus(Millis(1));
            let pending = self.pending.remove(at);
            self.happen(pending);
            moved = true;
        }
        moved
    }

    fn wake(&mut self, run: &RunId) -> bool {
        let Some(at) = self.arms.remove(run) else {
            return false;
        };
        self.now = self.now.max(at);
        self.tell(run, Command::Tick);
        true
    }
}
